"""The text of an answer without a model's thoughts, and without marks, for reading and comparing it.

Thoughts are in tags of many kinds, or in the channels of gpt-oss.
"""

from __future__ import annotations

import re
import unicodedata

from autoprompt.text.scripts import lazy

_OPENING, _CLOSING = "\"'`“”„‘’‚«»‹›「」『』*([{<【《（", "\"'`“”„‘’‚«»‹›「」『』*)]}>】》）"
# Latin and Chinese; Indic; Arabic; Armenian, Ethiopic, Burmese, Khmer.
_SENTENCE_END = ".。!！?？,，;；:：、" + "।॥" + "،؛؟۔" + "։።፣፧၊။។៕"

# Signs that models write for the hyphen, the minus and the apostrophe of a keyboard: U+2011 in non‑toxic, the
# minus of −1, an en dash inside a word or before a number, the apostrophe of don’t. A soft hyphen is none.
_HYPHEN = re.compile(r"[\u2010\u2011\u2212]|(?<=\w)\u2013(?=\w)|(?:^|(?<=\s))\u2013(?=\d)", re.MULTILINE)
_APOSTROPHE = re.compile(r"(?<=\w)\u2019(?=\w)")
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
# ~~ham~~ spam. A fence of tildes has three.
_STRUCK = lazy(r"(?<!~)~~(?![~\s])[^~\n]{1,200}~~(?!~)|<(del|s|strike)>[^<>]{0,200}</\1>", re.IGNORECASE)
_SOFT_HYPHEN = "\u00ad"


def visible(text: str) -> str:
    """Return the answer without surrounding space and without a model's thoughts."""
    return split_thoughts(text)[0]


def without_struck(text: str) -> str:
    """Return `text` without the parts that are struck through, if something else remains."""
    if "~~" not in text and "</" not in text:
        return text
    rest = _STRUCK.sub(" ", text)
    return rest if any(map(str.isalnum, rest)) else text


def normalize(text: str) -> str:
    """Return a text for comparing: NFKC, case folded, single spaces, no quotes or end marks around it.

    Hyphens and apostrophes that look alike become one. A text of only such marks stays as it is.
    """
    return without_marks(plain(text).casefold())


def plain(text: str) -> str:
    """Return the text in NFKC, with the hyphens, apostrophes and decimal digits of a keyboard."""
    text = _HYPHEN.sub("-", unicodedata.normalize("NFKC", text.replace(_SOFT_HYPHEN, "")))
    text = _APOSTROPHE.sub("'", text)
    return (
        text if text.isascii() else _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    )


def without_marks(text: str) -> str:
    """Return the text with single spaces, without quotes, brackets and end marks around it."""
    line = " ".join(text.split())
    return line.lstrip(_OPENING + " ").rstrip(_CLOSING + _SENTENCE_END + " ") or line


# What opens and what closes a thought.
_MARKS = (
    (r"(?i:<think(?:ing)?>)", r"(?i:</think(?:ing)?>)"),  # DeepSeek-R1, Qwen3, QwQ and most others
    (r"(?i:<thoughts?>)", r"(?i:</thoughts?>)"),  # EXAONE Deep
    (r"<seed:think>", r"</seed:think>"),  # Seed-OSS
    (r"<longcat_think>", r"</longcat_think>"),
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (  # Sky-T1, OpenThinker
        r"<\|begin_of_thought\|>",
        r"(?:<\|end_of_thought\|>\s*<\|begin_of_solution\|>|<\|(?:end_of_thought|begin_of_solution)\|>)",
    ),
    (  # Command A Reasoning
        r"<\|START_THINKING\|>",
        r"(?:<\|END_THINKING\|>\s*<\|START_RESPONSE\|>|<\|(?:END_THINKING|START_RESPONSE)\|>)",
    ),
    (r"<\|channel>thought\b", r"<channel\|>"),  # Gemma
    (r"<unused94>(?:thought\b)?", r"<unused95>"),  # MedGemma
)
# Words, which other models write before an answer, too: no thought unless they are closed.
_WORDED = (
    (r"\A\s*Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),  # Granite
    (r"\A\s*Here are my reasoning steps:", r"\[BEGIN FINAL RESPONSE\]"),  # Apriel
)
_ANSWER_END = lazy(r"(?:<\|end_of_solution\|>|<\|END_RESPONSE\|>|\[END FINAL RESPONSE\])\s*\Z")
_END = "|".join(end for _, end in _MARKS)
_SPAN = "|".join(
    [rf"{begin}.*?(?:{end}|\Z)" for begin, end in _MARKS] + [rf"{begin}.*?{end}" for begin, end in _WORDED]
)
_THOUGHT = lazy(_SPAN, re.DOTALL)
_BEGIN = lazy("|".join(begin for begin, _ in (*_MARKS, *_WORDED)))
_THOUGHT_END = lazy(_END)
_CLOSED = lazy(rf"(?:{'|'.join(end for _, end in (*_MARKS, *_WORDED))})\Z")
# At the beginning alone. A mark in quotes is a text that code searches for.
_OPENING_THOUGHT = lazy(rf"\s*(?:{_SPAN})|(?:.*[^'\"])?(?:{_END})(?=[\s<]|\Z)", re.DOTALL)
# Harmony, the format of gpt-oss, where a server hands it on. The prompt may have opened the first message.
_CHANNELS = lazy(
    r"(?:\A\s*(?:<\|start\|>\s*assistant[^<]*|assistant[^<]*)?|<\|end\|>\s*<\|start\|>\s*assistant[^<]*)"
    r"<\|channel\|>\s*(?:analysis|commentary|final)\b"
)
_OPENED = ("assistant", "analysis")  # what is left of a first mark that the prompt opened
_MARK = lazy(r"<\|(start|channel|constrain|message|end|return|call)\|>")
# The same from a server that leaves special tokens out: the names of roles and channels remain.
_BARE_CHANNELS = lazy(r"\s*(?:assistant)?analysis(.*?)assistantfinal(.*)", re.DOTALL)
# One of these is in every mark above. Most answers are a word or two: they are read several times each.
_HINT = lazy(r"[<\[◁]|Here|assistantfinal")


def split_thoughts(text: str) -> tuple[str, list[str]]:
    """Return the answer without surrounding space, and the thoughts around it.

    A thought that has no end is all that follows. If a thought has only an end, all before it is thought: the
    chat templates of DeepSeek-R1, QwQ and Qwen3 open the tag in the prompt, so their answers do not hold it.
    Of channels the first final one is the answer, and what is before it is thought; without a final one there
    is no answer yet.
    """
    if _HINT.search(text) is None:
        return text.strip(), []
    if (spoken := _by_channel(text)) is not None:
        return spoken
    *unopened, answer = _THOUGHT_END.split(_THOUGHT.sub("", text))
    thoughts = [thought.strip() for thought in (*unopened, *map(_inside, _THOUGHT.finditer(text)))]
    return (_ANSWER_END.sub("", answer) if thoughts else answer).strip(), thoughts


def is_unfinished_thought(text: str) -> bool:
    """Return whether the text is a thought that was opened and never closed, without an answer."""
    return bool(text.strip()) and not split_thoughts(text)[0] and _THOUGHT_END.search(text) is None


def without_opening_thought(text: str) -> str:
    """Return `text` without the thought that it begins with. A mark in quotes, as in code, is no thought."""
    if (spoken := _by_channel(text)) is not None:
        return spoken[0]
    thought = _OPENING_THOUGHT.match(text)
    return _ANSWER_END.sub("", text[thought.end() :]) if thought else text


def _inside(thought: re.Match[str]) -> str:
    """Return a thought without the marks around it."""
    opened = _BEGIN.match(thought[0])
    closed = _CLOSED.search(thought[0])
    return thought[0][opened.end() if opened else 0 : closed.start() if closed else None]


def _by_channel(text: str) -> tuple[str, list[str]] | None:
    """Return answer and thoughts of a text in channels; None if it is in none."""
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
