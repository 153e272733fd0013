"""Which grade from 1 to 5 a judge's reply gives, in more or less text; None where it does not say."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from autoprompt.text.answers.label_words import LabelWords
from autoprompt.text.answers.scales import OUT_OF, UNIT
from autoprompt.text.answers.standing import is_given
from autoprompt.text.answers.texts import plain
from autoprompt.text.patterns import lazy

_NUMBER = rf"(?P<value>\d+(?:\.\d+)?)(?:{UNIT}?\s*{OUT_OF}\s*(?P<out_of>\d+))?"
_NAMED = (
    r"(?:score|grade|rating|评分|評分|得分|分数|分數|评级|評価|評点|点数|スコア|점수|평점|평가|คะแนน"
    r"|Bewertung|Note|Punktzahl|puntuación|calificación|pontuação|avaliação|nota|punteggio|voto|valutazione"
    r"|оценка|балл|puan|skor|الدرجة|التقييم)"
)
_STATED = lazy(rf"{_NAMED}\W*(?:(?:(?:is|ist|est|es|é|è)\b|是|为|為|は|은|는)\W*)?{_NUMBER}", re.IGNORECASE)
_GIVEN = lazy(r"[:=是为為は은는]|\bis\b")  # "score: 4", and not "score 1 means that it fails"
_BARE = lazy(rf"\W*{_NUMBER}{UNIT}?\W*", re.IGNORECASE)
_OR_ANOTHER = lazy(r"\s*(?:,|/|-|–|~)?\s*(?:or|to|oder|ou|o|или|或|还是|か|또는)\s+\d", re.IGNORECASE)


@cache
def _grades() -> LabelWords:
    return LabelWords(("1", "2", "3", "4", "5"))


class Grade(NamedTuple):
    """A number as a judge gives it.

    out_of: what it is a part of; 0 where that is not said. is_all: nothing else is said.
    """

    value: float
    out_of: float
    is_all: bool


def read_grade(text: str) -> Grade | None:
    """Return the grade that `text` gives.

    That is all there is, or the last "score: N": those that a judge weighs come before. What it repeats of
    the scale ("Rating (1-5): 4", "1 = bad, 5 = good") is passed over; where it does, a number that is handed
    over counts without such a word ("On a scale of 1 to 5, I give it a 4"). Two numbers ("4 or 5") are none.
    """
    text, options = _grades().without_options(plain(text))
    if bare := _BARE.fullmatch(text):
        return _grade(bare)
    stated = list(_STATED.finditer(text))
    if stated:
        last = next((one for one in reversed(stated) if _GIVEN.search(one[0])), stated[-1])
        return None if _OR_ANOTHER.match(text, last.end()) else _grade(last)
    said = _grades().said(text) if options else []
    if len({word.label for word in said}) == 1 and is_given(text, said[0].start, options):
        return Grade(float(said[0].label), 0.0, is_all=False)
    return None


def _grade(found: re.Match[str]) -> Grade:
    is_all = found[0].strip() == found.string.strip()
    return Grade(float(found["value"]), float(found["out_of"] or 0), is_all)
