"""Which grade from 1 to 5 a judge's reply gives, in more or less text; None where it does not say."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from autoprompt.text.answers.denials import is_given
from autoprompt.text.answers.labels import LabelWords
from autoprompt.text.answers.menus import OUT_OF, UNIT
from autoprompt.text.answers.number_words import with_digits
from autoprompt.text.answers.texts import plain
from autoprompt.text.scripts import lazy

_NUMBER = rf"(?P<value>\d+(?:[.,]\d+)?)(?:{UNIT}?\s*{OUT_OF}\s*(?P<out_of>\d+))?"
_NAMED = (
    r"(?:score|grade|rating|评分|評分|得分|分数|分數|评级|評価|評点|点数|スコア|점수|평점|평가|คะแนน"
    r"|Bewertung|Note|Punktzahl|puntuación|calificación|pontuação|avaliação|nota|punteggio|voto|valutazione"
    r"|оценка|балл|puan|skor|الدرجة|التقييم)"
)
_STATED = lazy(rf"{_NAMED}\W*(?:(?:(?:is|ist|est|es|é|è)\b|是|为|為|は|은|는)\W*)?{_NUMBER}", re.IGNORECASE)
# "Overall: 4", with or without the word for a grade.
_OVERALL_WORD = (
    r"(?:overall|final|total|gesamt\w*|insgesamt|global\w*|général\w*|finale?|general|totale?|complessiv\w+|итог\w*|общ\w+"
    r"|总体|总分|总|總|综合|綜合|最终|最終|総合|종합|최종|전체)"
)
_OVERALL = lazy(
    rf"(?<!\w){_OVERALL_WORD}[\s_-]*(?:{_NAMED}|(?:assessment|evaluation|verdict|mark|punkte|wertung))?[\s\"'*_`)]*"
    rf"(?:[:=]|\b(?:is|ist|est|es|é|è)\b|是|为|為|は|은|는)\W*{_NUMBER}",
    re.IGNORECASE,
)
# All that a line says.
_OWN_LINE = lazy(rf"^[^\w\n]*{_NAMED}[^\w\n]*{_NUMBER}{UNIT}?[^\w\n=]*$", re.IGNORECASE | re.MULTILINE)
_LINE_BEGIN = lazy(r"(?:\A|\n)[^\w\n]*\Z")
# "5 - perfect answer"
_FIRST = lazy(rf"\W*{_NUMBER}{UNIT}?[*_`]*(?:\s*:|\s+[-–—]|\s*\()\s*[*_`\"']*[^\W\d]")
_ITEM = lazy(r"^\W*\d+\s*[.):=–—-]", re.MULTILINE)
_GIVEN = lazy(r"[:=是为為は은는]|\bis\b")  # "score: 4", and not "score 1 means that it fails"
_BARE = lazy(rf"\W*{_NUMBER}{UNIT}?\W*", re.IGNORECASE)
_RANGE = lazy(r"\s*(?:[-–—~/]|\bto\b|bis|到|至)\s*\d|\d|\s?%")
_OR_ANOTHER = lazy(r"\s*(?:,|/|-|–|~)?\s*(?:or|to|oder|ou|o|или|或|还是|か|또는)\s+\d", re.IGNORECASE)


@cache
def _grades() -> LabelWords:
    return LabelWords(("1", "2", "3", "4", "5"))


class Grade(NamedTuple):
    """A number as a judge gives it.

    out_of: what it is a part of; 0 if the reply does not say. is_all: the reply has nothing else.
    """

    value: float
    out_of: float
    is_all: bool


def read_grade(text: str) -> Grade | None:
    """Return the grade that `text` gives.

    That is all there is, or an "overall: N" or "final score: N", or a "score: N": the last that is a line of
    its own, else the last at a line's beginning, else the last. What it repeats of the scale ("1 = bad, 5 =
    good", "Rating (1-5): 4") is passed over; where it does, a number that is handed over counts without such
    a word ("On a scale of 1 to 5, I give it a 4"). So does one that the text begins with ("5 - perfect
    answer"). Two numbers ("4 or 5") are none.
    """
    shown = plain(text)
    if not any(map(str.isdigit, shown)):
        shown = with_digits(shown, is_grade=True)  # "four out of five"
    for pattern in (_OVERALL, _OWN_LINE):
        last = next(reversed(list(pattern.finditer(shown))), None)
        if last and not _OR_ANOTHER.match(shown, last.end()) and not _RANGE.match(shown, last.end()):
            return _grade(last)
    text, options = _grades().without_options(shown)
    if bare := _BARE.fullmatch(text):
        return _grade(bare)
    stated = list(_STATED.finditer(text))
    if stated:
        given = [one for one in stated if _GIVEN.search(one[0])] or stated
        begun = [one for one in given if _LINE_BEGIN.search(text[max(0, one.start() - 40) : one.start()])]
        chosen = (begun or given)[-1]
        return None if _OR_ANOTHER.match(text, chosen.end()) else _grade(chosen)
    first = _FIRST.match(text)
    if first and len(_ITEM.findall(shown)) < 2 and not _OR_ANOTHER.match(text, first.end("value")):
        return _grade(first)
    said = _grades().named_in(text) if options else []
    if len({word.label for word in said}) == 1 and is_given(text, said[0].start, options):
        return Grade(float(said[0].label), 0.0, is_all=False)
    return None


def _grade(found: re.Match[str]) -> Grade:
    is_all = found[0].strip() == found.string.strip()
    return Grade(float(found["value"].replace(",", ".")), float(found["out_of"] or 0), is_all)
