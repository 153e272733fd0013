"""Texts of models and datasets as they may be shown: nothing in them steers the page or hides."""

from __future__ import annotations

import json
import re
from typing import Any

from autoprompt.text.names import counted

_SHOWN_CONTROLS: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **{code: f"[U+{code:04X}]" for code in range(0x80, 0xA0)},
    # What turns text around, and could make a page say what is not in the data.
    **{
        code: f"[U+{code:04X}]"
        for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
    0x2028: "\n",
    0x2029: "\n",
    **{code: f"[U+{code:04X}]" for code in (0xFFFE, 0xFFFF)},  # XML 1.0 has no form for them
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

_KANA = re.compile("[\u3040-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7af\u1100-\u11ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_ENOUGH = 2000  # characters that tell the language of a text


def shown(text: str, longest: int | None = None) -> str:
    """Return `text` with control characters and marks of direction as visible signs; line ends and tabs stay.

    longest: characters after which it is cut; a note says how many are missing.
    """
    missing = 0 if longest is None else len(text) - longest
    if missing > 0:
        text = text[:longest]
    if _STEERING.search(text):
        text = text.replace("\r\n", "\n").translate(_SHOWN_CONTROLS)
    return f"{text} … ({counted(missing, 'more character')})" if missing > 0 else text


def one_line(text: str, longest: int | None = None) -> str:
    """Return `text` as one line, at most `longest` characters of it."""
    if longest is None:
        return " ".join(shown(text).split())
    line = " ".join(shown(text[: 4 * longest]).split())  # a row may be a megabyte
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def language(text: str) -> str:
    """Return `zh`, `ja` or `ko` where most letters say so, for the right fonts and line breaks; else "".

    Han characters are shared: without a language a browser draws Chinese with the forms of its own locale.
    """
    head = text[:_ENOUGH]
    han, kana, hangul = (len(part.findall(head)) for part in (_HAN, _KANA, _HANGUL))
    letters = sum(character.isalpha() for character in head)
    if not letters or han + kana + hangul < 0.3 * letters:
        return ""
    if kana > 0.05 * (han + kana):
        return "ja"
    return "ko" if hangul > han else "zh"


def inert_json(value: Any) -> str:
    """JSON that may stand inside `<script type="application/json">`: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()
