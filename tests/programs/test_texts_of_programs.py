"""Which texts of requests are prompts, and how others are put in their place."""

from __future__ import annotations

import pytest

from autoprompt.programs.dialects import Answered, Part
from autoprompt.programs.finding import find_components
from autoprompt.programs.placing import Placed, hole_of, placed_texts
from autoprompt.programs.scope import Seen


def request(site: str, system: str, user: str, answer: str = "") -> Seen:
    parts = (
        Part("system", ("messages", 0, "content"), system),
        Part("user", ("messages", 1, "content"), user),
    )
    return Seen(site, parts, Answered(answer), "m")


@pytest.mark.parametrize(
    ("name", "hole"),
    [
        ("text", "text"),
        ("route-ticket", "route_ticket"),
        ("my field", "my_field"),
        ("文本", "文本"),
        ("2nd", "_2nd"),
    ],
)
def test_any_name_of_a_field_or_a_node_has_a_hole(name: str, hole: str) -> None:
    assert hole_of(name) == hole
    rows = [
        ({name: f"row {n} of all"}, [request("ask", "Answer the question.", f"This is it: row {n} of all!")])
        for n in (1, 2)
    ]
    _, template = find_components(rows)
    assert template.original == f"This is it: {{{hole}}}!"
    assert template.kind == "template"
    assert template.values("This is it: something else!") == {hole: "something else"}
    assert template.filled(f"Now {{{hole}}}.", {hole: "x"}) == "Now x."


def test_a_hole_that_comes_again_holds_the_same_text() -> None:
    twice = Placed("a.user", "template", "a", "user", "{text} is {text}, says {who}")
    assert twice.values("x is x, says y") == {"text": "x", "who": "y"}
    assert twice.values("x is z, says y") is None


def test_an_earlier_answer_is_a_hole_of_its_node() -> None:
    rows = [
        (
            {"text": f"ticket number {n} here"},
            [
                request("sum-up", "Sum up the ticket.", f"ticket number {n} here", f"summary {n * 7}"),
                request("route", "Choose the queue.", f"About summary {n * 7}, of: ticket number {n} here"),
            ],
        )
        for n in (1, 2)
    ]
    originals = {placed.name: placed.original for placed in find_components(rows)}
    assert originals["route.user"] == "About {sum_up.answer}, of: {text}"


def test_a_short_value_that_is_a_word_of_the_prompt_is_no_hole() -> None:
    rows = [
        (
            {"text": f"ticket {n}", "kind": "tech"},
            [request("a", "Say billing or tech.", f"The tech ticket {n} is new")],
        )
        for n in (1, 2)
    ]
    system, user = find_components(rows)
    assert (system.original, system.kind) == ("Say billing or tech.", "instruction")
    assert user.original == "The tech {text} is new"


def test_a_prompt_in_chinese_is_found_though_it_is_short() -> None:
    rows = [({"文本": f"第{n}条新闻标题"}, [request("判断", "判断标题", f"第{n}条新闻标题")]) for n in (1, 2)]
    (found,) = find_components(rows)
    assert (found.name, found.original) == ("判断.system", "判断标题")


def test_a_text_of_one_row_alone_is_no_prompt() -> None:
    rows = [({"text": "one row"}, [request("a", "Something long enough.", "one row")])]
    assert find_components(rows) == []


def test_another_text_goes_to_its_own_site_alone() -> None:
    placed = [Placed(f"{site}.system", "instruction", site, "system", "Answer well.") for site in ("a", "b")]
    parts = request("a", "Answer well.", "x").parts
    names, changed = placed_texts("a", parts, placed, {"a.system": "Answer better.", "b.system": "No."}, ())
    assert names == ("a.system",)
    assert changed == {("messages", 0, "content"): "Answer better."}
