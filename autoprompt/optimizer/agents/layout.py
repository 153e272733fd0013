"""Where the row is in a prompt, in words for the agents that read or write prompts.

Rows follow a prompt without placeholders. Otherwise they replace the placeholders. A writer that hears of a
row behind its prompt adds a place for it there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

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
