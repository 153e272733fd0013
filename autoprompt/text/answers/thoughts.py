"""What reasoning models think, in `<think>` or in channels (gpt-oss), apart from what they answer."""

from __future__ import annotations

import re

from autoprompt.text.patterns import lazy

_END = r"</think(?:ing)?>"
_THOUGHT = lazy(rf"<think(?:ing)?>(.*?)(?:{_END}|\Z)", re.DOTALL | re.IGNORECASE)
_CLOSING = lazy(_END, re.IGNORECASE)
# At the beginning alone. A mark in quotes is a text that code searches for.
_OPENING_THOUGHT = lazy(
    rf"\s*<think(?:ing)?>.*?(?:{_END}|\Z)|(?:.*[^'\"])?{_END}(?=[\s<]|\Z)", re.DOTALL | re.IGNORECASE
)
# Harmony, the format of gpt-oss, where a server hands it on. The prompt may have opened the first message.
_CHANNELS = lazy(
    r"(?:\A\s*(?:<\|start\|>\s*assistant[^<]*|assistant[^<]*)?|<\|end\|>\s*<\|start\|>\s*assistant[^<]*)"
    r"<\|channel\|>\s*(?:analysis|commentary|final)\b"
)
_OPENED = ("assistant", "analysis")  # what is left of a first mark that the prompt opened
_MARK = lazy(r"<\|(start|channel|constrain|message|end|return|call)\|>")
# The same from a server that leaves special tokens out: the names of roles and channels remain.
_BARE_CHANNELS = lazy(r"\s*(?:assistant)?analysis(.*?)assistantfinal(.*)", re.DOTALL)


def parted(text: str) -> tuple[str, list[str]]:
    """The answer without surrounding space, and the thoughts around it.

    One that has no end is all that follows. Where a thought has an end only, all before it is thought: the
    chat templates of DeepSeek-R1, QwQ and Qwen3 open the tag in the prompt, so that no answer of theirs holds
    it. Of channels the first final one is the answer, and what stands before it is thought; without a final
    one there is no answer yet.
    """
    if (spoken := _by_channel(text)) is not None:
        return spoken
    *unopened, answer = _CLOSING.split(_THOUGHT.sub("", text))
    return answer.strip(), [thought.strip() for thought in (*unopened, *_THOUGHT.findall(text))]


def without_opening(text: str) -> str:
    """`text` behind the thought that it begins with, as `parted` finds it; what may be code stays whole."""
    if (spoken := _by_channel(text)) is not None:
        return spoken[0]
    thought = _OPENING_THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def _by_channel(text: str) -> tuple[str, list[str]] | None:
    """Answer and thoughts of a text in channels; None where it is in none."""
    if bare := _BARE_CHANNELS.fullmatch(text):
        return bare[2].strip(), [bare[1].strip()]
    if not _CHANNELS.search(text):
        return None
    head, *rest = _MARK.split(text)
    said, channel, answer = [] if head.strip() in _OPENED else [head], "", ""
    for mark, part in zip(rest[::2], rest[1::2], strict=True):
        if mark in ("start", "channel"):
            channel = part.split()[0] if mark == "channel" and part.strip() else ""
        elif mark == "message" and channel == "final":
            answer = part.strip()
            break  # what a model that finds no end writes behind it is the next turn of the chat
        elif mark == "message":
            said.append(part)
    return answer, [thought for part in said if (thought := part.strip())]
