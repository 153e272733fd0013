"""Which texts of requests are prompts, and how others are put in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from autoprompt.llm.client import Completion, Options, RawAnswer
from autoprompt.programs.dialects import CHAT, Answered, Part
from autoprompt.programs.finding import NoSource, alike, find_components
from autoprompt.programs.placing import Placed, hole_of, placed_texts
from autoprompt.programs.scope import Call, RowScope, Seen
from autoprompt.records import Message


class Held(NoSource):
    """A source that holds these texts, each in a literal of its own."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def holds(self, text: str) -> bool:
        return text in self.texts


class Shared(Held):
    """A source in which each of these texts is in one literal."""

    def is_one(self, text: str, tool: str = "") -> bool:
        return text in self.texts


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


@pytest.mark.parametrize(
    ("form", "rest"),
    [
        ("%Y-%m-%d", ""),
        ("%Y-%m-%dT%H:%M:%S.%f+00:00", ""),
        ("%B %d, %Y", ""),
        ("%d.%m.%Y, %H:%M", " o'clock"),
        ("%a %b %d %H:%M:%S %Y", ""),
        ("%Y年%m月%d日", "。"),
    ],
)
def test_the_date_of_today_is_a_hole_unless_the_source_holds_it(form: str, rest: str) -> None:
    said = f"Sort the tickets. Today is {datetime.now().strftime(form)}{rest}. In 2019-01-02, 10:30 was late."
    rows = [({"text": f"item {n}"}, [request("ask", said, f"item {n}")]) for n in range(3)]
    (found,) = (one for one in find_components(rows) if one.role == "system")
    assert found.original == f"Sort the tickets. Today is {{changing1}}{rest}. In 2019-01-02, 10:30 was late."
    later = found.original.format(changing1="2031-05-06 07:08:09")
    assert (found.kind, found.values(later)) == ("template", {"changing1": "2031-05-06 07:08:09"})
    (plain,) = (one for one in find_components(rows, Held(said)) if one.role == "system")
    assert (plain.original, plain.kind) == (said, "instruction")


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


QUEUES = ("billing", "repair", "sales", "billing", "sales", "repair", "billing", "sales")
IN_CHINESE = {"billing": "账单", "repair": "维修", "sales": "销售"}
LETTERS = {"billing": "A", "repair": "B", "sales": "C"}


def rows_of(*asked: Callable[[str, str], Seen]) -> list[tuple[dict[str, str], list[Seen]]]:
    """Rows with mails of three queues. asked: make the requests of a row from its mail and queue."""
    mails = [(f"mail number {n} about my bike", queue) for n, queue in enumerate(QUEUES)]
    return [({"text": mail}, [one(mail, queue) for one in asked]) for mail, queue in mails]


@pytest.mark.parametrize(
    ("said", "prompt", "original"),
    [
        ({}, "You sort mail. The topic is {}. Which queue?", "{ask.answer}"),
        ({}, "The topic is {}. Which queue: billing, repair or sales?", "{ask.answer}"),
        ({}, "Choose among billing, repair, sales.\n\nTopic: {}", "{ask.answer}"),
        (LETTERS, "A colleague chose {}. Is it A, B or C?", "{ask.answer}"),
        (IN_CHINESE, "你负责整理邮件。主题是：{}。应该分到哪个队列：账单、维修还是销售？", "{ask.answer}"),
    ],
)
def test_an_earlier_answer_is_a_hole_though_it_is_one_of_a_few(
    said: dict[str, str], prompt: str, original: str
) -> None:
    def filled(queue: str) -> str:
        return prompt.format(said.get(queue, queue))

    topic = "Name the topic, 主题。"
    rows = rows_of(
        lambda mail, queue: request("ask", topic, mail, said.get(queue, queue)),
        lambda mail, queue: request("ask", filled(queue), f"{filled(queue)}\n{mail}", "x"),
    )
    found = {placed.name: placed.original for placed in find_components(rows)}
    assert found == {
        "ask.system": topic,
        "ask.system2": prompt.format(original),
        "ask.user": f"{prompt.format(original)}\n{{text}}",
    }


def test_an_answer_before_the_last_one_is_a_hole_too() -> None:
    rows = rows_of(
        lambda mail, queue: request("ask", "Name the topic.", mail, queue),
        lambda mail, _: request("ask", "What is the mood of this?", mail, "good"),
        lambda mail, queue: request("ask", f"Write to somebody about {queue} in a good mood.", mail, "x"),
    )
    last = find_components(rows)[-1]
    assert last.original == "Write to somebody about {ask.answer1} in a good mood."


def test_words_that_code_chooses_are_a_hole_unless_the_source_holds_the_texts() -> None:
    def prompt(queue: str) -> str:
        how = "urgent" if queue == "billing" else "normal"
        return f"You sort mail. This one is {how}. Which queue: billing, repair or sales?"

    rows = rows_of(lambda mail, queue: request("ask", prompt(queue), mail, queue))
    (one,) = find_components(rows)
    assert one.original == "You sort mail. This one is {changing1}. Which queue: billing, repair or sales?"
    held = {prompt(queue) for queue in QUEUES}
    assert {placed.original for placed in find_components(rows, Held(*held))} == held


def test_texts_that_each_row_sends_are_two_prompts_and_may_be_one() -> None:
    rows = rows_of(
        lambda mail, _: request("ask", "Translate it into French, word by word.", mail),
        lambda mail, _: request("ask", "Translate it into German, word by word.", mail),
        lambda mail, _: request("ask", "Now choose the best of both for me.", mail),
    )
    found = find_components(rows)
    assert [placed.name for placed in found] == ["ask.system", "ask.system2", "ask.system3"]
    assert list(alike(found, NoSource())) == [(found[0], found[1])]
    assert list(alike(found, Held(*(placed.original for placed in found)))) == []


def test_texts_of_one_literal_that_each_row_sends_are_one_prompt() -> None:
    """As of a graph that sends a task to each of its angles."""
    rows = rows_of(
        *(
            lambda mail, _, angle=angle: request("look", f"Look at the mail with an eye on {angle}.", mail)
            for angle in ("money", "machines", "time")
        )
    )
    (one,) = find_components(rows, Shared("Look at the mail with an eye on {changing1}."))
    assert (one.original, one.kind) == ("Look at the mail with an eye on {changing1}.", "template")
    assert len(find_components(rows)) == 3


def test_one_literal_that_two_sites_send_is_one_prompt() -> None:
    said = "Answer in the language of the mail."
    rows = rows_of(
        lambda mail, _: request("first", said, mail),
        lambda mail, _: request("second", said, f"Here is the mail: {mail}!"),
    )
    first, second, user = find_components(rows, Shared(said))
    assert (first.name, first.site) == ("first.system", "first")
    assert (second.name, second.site) == ("first.system", "second")
    assert user.name == "second.user"
    assert [placed.name for placed in find_components(rows, Held(said))][:2] == [
        "first.system",
        "second.system",
    ]


@pytest.mark.parametrize("second", [lambda queue: queue, lambda queue: min(queue, "repair")])
def test_equal_answers_are_holes_of_their_own(second: Callable[[str], str]) -> None:
    """Two colleagues agree in the trial, and do not later."""
    rows = rows_of(
        lambda mail, queue: request("vote", "Say it strictly.", mail, queue),
        lambda mail, queue: request("vote", "Say it kindly.", mail, second(queue)),
        lambda mail, queue: request("pick", "Pick.", f"One: {queue}. Other: {second(queue)}. Mail: {mail}"),
    )
    last = find_components(rows)[-1]
    assert last.original == "One: {vote.answer1}. Other: {vote.answer}. Mail: {text}"
    assert last.values("One: vote a. Other: vote b. Mail: m") is not None


def test_turns_of_demonstrations_are_no_prompts() -> None:
    def asked(mail: str, *turns: tuple[str, str], system: str = "") -> Seen:
        said = [*([("system", system)] if system else []), *turns, ("user", f"Mail: {mail}, says he.")]
        parts = tuple(Part(role, ("messages", n, "content"), text) for n, (role, text) in enumerate(said))  # type: ignore[arg-type]
        return Seen("ask", parts, Answered("billing"), "m")

    def names(*turns: tuple[str, str], system: str = "") -> list[str]:
        rows = rows_of(lambda mail, _: asked(mail, *turns, system=system))
        return [placed.name for placed in find_components(rows)]

    shown = (("user", "The sum is wrong."), ("assistant", "billing"))
    more = (("user", "The screen is black."), ("assistant", "repair"))
    assert names(*shown, *more, system="Name the queue of a mail.") == ["ask.system", "ask.user"]
    # A model that knows no system message is told first, and says that it understands.
    primed = (("user", "You name the queue of a mail."), ("assistant", "I understand."))
    assert names(*primed, *more) == ["ask.user", "ask.user2"]


def test_a_conversation_of_the_program_is_no_demonstration() -> None:
    def second(mail: str, queue: str) -> Seen:
        turns = [
            ("system", "You sort the mail."),
            ("user", f"Name the topic of {mail}, please."),
            ("assistant", queue),
        ]
        said = [*turns, ("user", "Now write a polite answer.")]
        parts = tuple(Part(role, ("messages", n, "content"), text) for n, (role, text) in enumerate(said))  # type: ignore[arg-type]
        return Seen("ask", parts, Answered("x"), "m")

    rows = rows_of(
        lambda mail, queue: request("ask", "You sort the mail.", f"Name the topic of {mail}, please.", queue),
        second,
    )
    assert [placed.name for placed in find_components(rows)] == ["ask.system", "ask.user", "ask.user2"]


def test_requests_side_by_side_have_one_order() -> None:
    """Which of two answers comes first is chance, and so is at times which of two requests begins first."""

    def row(n: int) -> list[Seen]:
        mail = f"mail number {n} about my bike"
        one, two = (request("ask", said, mail, "x") for said in ("Be strict with it.", "Be kind to it."))
        begun = (1, 0) if n == 0 else (0, 1)
        seen = [replace(one, begun=begun[0]), replace(two, begun=begun[1])]
        return seen[:: -1 if n % 2 else 1]

    found = find_components([({"text": f"mail number {n} about my bike"}, row(n)) for n in range(5)])
    assert [(placed.name, placed.original) for placed in found] == [
        ("ask.system", "Be strict with it."),
        ("ask.system2", "Be kind to it."),
    ]


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


def test_the_trace_has_the_order_in_which_calls_began() -> None:
    """Which of two answers comes first is chance, and what the writer is shown must not depend on it."""

    class Echo:
        def complete(self, messages: list[Message], options: Options) -> Completion:
            return Completion(messages[-1].content, raw=RawAnswer(200, "application/json", "{}"))

    row = RowScope(Echo())  # type: ignore[arg-type]
    for begun, said in ((2, "third"), (0, "first"), (1, "second")):
        body = {"messages": [{"role": "user", "content": said}]}
        row.ask(Call(CHAT, "http://x/v1", body, "ask", lambda _: (200, {}, b"")), begun)
    assert [step.output for step in row.steps] == ["first", "second", "third"]
