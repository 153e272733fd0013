"""What a text says without its marks: for reading it, and for comparing it with another."""

from __future__ import annotations

import re
import unicodedata

from autoprompt.text.answers.thoughts import parted
from autoprompt.text.patterns import lazy

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
    """The answer without surrounding space and without the `<think>` part of reasoning models."""
    return parted(text)[0]


def unstruck(text: str) -> str:
    """`text` without what is struck through, if anything else is said."""
    if "~~" not in text and "</" not in text:
        return text
    rest = _STRUCK.sub(" ", text)
    return rest if any(map(str.isalnum, rest)) else text


def normalize(text: str) -> str:
    """For comparing: NFKC, case folded, single spaces, without quotes, brackets and end marks around it.

    Hyphens and apostrophes that look alike are one. A text of nothing but such marks stays as it is.
    """
    return bare(plain(text).casefold())


def plain(text: str) -> str:
    """NFKC, with the hyphens, apostrophes and decimal digits of a keyboard."""
    text = _HYPHEN.sub("-", unicodedata.normalize("NFKC", text.replace(_SOFT_HYPHEN, "")))
    text = _APOSTROPHE.sub("'", text)
    return (
        text if text.isascii() else _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    )


def bare(text: str) -> str:
    """Single spaces, without quotes, brackets and end marks around it."""
    line = " ".join(text.split())
    return line.lstrip(_OPENING + " ").rstrip(_CLOSING + _SENTENCE_END + " ") or line
