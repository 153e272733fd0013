"""Where analyst, describer and writer are told that the row stands."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, bench, splits_of, writer

from autoprompt.dataset.splits import Splits
from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.agents.rows import layout, layout_phrases
from autoprompt.optimizer.graph import build_graph, first_state, recursion_limit
from autoprompt.optimizer.search.plan import Depth
from autoprompt.records import Example, Message

FIELDS = "Mind both.\nPremise: {premise}\nHypothesis: {hypothesis}\nSay A or B:"
EN = "with one row of data at a time filled in at {premise} and {hypothesis}"
ZH = "其中 {premise} 和 {hypothesis} 处每次填入一"


def of_fields(splits: Splits) -> Splits:
    def held(row: Example) -> Example:
        return replace(row, fields={**row.fields, "premise": "p", "hypothesis": row.input})

    parts = (tuple(map(held, part)) for part in (splits.train, splits.val, splits.test))
    return Splits(*parts, splits.labels, 0, {}, "", {})


def author(messages: list[Message], options: Options) -> Completion:
    if "B: …" in messages[-1].content:
        return Completion("A: an item that is the first of two\nB: an item that is the other one")
    return writer(messages, options)


def requests(prompt: str, **settings: Any) -> list[str]:
    """What the optimizer's model was sent in a small run."""
    depth = Depth(max_iterations=3, calls_per_row=10, candidates=6, writers=4, patience=3)
    splits = of_fields(splits_of(32, 60, 20))
    made = bench(World(base=0.3).student, author, prompt=prompt, splits=splits, depth=depth, **settings)
    state = first_state(made.context, {})
    build_graph().invoke(state, {"recursion_limit": recursion_limit(3)}, context=made.context)  # type: ignore[arg-type]
    return [call[-1].content for call in made.author.calls]


def kinds(sent: list[str]) -> list[str]:
    """The requests by who is asked; of each the first."""
    marks = ("find out why|为什么会导致", "For each answer|说明每个答案", "ADD:", "Write a better|改进版：")
    return [next(text for text in sent if re.search(mark, text)) for mark in marks]


def test_a_prompt_with_placeholders_has_its_row_there() -> None:
    sent = requests(FIELDS)
    analyst, describer, patcher, rewriter = kinds(sent)
    assert "which the model read with each row filled in at {premise} and {hypothesis}:" in analyst
    assert f"A language model reads this prompt {EN}:" in describer
    assert f"A model will read the edited prompt {EN}, and has to answer that row." in patcher
    assert "puts the sentence behind it before the line with {premise}." in patcher
    assert f"A model will read your version {EN}, and has to answer that row." in rewriter
    for text in (patcher, rewriter):
        assert "each of its placeholders stays exactly once, where the row's text belongs." in text
    assert not any("behind it one row" in text or "before each row" in text for text in sent)


def test_so_has_a_chinese_one() -> None:
    sent = requests("判断关系。\n前提：{premise}\n假设：{hypothesis}\n回答：")
    analyst, describer, patcher, rewriter = kinds(sent)
    assert "每条数据已填入 {premise} 和 {hypothesis} 处" in analyst
    assert f"它读到这段提示词，{ZH}行数据：" in describer
    assert f"另一个模型会读修改后的提示词，{ZH}条数据" in patcher
    assert "加到含有 {premise} 的那一行之前。" in patcher
    assert f"另一个模型会读你的改进版，{ZH}条数据" in rewriter
    assert patcher.count("恰好保留一次") == rewriter.count("恰好保留一次") == 1


@pytest.mark.parametrize("prompt", ["Say A or B of {other}.", "Say A or B, as {target} has it."])
def test_without_one_all_stays_as_it_was_measured(prompt: str) -> None:
    """The answer's field is never filled in."""
    analyst, describer, patcher, rewriter = kinds(requests(prompt))
    assert "\n\nThe prompt, which the model read before each row:\n<prompt>\n" in analyst
    assert describer.startswith(
        "A language model reads this prompt, and behind it one row of data at a time:\n<prompt>\n"
    )
    assert (
        "\n\nMake at most 4 edits. A model will read the edited prompt, and behind it one row of data at a "
        "time, and has to answer that row. Every sentence that you add is an instruction to that model"
    ) in patcher
    assert "ADD: puts the sentence behind it at the end of the prompt. A line that begins" in patcher
    assert (
        "of the field that decide. A model will read your version, and behind it one row of data at a time, "
        "and has to answer that row. So write instructions"
    ) in rewriter


def test_a_workflows_prompt_is_sent_more_than_the_row() -> None:
    assert not any(
        "filled in at" in text for text in requests("Say A or B: {hypothesis}", answers_rows=False)
    )


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        (["{a}"], "at {a}:"),
        (["{a}", "{b}"], "at {a} and {b}:"),
        (["{a}", "{b}", "{c}"], "at {a}, {b} and {c}:"),
    ],
)
def test_the_placeholders_are_listed(marks: list[str], told: str) -> None:
    assert layout("describe", "en", marks).endswith(told)


def test_what_is_told_of_it_is_no_text_of_a_prompt() -> None:
    assert not any("{" in phrase for phrase in layout_phrases())
