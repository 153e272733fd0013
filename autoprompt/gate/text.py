"""Texts of rows and models in places that bear no control characters: one line, and a visible form."""

from __future__ import annotations

import re

# What XML 1.0 has no character for (section 2.2), the C1 controls that it advises against, and the marks
# that turn the direction of text around, which can make a report say what it does not.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """`text` with such characters escaped, `\\x1b` for instance. Tab and line ends stay."""
    return _UNSAFE.sub(lambda match: _escaped(match[0]), text)


def one_line(text: str, longest: int | None = None) -> str:
    """`text` as one visible line, at most `longest` characters of it."""
    head = text if longest is None else text[: 4 * longest]  # a row may be a megabyte
    line = " ".join(visible(head).split())
    if longest is None or len(line) <= longest:
        return line
    return line[: longest - 1] + "…"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
