"""Rows as the agents read them: where a prompt has its row, and rows of train with what was answered.

Rows follow a prompt without placeholders. Otherwise they replace the placeholders. A writer that hears of a
row behind its prompt adds a place for it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from autoprompt.metrics.base import unread_words
from autoprompt.records import EvaluatedRow
from autoprompt.text.templates import Language

Reader = Literal["analyze", "describe", "patch", "rewrite", "add"]


class _Told(NamedTuple):
    """behind: of a prompt without placeholders. filled: of one with `{marks}`."""

    behind: str
    filled: str


# The sentences for prompts without placeholders are those that the agents were measured with.
_LAYOUT: Mapping[Language, Mapping[Reader, _Told]] = {
    "en": {
        "analyze": _Told(
            "The prompt, which the model read before each row:",
            "The prompt, which the model read with each row filled in at {marks}:",
        ),
        "describe": _Told(
            "A language model reads this prompt, and behind it one row of data at a time:",
            "A language model reads this prompt with one row of data at a time filled in at {marks}:",
        ),
        "patch": _Told(
            "A model will read the edited prompt, and behind it one row of data at a time, and has to answer "
            "that row.",
            "A model will read the edited prompt with one row of data at a time filled in at {marks}, and "
            "has to answer that row. Nothing follows the prompt: each of its placeholders stays exactly "
            "once, where the row's text belongs.",
        ),
        "rewrite": _Told(
            "A model will read your version, and behind it one row of data at a time, and has to answer that "
            "row.",
            "A model will read your version with one row of data at a time filled in at {marks}, and has to "
            "answer that row. Nothing follows the prompt: each of its placeholders stays exactly once, where "
            "the row's text belongs.",
        ),
        "add": _Told(
            "puts the sentence behind it at the end of the prompt.",
            "puts the sentence behind it before the line with {first}.",
        ),
    },
    "zh": {
        "analyze": _Told(
            "提示词（模型在每条数据之前都会读到它）：",
            "提示词（模型读到它时，每条数据已填入 {marks} 处）：",
        ),
        "describe": _Told(
            "它先读到这段提示词，然后每次读到一行数据：",
            "它读到这段提示词，其中 {marks} 处每次填入一行数据：",
        ),
        "patch": _Told(
            "另一个模型会先读修改后的提示词，再读后面的一条数据，每次一条，并回答这条数据。",
            "另一个模型会读修改后的提示词，其中 {marks} 处每次填入一条数据，并回答这条数据。"
            "提示词后面不再有任何内容：每个占位符都恰好保留一次，放在数据应当出现的位置。",
        ),
        "rewrite": _Told(
            "另一个模型会先读你的改进版，再读后面的一条数据，每次一条，并回答这条数据。",
            "另一个模型会读你的改进版，其中 {marks} 处每次填入一条数据，并回答这条数据。"
            "提示词后面不再有任何内容：每个占位符都恰好保留一次，放在数据应当出现的位置。",
        ),
        "add": _Told("把其后的句子加到提示词末尾。", "把其后的句子加到含有 {first} 的那一行之前。"),
    },
}
_COMMA: Mapping[Language, str] = {"en": ", ", "zh": "、"}
_AND: Mapping[Language, str] = {"en": " and ", "zh": " 和 "}
_TO_WRITERS: tuple[Reader, ...] = ("analyze", "patch", "rewrite", "add")


def layout(reader: Reader, language: Language, marks: Sequence[str]) -> str:
    """Return what this reader learns.

    marks: the placeholders of the row's fields, as `{premise}`, in order.
    """
    told = _LAYOUT[language][reader]
    if not marks:
        return told.behind
    listed = _AND[language].join(filter(None, [_COMMA[language].join(marks[:-1]), marks[-1]]))
    return told.filled.format(marks=listed, first=marks[0])


def layout_phrases() -> Iterator[str]:
    """All that analyst and writer learn about it, without the placeholders' names."""
    for told in (readers[name] for readers in _LAYOUT.values() for name in _TO_WRITERS):
        yield told.behind
        yield from filter(None, (part.strip() for part in re.split(r"\{\w+\}", told.filled)))


ROWS_SHARE = 0.25  # of a writer's window, for all rows that it is shown; the rest is for prompt and answer
_CHARACTERS = 3  # of a token: fewer than most texts have
MOST_ROWS = 10  # that one author is shown; more in one reflection hurt (Combee: 87.0 with 3, 72.5 with 100)
_LEAST = 40  # characters that are left of any part of a row

_WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "wrong": "Rows that the prompt answers wrong:",
        "right": "Rows that it answers right, which must stay right:",
        "input": "Input: {}",
        "answer": "Its answer: {}",
        "expected": "Right answer: {}",
        "feedback": "Remark: {}",
        "sureness": "Probability that it gave the right answer: {}",
        "step": "Step {}: got {} and gave {}",
        "unreadable": "(no readable answer)",
        "failed": "failed: {}",
        "cut": " [... {:,} characters left out ...] ",
    },
    "zh": {
        "wrong": "提示词答错的数据：",
        "right": "答对、必须保持正确的数据：",
        "input": "输入：{}",
        "answer": "它的回答：{}",
        "expected": "正确答案：{}",
        "feedback": "评语：{}",
        "sureness": "它给正确答案的概率：{}",
        "step": "步骤 {}：得到 {}，给出 {}",
        "unreadable": "（无法读出答案）",
        "failed": "失败：{}",
        "cut": " [……省略 {:,} 个字符……] ",
    },
}


@dataclass(frozen=True, slots=True)
class ShownRows:
    """What one draft's author is shown.

    wrong: rows that the prompt answers wrong. right: rows that must stay right.
    component: whose steps of a program's trace are shown; "" shows all.
    """

    wrong: Sequence[EvaluatedRow] = ()
    right: Sequence[EvaluatedRow] = ()
    component: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.example_id for row in (*self.wrong, *self.right))

    def first(self, share: float) -> ShownRows:
        """Return the first of them: that share, rounded up, of either kind."""
        wrong, right = (rows[: -int(-share * len(rows) // 1)] for rows in (self.wrong, self.right))
        return ShownRows(wrong, right, self.component)


NO_ROWS = ShownRows()


def row_characters(window_tokens: int) -> int:
    """Return how much of one row is shown to a model with this window."""
    return int(window_tokens * ROWS_SHARE * _CHARACTERS) // MOST_ROWS


def rows_as_text(shown: ShownRows, language: Language, most: int) -> str:
    """Return the rows under their headings; of each at most about `most` characters. "" for no rows."""
    words, parts = _WORDS[language], []
    for heading, rows in (("wrong", shown.wrong), ("right", shown.right)):
        if rows:
            parts += [words[heading], *(_row(row, shown.component, language, most) for row in rows)]
    return "\n\n".join(parts)


def _row(row: EvaluatedRow, component: str, language: Language, most: int) -> str:
    words = _WORDS[language]
    answer = row.output or row.prediction
    if row.is_unparsed:
        answer = f"{answer} {words['unreadable']}".strip()
    lines: list[tuple[str, tuple[str, ...]]] = [("input", (row.full_text,)), ("answer", (answer,))]
    if not row.is_correct:
        remark = row.feedback
        if row.is_unparsed:
            remark = unread_words(row.unread, language) if row.unread else row.reason
        lines += [("expected", (row.ground_truth,)), ("feedback", (remark,))]
        if row.confidence is not None:
            lines.append(("sureness", (f"{row.confidence:.0%}",)))
    for step in row.trace:
        if not component or component in step.components:
            gave = words["failed"].format(step.error) if step.error else step.output
            lines.append(("step", (", ".join(step.components) or step.node, step.input or "-", gave or "-")))
    lines = [(name, texts) for name, texts in lines if any(texts)]
    room = iter(_fitted([text for _, texts in lines for text in texts], most, words["cut"]))
    return "\n".join(words[name].format(*(next(room) for _ in texts)) for name, texts in lines)


def _fitted(texts: Sequence[str], most: int, mark: str) -> list[str]:
    """Return the texts cut in their middle, the longest most, to `most` characters together."""
    left, room = most, dict[int, int]()
    for done, place in enumerate(sorted(range(len(texts)), key=lambda n: len(texts[n]))):
        room[place] = max(_LEAST, left // (len(texts) - done))
        left -= min(len(texts[place]), room[place])
    return [cut_in_the_middle(text, room[n], mark) for n, text in enumerate(texts)]


def cut_in_the_middle(text: str, most: int, mark: str) -> str:
    """Return the beginning and the end of a text that is longer than `most`, with a mark between them."""
    if len(text) <= most:
        return text
    kept = most // 2
    return text[:kept].rstrip() + mark.format(len(text) - 2 * kept) + text[-kept:].lstrip()
