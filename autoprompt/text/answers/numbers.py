"""Reading numbers as languages write them, out of more or less text."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from autoprompt.text.answers.denials import find_declined
from autoprompt.text.answers.multipliers import (
    MONEY,
    Amount,
    find_multiplier,
    possible_factor,
    write_out,
    written_factor,
)
from autoprompt.text.answers.number_marks import find_main, find_marked
from autoprompt.text.answers.number_words import with_digits
from autoprompt.text.answers.texts import visible, without_struck
from autoprompt.text.answers.wrapping import read_json, tagged_answers, unfence, without_confidence
from autoprompt.text.scripts import HANGUL, PARTED_LETTER, UNPARTED, lazy

# All digits that single marks join; `_value` decides what such a run means. No part can begin with a
# character that could continue the part before it, so a long answer costs no quadratic search.
_NUMBER = lazy(
    rf"(?P<sign>(?<![\w)])[-+]\s?)?{MONEY}?\s?"
    r"(?P<digits>(?:(?<!\w)\.)?\d+(?:(?: / |[.,'’/ ])\d+)*)(?P<power>[eE][-+]?\d+)?"
    r"\s?(?P<percent>%)?"
)
_PLAIN = lazy(r"\d*\.\d+|\d+")
_GROUPED = lazy(r"[1-9]\d{0,2}([,.' ])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d+)?")
# Of a column: 1.500 itself, and what says which the point is there.
_GROUP_OR_DECIMAL = lazy(r"[1-9]\d{0,2}\.\d{3}")
_OF_DECIMAL_COMMAS = lazy(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}|\d+,(?!\d{3}$)\d+")
_OF_DECIMAL_POINTS = lazy(r"[\d,' ]*\.\d+")
_INDIAN = lazy(r"[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d+)?")
_DECIMAL_COMMA = lazy(r"\d+,\d+")
_FRACTION = lazy(r"(?:(?P<whole>\d+) )?(?P<above>\d+)/(?P<below>0*[1-9]\d*)")
_ONE_SIGN_FRACTION = lazy(r"[^\S\n]?([¼-¾⅐-⅞])")
_FIXED_GROUPS = lazy(r"(?<!\w)\d{1,3}(?:[\u00a0\u2007\u2009\u202f]\d{3})+(?!\d)")  # no-break spaces
_TWO_OR_GROUPS = lazy(r"[1-9]\d{0,2} [1-9]\d\d")  # not 12 000: no number is written 000
# Of a language that may well group by spaces: not English, nor what has no spaces between its words.
_FOREIGN_LETTER = lazy(rf"(?![\x00-\x7f{UNPARTED}{HANGUL}])[^\W\d_]")
_CLAUSE_COMMA = lazy(r"，(?!\d{3}(?!\d))")  # parts a Chinese sentence, and writes no decimals
# "7 [1]", "It is 7.[1][2]". What stands behind a word or an equals sign may be the answer.
_CITATION = lazy(r"(?<=[\d%.!?])\s?(?:[\[【]\d{1,3}(?:, ?\d{1,3})*[\]】]\s?)+\.?\s*\Z")
_FOREIGN_DIGIT = lazy(r"[^\D0-9]")
_UP = r"¹²³⁰⁴-⁹"
_RAISED = lazy(rf"([⁺⁻]?[{_UP}]+)(?![{_UP}⁄])")  # not ¹⁄₂
# Of a fraction of whole numbers only: \frac{3\pi}{4} is none.
_LATEX_FRACTION = lazy(r"[^\S\n]?\\[dtc]?frac\s*(?:\{\s*(-?\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))(?!\d)")
_LATEX_WORD = lazy(r"\\([A-Za-z]+)")
_TEN_TO = r"10 ?\^ ?\{?([-+]?\d+)\}?(?!\d|[.,]\d)"
_SCIENTIFIC = lazy(
    rf"(?<![\w/.,'])(?<!/ )(\d+(?:[.,']\d+)*) ?(?:[×x*·⋅]|times|cdot) {{0,3}}{_TEN_TO}"  # 3 x 10^3
)
_POWER_OF_TEN = lazy(rf"(?<![\w.,'^]){_TEN_TO}")
# An en dash parts the ends of a range (3–5, 3 –5) and a clause from the next (– 5).
_DASH_AS_MINUS = lazy(r"(?:^|(?<=[\s(\[{=*:\"“]))(?<!\d )–(?=[$€£¥]?\.?\d)")
# What units and formulas are written in. Arabic and Hebrew write "for 50" as one word, Chinese any count.
_FORMULA = r"A-Za-zµ\u00c0-\u024f\u0370-\u03ff\u0400-\u052f"
_BEFORE_INDEX = lazy(rf"[{_FORMULA})\]}}][\^_]\{{?[-+]?$")  # m^2, CO_{2}
_BEFORE_EXPONENT = lazy(
    rf"(?:(?<![{_FORMULA}])(?:[{_FORMULA}]{{1,2}}|mol|min)-"  # s-1; not Answer-3
    rf"|[{_FORMULA}](?<!USD)(?<!EUR)(?<!GBP)(?<!CHF)(?<!INR)(?<!Rs)(?<!RM))$"  # m2, CO2; not Rs3
)
_BEHIND_EXPONENT = lazy(r"(?=[A-Z])|(?!\w)")  # H2O; not a2b
_WORD_FOLLOWS = lazy(r"[^\w\n]{0,8}[^\W\d_]")
_WORD_BEHIND = lazy(r" ?[^\W\d_]{2,}")
_ANSWER_NAMES = ("final_answer", "answer", "result", "value", "number", "prediction", "output")
_OF_RATING = lazy(
    r"[ ]?(?:stars|points|Sterne|Punkte|étoiles|estrellas|puntos|estrelas|pontos|stelle|punti|зв[её]зд"
    r"|балл\w*)(?!\w)",
    re.IGNORECASE,
)
_LEAST_RATING = 5  # 1/2 points are half a point
# Words for the percent sign: 40 percent, 百分之40, yüzde 40.
_PERCENT = lazy(
    r"(?<=\d)[ ]?(?:percent|per[ ]cent|Prozent|pour[ ]?cents?|por[ ]cien(?:to)?|por[ ]cento|per[ ]cento"
    r"|procent|процент\w*|pct\.?"
    r"|phần[ ]trăm|persen|प्रतिशत|بالمئة|بالمائة|في[ ]المئة|في[ ]المائة)(?!\w|[ ]points?\b)"
    r"|(?<=\d)[ ]?(?:パーセント|プロセント|퍼센트|프로(?!\w)|เปอร์เซ็นต์)(?!ポイント|포인트)",
    re.IGNORECASE,
)
_PERCENT_BEFORE = lazy(r"(?:百分之|(?<!\w)yüzde[ ])(\d+(?:[.,]\d+)?)(?!\d)", re.IGNORECASE)
_MINUS_SAID = lazy(
    r"(?:\A|[:=\n(]|\b(?:is|equals|ist|est|es|é|è|равно))[^\w\n]*"
    r"(?:\b(?:minus|negative|moins|menos|meno|минус|eksi)|マイナス|负|負|마이너스)\s*[$€£¥]?\s*\Z",
    re.IGNORECASE,
)
_NUMBER_MARKS = str.maketrans({"−": "-", "⁄": "/", "’": "'", "٫": ".", "٬": "'", "٪": "%", "\\": None})


class Number(NamedTuple):
    """A number as written.

    Args:
        value: The number before a %.
        is_percent: Whether a % follows it.
        factor: What `value` may have to be multiplied by: 5 m are metres or millions. 1 if there is no doubt.
    """

    value: float
    is_percent: bool
    factor: float = 1.0

    @property
    def written(self) -> str:
        """Return a text that is read as this number."""
        sign = "%" if self.is_percent else written_factor(self.factor)
        return repr(self.value).removesuffix(".0") + sign


def read_number(text: str, *, is_marked: bool = False) -> Number | None:
    """Return the number behind "Answer:" or the like (see `find_marked`), else the last; None if none.

    A citation behind the last ("7 [1]") is no answer, nor is a confidence ("7 (95% sure)").

    Args:
        text: The answer.
        is_marked: "Answer:" stood in front of it.

    Understood are -3, $5, 40%, 1e-3, digits of all scripts, groups and decimals as languages write them
    (1,234.50, 1.234,50, 1 234,50, 1'234.50, 12,5), fractions (1/2, 2 1/2, ½, \\frac{1}{2}), powers of ten
    (10^6, 5 × 10³) and multipliers of many languages (3 million, 1.2 Mrd., 1億2000万, $5m). If the text is a
    list (1,2,3) or a date, its last part is the number. The exponent of a unit (m², m/s^2) and the 2 of CO2
    count only if no other number is there. Ambiguous texts:
    - 5 m and 300 K are metres and kelvin, or millions and thousands: see `Number.factor`.
    - 1,234 is a group and 1.234 a decimal, as in English.
    - 3,4 is a decimal, even in (3,4): a pair would be no one number.
    - 15/20 is a fraction, even where it may be a score.
    - 3 500 behind a word is two numbers ("bought 3 500 ml bottles"), unless letters show that the language is
      another than English ("est égal à 3 500"). Elsewhere ("Answer: 3 500") it is one, and so is, anywhere,
      what has more groups, decimals or a group that begins with 0 (12 000).
    - –5 is negative, with the dash of 3–5, where no number stands before it.

    Examples:
        >>> read_number("6 boxes of 7 make 42 apples.").value
        42.0
        >>> read_number("Answer: 1.234,50 (in euros)").value
        1234.5
    """
    if (chosen := _chosen(text, is_marked=is_marked)) is None:
        return None
    start, value = _last_value(chosen)
    sign = (chosen["sign"] or "") if start == chosen.start("digits") else "+"
    if (sign.startswith("-") and not _is_bullet(chosen)) or (not sign and _is_minus_said(chosen)):
        value = -value
    if not math.isfinite(value):
        return None
    is_percent = bool(chosen["percent"])
    return Number(
        value, is_percent, 1.0 if is_percent else possible_factor(chosen.string, start, _end(chosen))
    )


def holds_one_number(text: str) -> bool:
    """Return whether `text` holds one number, or a mark says which of several counts.

    Words beside it are none, nor are digits of a word (CO2) and of a unit (m2, m/s^2). If a text has `####`,
    as targets with their working do, only what follows the last is looked at.
    """
    shown, is_wrapped = _shown(text)
    plain, found = _numbers(shown)
    at = find_marked(plain, [_place(number) for number in found], is_marked=is_wrapped)
    if at is None:
        _, found = _numbers(visible(text).rpartition("####")[2])
        found = [number for number in found if not _is_index(number)]
        if not found or any(not _is_of_word(number) for number in found[:-1]):
            return False
    chosen = found[-1 if at is None else at]
    digits, power = chosen["digits"].replace(" / ", "/"), chosen["power"] or ""
    return _value(digits, power, is_inside=False) is not None and not _is_two(
        digits, chosen.string, chosen.start("digits")
    )


def points_in_doubt(texts: Iterable[str]) -> list[str]:
    """Return texts of a column whose number, `1.500`, may be in thousands, though it is read as a decimal.

    That is so if another of them has a decimal comma (1.234,50; 12,5) or several groups (1.234.567), or if no
    number has a point that is certainly a decimal's (1.5, 0.125).
    """
    chosen = {text: number for text in texts if (number := _chosen(text)) is not None}
    digits = {text: number["digits"] for text, number in chosen.items() if not number["power"]}
    doubtful = [text for text, written in digits.items() if _GROUP_OR_DECIMAL.fullmatch(written)]
    others = [written for written in digits.values() if not _GROUP_OR_DECIMAL.fullmatch(written)]
    if any(map(_OF_DECIMAL_COMMAS.fullmatch, others)):
        return doubtful
    return [] if any(map(_OF_DECIMAL_POINTS.fullmatch, others)) else doubtful


_GIVEN_ANYWAY = lazy(
    r",\s*(?:about|around|roughly|approximately|probably|perhaps|maybe)\b|\bthan\b", re.IGNORECASE
)


def _chosen(text: str, *, is_marked: bool = False) -> re.Match[str] | None:
    """Return the number that counts, in the text with plain marks."""
    shown, is_wrapped = _shown(text)
    plain, found = _numbers(shown)
    at = find_marked(plain, [_place(number) for number in found], is_marked=is_marked or is_wrapped)
    if at is None and found:
        left = _undeclined(plain, found)
        return left[find_main(plain, [_place(number) for number in left])] if left else None
    return found[at] if at is not None else None


def _undeclined(text: str, found: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the numbers that no refusal speaks of: "I can't say which of the 5"."""
    ends = {start: _given_anyway(text, start, end) for start, end in find_declined(text)}
    if not ends:
        return found
    starts = sorted(ends)
    left = []
    for number in found:
        at = bisect_right(starts, number.start("digits")) - 1
        if at < 0 or ends[starts[at]] <= number.start("digits"):
            left.append(number)
    return left


def _given_anyway(text: str, start: int, end: int) -> int:
    """Return where a refusal ends, for numbers: "I can't give the exact number, about 17"."""
    stop = _GIVEN_ANYWAY.search(text, start, end)
    return stop.start() if stop else end


def _is_bullet(number: re.Match[str]) -> bool:
    """Return whether its minus is the mark of a list: "- 42 apples"."""
    is_apart = (number["sign"] or "")[-1:].isspace()
    before = number.string[: number.start()].rpartition("\n")[2]
    return is_apart and not before.strip() and _WORD_BEHIND.match(number.string, number.end()) is not None


def _is_minus_said(number: re.Match[str]) -> bool:
    """Return whether "minus" is in front of it, and nothing that it could be taken from."""
    before = number.string[max(0, number.start("digits") - 40) : number.start("digits")]
    return _MINUS_SAID.search(before) is not None


def _shown(text: str) -> tuple[str, bool]:
    """Return what is read of an answer, and whether tags mark it: the last of several."""
    shown = with_digits(without_struck(visible(text)))
    if (named := _of_object(shown)) is not None:
        return named, True
    contents = tagged_answers(shown)
    is_marked = bool(contents) and any(map(str.isdecimal, contents[-1]))
    return (contents[-1] if is_marked else shown), is_marked


def _of_object(text: str) -> str | None:
    """Return what a JSON object, which is all of `text`, names as its answer; None if it names none."""
    data = read_json(unfence(text)) if text.startswith(("{", "```", "~~~")) else None
    if not isinstance(data, Mapping):
        return None
    named = {str(name).lower(): value for name, value in data.items()}
    for name in _ANSWER_NAMES:
        value = named.get(name)
        if isinstance(value, int | float | str) and any(map(str.isdecimal, str(value))):
            return None if isinstance(value, bool) else str(value)
    return None


def _numbers(text: str) -> tuple[str, list[re.Match[str]]]:
    """Return `text` with plain marks, and the numbers in it.

    A confidence or a citation at its end is none, nor is a part of a unit or a formula, unless there is no
    other.
    """
    said = without_confidence(text)
    plain = _plain_marks(said if any(map(str.isdecimal, said)) else text)
    cited = _CITATION.search(plain)
    found = list(_NUMBER.finditer(plain, 0, cited.start() if cited else len(plain)))
    return plain, [number for number in found if not _is_index(number)] or found[-1:]


def _end(number: re.Match[str]) -> int:
    """Return where its digits end, and the power of ten behind them."""
    return number.end("power" if number["power"] else "digits")


def _last_value(number: re.Match[str]) -> tuple[int, float]:
    """Return where the last number of its digits begins, and its value.

    That is all of them, unless they are a list, a date or a version, which is no number as a whole.
    """
    plain = number.string
    start, end = number.span("digits")
    is_inside = (
        bool(re.match(rf"{PARTED_LETTER}|[/^]", plain[max(0, start - 1) : start]))
        or plain[end : end + 1] == "/"
    )
    digits, power = number["digits"], number["power"] or ""
    value = None
    if (rating := _FRACTION.fullmatch(digits.replace(" / ", "/"))) and _is_rating(rating, plain, end):
        return start, float(rating["above"])
    if not _is_two(digits, plain, start):
        value = _value(digits.replace(" / ", "/"), power, is_inside=is_inside)
    digits = digits.replace(" / ", "\0/\0")  # of the same length, and no space that parts numbers
    while value is None:
        mark = next(mark for mark in " /,'." if mark in digits)
        digits = digits.rpartition(mark)[2].lstrip("\0")
        is_inside = is_inside and mark != " "
        value = _value(digits.replace("\0", ""), power, is_inside=is_inside)
    return end - len(digits), value


def _is_rating(fraction: re.Match[str], text: str, end: int) -> bool:
    """Return whether a fraction that ends at `end` is a grade: 4/5 stars, 8/10 points."""
    is_of_scale = fraction["whole"] is None and int(fraction["below"]) >= _LEAST_RATING
    return is_of_scale and _OF_RATING.match(text, end) is not None


def _amounts(text: str) -> Iterator[Amount]:
    """Yield the numbers of `text` with their multipliers; also those that may continue one."""
    found = None
    for number in _NUMBER.finditer(text):
        end = _end(number)
        if number["percent"] or (found is None and not _WORD_FOLLOWS.match(text, end)):
            found = None
            continue
        start, value = _last_value(number)
        found = find_multiplier(text, start, end)
        if found and found.has_comma:
            value = _as_comma_languages_mean(text[start : number.end("digits")]) or value
        yield Amount(start, value, found, found.end if found else end)


def _as_comma_languages_mean(digits: str) -> float | None:
    """1.500 and 1,500 where the comma is the decimal mark; None for other digits."""
    if _GROUP_OR_DECIMAL.fullmatch(digits):
        return float(digits.replace(".", ""))
    return float(digits.replace(",", ".")) if re.fullmatch(r"\d+,\d{3}", digits) else None


def _place(number: re.Match[str]) -> tuple[int, int]:
    """Return where its digits begin, and where it ends, without a space behind it."""
    return number.start("digits"), number.start() + len(number[0].rstrip())


def _is_index(number: re.Match[str]) -> bool:
    """Return whether it is a part of a unit or a formula, as the digits of m2, m/s^2, s-1, x_1 and H2O."""
    start, end = number.span("digits")
    before = number.string[max(0, start - 6) : start]
    if _BEFORE_INDEX.search(before):
        return {" ", ","}.isdisjoint(number["digits"])
    return (
        number["digits"] in ("1", "2", "3", "4")
        and _BEFORE_EXPONENT.search(before) is not None
        and _BEHIND_EXPONENT.match(number.string, end) is not None
    )


def _is_of_word(number: re.Match[str]) -> bool:
    """Return whether a letter stands right before it, as in B12."""
    start = number.start("digits")
    return re.match(PARTED_LETTER, number.string[max(0, start - 1) : start]) is not None


def _plain_marks(text: str) -> str:
    """Return `text` with the digits and marks of numbers as ASCII has them, and any space as a plain one."""
    # NFKC alone would make 2½ a 21/2, 10³ a 103, and of a clause's comma a decimal one.
    text = _ONE_SIGN_FRACTION.sub(r" \1", _CLAUSE_COMMA.sub(", ", text))
    text = _RAISED.sub(r"^\1", text)
    text = _LATEX_FRACTION.sub(lambda f: f" {f[1] or f[2]}/{f[3] or f[4]}", text)
    text = _LATEX_WORD.sub(r"\1 ", text)  # \times10^3 is no 10 inside a word
    text = _FIXED_GROUPS.sub(lambda groups: "'".join(groups[0].split()), text)
    text = unicodedata.normalize("NFKC", text).replace("{,}", ",").translate(_NUMBER_MARKS)
    text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _POWER_OF_TEN.sub(r"1e\1", _SCIENTIFIC.sub(r"\1e\2", text))
    text = _DASH_AS_MINUS.sub("-", text)
    text = _PERCENT_BEFORE.sub(r"\1%", _PERCENT.sub("%", text))
    return write_out(text, _amounts(text))


def _is_two(digits: str, text: str, start: int) -> bool:
    """Return whether a space parts two numbers, rather than groups of one.

    Args:
        digits: The digits with the space.
        text: Around them.
        start: Where they begin in `text`.
    """
    if not _TWO_OR_GROUPS.fullmatch(digits):
        return False
    is_behind_word = text[:start].rstrip(" ")[-1:].isalpha()
    return is_behind_word and not _FOREIGN_LETTER.search(text)


def _value(digits: str, power: str, *, is_inside: bool) -> float | None:
    """Return the number that digits and the marks between them mean; None if they are not one number.

    is_inside: they are part of a word or a path, where a space or a slash joins nothing.
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
