"""Reading numbers as languages write them, out of more or less text."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import NamedTuple

from autoprompt.answers import visible
from autoprompt.scripts import HANGUL, MARKS, UNPARTED

_LETTER = rf"(?![{UNPARTED}{HANGUL}])[\w{MARKS}]"
# All digits that single marks join; what such a run means is for `_value` to say. Each part begins with
# another character than the one before may go on with, so that a long answer costs no quadratic search.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[-+]\s?)?[$€£¥]?\s?"
    r"(?P<digits>(?:(?<!\w)\.)?\d+(?:(?: / |[.,'’/ ])\d+)*)(?P<power>[eE][-+]?\d+)?"
    r"\s?(?P<percent>%)?"
)
_PLAIN = re.compile(r"\d*\.\d+|\d+")
_GROUPED = re.compile(r"[1-9]\d{0,2}([,.' ])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d+)?")
_INDIAN = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+")
_FRACTION = re.compile(r"(?:(?P<whole>\d+) )?(?P<above>\d+)/(?P<below>0*[1-9]\d*)")
_ONE_SIGN_FRACTION = re.compile(r"[^\S\n]?([¼-¾⅐-⅞])")
_FIXED_GROUPS = re.compile(r"(?<!\w)\d{1,3}(?:[\u00a0\u2007\u2009\u202f]\d{3})+(?!\d)")  # no-break spaces
_TWO_OR_GROUPS = re.compile(r"[1-9]\d{0,2} [1-9]\d\d")  # not 12 000: no number is written 000
# Of a language that may well group by spaces: not English, nor what has no spaces between its words.
_FOREIGN_LETTER = re.compile(rf"(?![\x00-\x7f{UNPARTED}{HANGUL}])[^\W\d_]")
_CLAUSE_COMMA = re.compile(r"，(?!\d{3}(?!\d))")  # parts a Chinese sentence, and writes no decimals
_EXPONENT = re.compile(r"(?<=[^\W\d_])\^?-?[1-4](?!\w|[.,]\d)")  # of a unit: m2, m/s^2
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_NUMBER_MARKS = str.maketrans({"−": "-", "⁄": "/", "’": "'", "٫": ".", "٬": "'", "٪": "%", "\\": None})


class Number(NamedTuple):
    """A number as written; `is_percent`: a % stood behind it, and `value` is what stood before that."""

    value: float
    is_percent: bool


def read_number(text: str) -> Number | None:
    """The last number in `text`; None where there is none.

    Read are -3, $5, 40%, 1e-3, digits of all scripts, groups and decimals as languages write them (1,234.50,
    1.234,50, 1 234,50, 1'234.50, 12,5) and fractions (1/2, 2 1/2, ½). Of a list (1,2,3) or a date the last
    part is the number. What could be both:
    - 1,234 is a group and 1.234 a decimal, as in English.
    - 3,4 is a decimal, even in (3,4): a pair would be no one number.
    - 15/20 is a fraction, even where it may be a score.
    - 3 500 behind a word is two numbers ("bought 3 500 ml bottles"), unless letters show that the language is
      another than English ("est égal à 3 500"). Elsewhere ("Answer: 3 500") it is one, and so is, anywhere,
      what has more groups, decimals or a group that begins with 0 (12 000).
    """
    plain = _plain_marks(visible(text))
    found = list(_NUMBER.finditer(plain))
    if not found:
        return None
    last = found[-1]
    start, end = last.span("digits")
    is_inside = (
        bool(re.match(rf"{_LETTER}|/", plain[max(0, start - 1) : start])) or plain[end : end + 1] == "/"
    )
    digits, power = last["digits"].replace(" / ", "/"), last["power"] or ""
    value = None if _is_two(digits, plain, start) else _value(digits, power, is_inside=is_inside)
    sign = last["sign"] or ""
    while value is None:  # a list, a date, a version: no number as a whole, and the sign is not the last's
        mark = next(mark for mark in " /,'." if mark in digits)
        digits, sign = digits.rpartition(mark)[2], ""
        is_inside = is_inside and mark != " "
        value = _value(digits, power, is_inside=is_inside)
    if sign.startswith("-"):
        value = -value
    return Number(value, bool(last["percent"])) if math.isfinite(value) else None


def holds_one_number(text: str) -> bool:
    """Whether `text` holds one number, so that `read_number` passes no other over; words beside it are none.

    Of a text with `####`, as targets with their working have it, what stands behind the last. Digits of a
    word (CO2) and of a unit (m2, m/s^2) are no numbers.
    """
    plain = _plain_marks(visible(text).rpartition("####")[2])
    number = next((m for m in _NUMBER.finditer(plain) if not _is_of_word(plain, m.start("digits"))), None)
    if number is None:
        return False
    digits, power = number["digits"].replace(" / ", "/"), number["power"] or ""
    return (
        _value(digits, power, is_inside=False) is not None
        and not _is_two(digits, plain, number.start("digits"))
        and not any(char.isdigit() for char in _EXPONENT.sub("", plain[number.end() :]))
    )


def _is_of_word(text: str, place: int) -> bool:
    return place > 0 and text[place - 1].isalpha()


def _plain_marks(text: str) -> str:
    """`text` with the digits and marks of numbers as ASCII has them, and any space as a plain one."""
    # NFKC alone would make 2½ a 21/2, and of a clause's comma a decimal one.
    text = _ONE_SIGN_FRACTION.sub(r" \1", _CLAUSE_COMMA.sub(", ", text))
    text = _FIXED_GROUPS.sub(lambda groups: "'".join(groups[0].split()), text)
    text = unicodedata.normalize("NFKC", text).replace("{,}", ",").translate(_NUMBER_MARKS)
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def _is_two(digits: str, text: str, start: int) -> bool:
    """Whether a space parts two numbers, rather than groups of one. start: where they begin in `text`."""
    if not _TWO_OR_GROUPS.fullmatch(digits):
        return False
    is_behind_word = text[:start].rstrip(" ")[-1:].isalpha()
    return is_behind_word and not _FOREIGN_LETTER.search(text)


def _value(digits: str, power: str, *, is_inside: bool) -> float | None:
    """What digits and the marks between them say; None where they are no one number.

    is_inside: they stand in a word or a path, where a space or a slash joins nothing.
    """
    if _PLAIN.fullmatch(digits):
        return float(digits + power)
    if is_inside and not {" ", "/"}.isdisjoint(digits):
        return None
    if grouped := _GROUPED.fullmatch(digits):
        return float(digits.replace(grouped[1], "").replace(",", ".") + power)
    if _INDIAN.fullmatch(digits):
        return float(digits.replace(",", "") + power)
    if _DECIMAL_COMMA.fullmatch(digits):
        return float(digits.replace(",", ".") + power)
    if fraction := _FRACTION.fullmatch(digits):
        above, below = float(fraction["above"]), float(fraction["below"] + power)
        is_mixed = fraction["whole"] is not None
        if below and math.isfinite(below) and not (is_mixed and above >= below):
            return float(fraction["whole"] or 0) + above / below
    return None
