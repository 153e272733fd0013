"""What reasoning models think before they answer, in `<think>` or `<thinking>`: apart from the answer."""

from __future__ import annotations

import re

_END = r"</think(?:ing)?>"
_THOUGHT = re.compile(rf"<think(?:ing)?>(.*?)(?:{_END}|\Z)", re.DOTALL | re.IGNORECASE)
_CLOSING = re.compile(_END, re.IGNORECASE)
# At the beginning alone. A mark in quotes is a text that code searches for.
_OPENING_THOUGHT = re.compile(
    rf"\s*<think(?:ing)?>.*?(?:{_END}|\Z)|(?:.*[^'\"])?{_END}(?=[\s<]|\Z)", re.DOTALL | re.IGNORECASE
)


def parted(text: str) -> tuple[str, list[str]]:
    """The answer without surrounding space, and the thoughts around it.

    One that has no end is all that follows. Where a thought has an end only, all before it is thought: the
    chat templates of DeepSeek-R1, QwQ and Qwen3 open the tag in the prompt, so that no answer of theirs holds
    it.
    """
    *unopened, answer = _CLOSING.split(_THOUGHT.sub("", text))
    return answer.strip(), [thought.strip() for thought in (*unopened, *_THOUGHT.findall(text))]


def without_opening(text: str) -> str:
    """`text` behind the thought that it begins with, as `parted` finds it; what may be code stays whole."""
    thought = _OPENING_THOUGHT.match(text)
    return text[thought.end() :] if thought else text
