"""Prompts that have the model reason before it answers: how they say so, and where the answer then stands.

Nothing but the prompt's own text says it, so it is the same wherever the prompt goes: an exported one, one in
a file, one of a baseline. A label is not enforced there, since that would leave no room to reason in.

Measured on the embedded model (BIG-Bench Hard's `navigate`, rows of train): answered at once 14 of 31, with
31 demonstrations 17 of 31. Asked for short steps alone 9 of 19: it said each step and lost count. Asked for
how things stand after each step 40 of 62, at about 150 tokens an answer; every third error was an answer that
its own last step spoke against ("we end up at (5, 0). Answer: Yes"). Asked to compare the end with what is
asked 44 of 62, with the question repeated there 45, and 50 with a blank line in front. All of it behind the
row 18 of 31, where it had 23 and 27 before the row. With six of its own right answers as demonstrations (and
no comparing) 15 of 24. Asked for less text it lost count again: of the first 30 rows 26 with the line as it
is (151 tokens an answer), 20 with "short notes instead of sentences" (101), 15 with one line a step and an
arrow (4 tokens: it answered at once). Asked besides to "keep each step to a few words on one line", on
another machine, 42 of 55 (41 without), with 83 tokens an answer instead of 150, but 11 of 62 were answered at
once. With "beginning with the first" put before that, nearly all were: which words make so small a model skip
its work cannot be foreseen. With the six shortest of its right answers as demonstrations 2 of 10, no shorter.
The Chinese line is a translation and was not measured.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoprompt.text.answers.texts import visible
from autoprompt.text.scripts import lazy
from autoprompt.text.templates import Language, language_of

OUTPUT_TOKENS = 512  # of a reasoned answer; a model that has not come to an end by then goes round in circles
USUAL_TOKENS = 200  # that such an answer takes, for what has to be kept back

_STEPS: dict[Language, str] = {
    "en": "Work it out step by step. After each step write down how things stand, in numbers where there are "
    "any: a position as (x, y), a count, a total. ",
    "zh": "请逐步推理，每一步之后写下当前的状态，能用数字就用数字：位置写作 (x, y)，数量，合计。",
}
_COMPARE: dict[Language, str] = {
    "en": "Then compare how things stand in the end with what is asked",
    "zh": "然后把最后的状态与题目所问的对照",
}
_QUOTED: dict[Language, str] = {"en": ': "{}" ', "zh": "：“{}”。"}
_UNQUOTED: dict[Language, str] = {"en": ". ", "zh": "。"}
_END: dict[Language, str] = {
    "en": 'End with a line that begins with "Answer:" and holds ',
    "zh": "最后一行以“答案：”开头，写上",
}
_ONE_OF: dict[Language, str] = {"en": "one of: ", "zh": "以下之一："}
_ALONE: dict[Language, str] = {"en": "the answer alone.", "zh": "答案本身。"}
_JOIN: dict[Language, str] = {"en": ", ", "zh": "、"}
_MOST_OF_LABELS = 8_000  # characters: every row is sent with this line
_MOST_QUOTED = 300  # characters of a prompt that the line repeats: a longer one is more than a question

_ASKS = lazy("|".join(rf"{re.escape(line.strip())}[^\n]*" for line in _STEPS.values()))
# The line that is asked for; `"answer": 42` inside an object is none.
_LINE = lazy(r"^[\s*_#>-]*(?:final\s+)?(?:answer|答案)[\s*_]*[:：][\s*]*", re.IGNORECASE | re.MULTILINE)
_INLINE = lazy(r"\banswer\s+is\b[:：]?[\s*]*|答案(?:是|为)[:：]?[\s*]*", re.IGNORECASE)
_BLOCK = ("{", "[", "`")  # what an answer of several lines begins with


def asks_to_reason(prompt: str) -> bool:
    """Return whether the prompt holds the line of `request`; other words for it do not count."""
    return _ASKS.search(prompt) is not None


def request(prompt: str, labels: Sequence[str]) -> str:
    """Return the line, in the language of `prompt`, that asks the model to reason.

    Thousands of labels are not listed. A short prompt without placeholders is repeated in the line.

    Args:
        prompt: The text that the line is for.
        labels: The only answers; () for others.
    """
    language = language_of(prompt)
    asked = " ".join(prompt.split())
    is_quoted = asked and len(asked) <= _MOST_QUOTED and "{" not in asked
    compare = _COMPARE[language] + (_QUOTED[language].format(asked) if is_quoted else _UNQUOTED[language])
    listed = _JOIN[language].join(labels)
    answer = _ONE_OF[language] + listed if 0 < len(listed) <= _MOST_OF_LABELS else _ALONE[language]
    return _STEPS[language] + compare + _END[language] + answer


def requests_in(prompt: str) -> list[str]:
    """Return the passages of `prompt` that ask for it: without them the model would answer at once."""
    return [found.group().rstrip() for found in _ASKS.finditer(prompt)]


def has_answer_line(text: str) -> bool:
    """Return whether an answer has a line that begins with "Answer:"."""
    return _LINE.search(visible(text)) is not None


def final_answer(text: str, *, is_cut: bool = False) -> str | None:
    """Return what a reasoned answer ends with; None if it comes to no answer.

    That is the rest of the last line that begins with "Answer:", or all after it if a block (JSON, code)
    begins there; else what follows the last "answer is"; else the last line, unless the text was cut.
    """
    shown = visible(text)
    if mark := _mark(shown, is_cut=is_cut):
        rest = shown[mark.end() :].strip()
        return (rest if rest.startswith(_BLOCK) else rest.partition("\n")[0].strip()) or None
    return None if is_cut else shown.rpartition("\n")[2].strip() or None


def is_marked(text: str, *, is_cut: bool = False) -> bool:
    """Return whether `final_answer` is what follows an "Answer:" or "answer is"."""
    return _mark(visible(text), is_cut=is_cut) is not None


def _mark(shown: str, *, is_cut: bool) -> re.Match[str] | None:
    marks = list(_LINE.finditer(shown)) or ([] if is_cut else list(_INLINE.finditer(shown)))
    return marks[-1] if marks else None
