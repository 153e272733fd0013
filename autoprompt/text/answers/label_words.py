"""The words of a set of labels inside a text: as they may be written, and which of several is said."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.text.answers import standing
from autoprompt.text.answers.headings import is_of_passage, last_markers, line_behind, lines_behind
from autoprompt.text.answers.label_index import JOINT, Found, LabelIndex
from autoprompt.text.answers.menus import Menus
from autoprompt.text.answers.number_words import with_digits
from autoprompt.text.answers.refusals import declined
from autoprompt.text.answers.scales import (
    OUT_OF,
    UNIT,
    Span,
    blanked,
    is_end_explained,
    scales,
    surenesses,
)
from autoprompt.text.answers.texts import bare, normalize, plain
from autoprompt.text.patterns import lazy

_ASIDE_NAME = lazy(
    r"confidence|certainty|probability|likelihood|(?:^|_)(?:min|max|scale|out_of|total|lowest|highest)(?:$|_)"
    r"|置信度|信心|確信度|信頼度|신뢰도",
    re.IGNORECASE,
)
_EMPHASIS = lazy(r"(?<!\w)(_{1,3})([^\W_](?:[^\n_]*[^\W_])?)\1(?!\w)")
_PREFIX = lazy(r"(?<![^\W_])(?:is|has|contains)_(?=[^\W_])")
_NUMBER_LABEL = lazy(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_WHOLE = lazy(r"(-?(?:0|[1-9]\d*))(?:\.0+)?")
_FEWEST_GRADES = 3  # labels that are whole numbers; of two, 0/1 is no grade but both of them


def label_key(label: str) -> str:
    """What a label is read by: normalized, with one sign for space, hyphen and underscore between words."""
    return JOINT.sub("_", normalize(label))


def whole_number(label: str) -> str | None:
    """`1` of the labels 1 and 1.0; None of what is no whole number, and of 01, which is a code."""
    found = _WHOLE.fullmatch(plain(label).strip())
    return found[1] if found else None


class LabelWords:
    """What is worked out once for a set of labels."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        forms = {label: form for label in labels if (form := plain(label).strip())}
        # Of labels that differ in case or marks only, the first is meant unless it is written exactly.
        self._raw = {form: label for label, form in reversed(forms.items())}
        self._normal = {label_key(label): label for label in reversed(forms)}
        whole = _whole_numbers(forms)
        longest_first = sorted(self._normal.items(), key=lambda item: len(item[0]), reverse=True)
        self._index = LabelIndex(
            {label: bare(forms[label]) for _, label in longest_first}, whole, _number_tail(whole)
        )
        letters = _letters(forms)
        places = {label: letters[bare(form).lower()] for label, form in forms.items()} if letters else {}
        if len(whole) == len(forms):
            places = {label: at for at, label in enumerate(sorted(whole, key=lambda one: int(whole[one])))}
        self._menus = Menus(places, letters, len(self._normal))
        self._are_numbers = bool(whole) and len(whole) == len(forms)
        self._has_digits = any(any(map(str.isdigit, form)) for form in forms.values())
        self._negative = {
            label: self._normal[opposite]
            for core, label in self._normal.items()
            for opposite in (
                *(f"{negation}{core}" for negation in standing.BEFORE_OPPOSITE),
                *(f"{core}{negation}" for negation in standing.BEHIND_OPPOSITE),
            )
            if opposite in self._normal
        }
        for label, number in whole.items():
            self._normal |= {number: label, f"{number}.0": label, f"{number},0": label}

    def exact(self, text: str) -> str | None:
        return self._raw.get(text.strip()) or self._normal.get(label_key(text))

    def values_of(self, data: Any) -> set[str]:
        """The labels that are values of a JSON object, but for the ends of a scale and how sure it is."""
        pairs = data.items() if isinstance(data, dict) else ()
        named = [
            self.exact(str(value))
            for name, value in pairs
            if isinstance(value, str | int | float) and not _ASIDE_NAME.search(str(name))
        ]
        return {label for label in named if label is not None}

    def likeliest(self, held: Mapping[str, float]) -> str | None:
        """The label that holds most, or what the denial of the only ones means.

        held: Label to its share, or 1 and 0 for one that holds and one that does not.
        """
        most = max(held.values())
        best = [label for label, worth in held.items() if worth == most]
        if most > 0:
            is_share = (
                0 < most < 1 and len(held) == 1
            )  # of one number alone nobody knows from which it counts
            return best[0] if len(best) == 1 and not is_share else None
        meant = {self._negative.get(label) for label in held} - {None}
        return meant.pop() if len(meant) == 1 else None

    def headed_by(self, heading: re.Match[str]) -> str | None:
        """What stands behind a heading, and of that of a passage ("Result:") only what it begins with."""
        return self._leading(heading) if is_of_passage(heading) else self.behind(heading)

    def behind(self, marker: re.Match[str]) -> str | None:
        """The label that a marker's line names: at its beginning, behind a last "is" in it, or anywhere."""
        if (label := self._leading(marker)) is not None:
            return label
        line = line_behind(marker)
        for inner in reversed(last_markers(line)):
            if (label := self.first_word(line[inner.end() :])) is not None:
                return label
        return self.first_word(line)

    def _leading(self, marker: re.Match[str]) -> str | None:
        line = line_behind(marker)
        label = self.exact(lines_behind(marker)[0]) or self.exact(line)  # a label may be a mark: "Answer: -"
        if label is None:
            label, start = self._first(line)
            return None if any(map(str.isalnum, line[: max(0, start)])) else label
        return label

    def find(self, text: str) -> list[Found]:
        """The labels that occur as words, in order."""
        return self._index.find(text)

    def without_options(self, text: str) -> tuple[str, list[Span]]:
        """`text` with spaces where it repeats what could be answered, or says how sure it is; and where."""
        cut: list[Span] = []
        found = self._index.find(text)
        # In this order: "Rating (1-5)", "Confidence: 1", and behind a menu "Confidence (low, high): high".
        for look in (self._scales, _surenesses, self._menus.find, _surenesses):
            if found and (spans := look(text, found)):
                text = blanked(text, spans)
                found = self._index.find(text)
                cut += spans
        return text, cut

    def _scales(self, text: str, found: Sequence[Found]) -> list[Span]:
        return _outside(scales(text), found) if self._has_digits else []

    def respelled(self, text: str) -> str:
        """`text` without marks and with digits where it names a label in other ways.

        `__spam__` is spam, "is_spam: true" too, and of labels that are whole numbers "four stars" is 4.
        """
        text = _PREFIX.sub("", _EMPHASIS.sub(r"\2", text))
        return with_digits(text, is_grade=True) if self._are_numbers else text

    def first_word(self, text: str) -> str | None:
        return self._first(text)[0]

    def _first(self, text: str) -> tuple[str | None, int]:
        said = self.said(text)
        return next(((word.label, word.start) for word in said), (None, -1))

    def said(self, text: str) -> list[Found]:
        """The labels that are said, or what their denial means, in order.

        Of labels of which none counts more ("yes or no") none is said. What is asked about ("Is it spam?"),
        called wrong ("A is wrong"), explained ("5 is best") or conditional ("if it is spam, 1") counts where
        no other is said.
        """
        found = self._index.find(text)
        refused = declined(text, found)
        found = [word for at, word in enumerate(found) if at not in refused]
        spans = [word.span for word in found]
        if len({word.label for word in found}) > 1 and standing.are_alone(text, spans):
            return []
        said: list[Found] = []
        asked: list[Found] = []
        doubtful: list[Found] = []
        denied_end, past = -1, 0
        for at, word in enumerate(found):
            if at < past:
                continue
            if standing.is_denied(text, word.start, word.end, denied_end):
                if word.label in self._negative:
                    said.append(word._replace(label=self._negative[word.label]))
                    continue
                denied_end = word.end
                continue
            behind = at + standing.listed(text, spans[at : at + standing.MOST_LISTED])
            if len({one.label for one in found[at:behind]}) > 1:
                past = behind
            elif standing.is_weighed(text, word.start):
                continue
            elif standing.is_asked(text, word.end):
                asked.append(word)
            elif (
                standing.is_ruled_out(text, word.end)
                or standing.is_conditional(text, word.start)
                or (self._has_digits and is_end_explained(text, word.end))
            ):
                doubtful.append(word)
            else:
                said.append(word)
        open_ones = said or asked or doubtful
        return said if said or len({word.label for word in open_ones}) > 1 else open_ones[:1]


def _whole_numbers(forms: Mapping[str, str]) -> dict[str, str]:
    """Label -> its whole number, where all labels are numbers, of those that are one that no other label is.

    A column of whole numbers with a gap is written as 1.0, 2.0 by pandas, and a model answers 1.
    """
    if not all(map(_NUMBER_LABEL.fullmatch, forms.values())):
        return {}
    numbers = {label: number for label in forms if (number := whole_number(label)) is not None}
    counts = Counter(numbers.values())
    return {label: number for label, number in numbers.items() if counts[number] == 1}


def _number_tail(whole: Mapping[str, str]) -> str:
    """Pattern of what belongs to a number: .0 behind it, and of grades up to 5 the /5 of 4/5."""
    top = max(whole.values(), key=int) if len(whole) >= _FEWEST_GRADES else ""
    out_of = rf"(?:{UNIT}?\s?{OUT_OF}\s?{re.escape(top)}(?![\d%]|[.,]\d))?" if top else ""
    return rf"(?:\.0+|,0(?!\d))?{out_of}(?!\s?{OUT_OF}\s?\d)"


def _surenesses(text: str, found: Sequence[Found]) -> list[Span]:
    return _outside(surenesses(text), found)


def _outside(spans: Sequence[Span], found: Sequence[Found]) -> list[Span]:
    """Those that are no part of a label, as 18-34 is of an age's."""
    starts = [label.start for label in found]
    outside = []
    for start, end in spans:
        at = bisect_right(starts, start) - 1
        if at < 0 or found[at].end < end:
            outside.append((start, end))
    return outside


def _letters(forms: Mapping[str, str]) -> dict[str, int]:
    """Small letter -> its place among the labels, if all are single letters."""
    letters = sorted({bare(form).lower() for form in forms.values()})
    are_letters = all(len(letter) == 1 and letter != letter.upper() for letter in letters)
    return {letter: at for at, letter in enumerate(letters)} if are_letters else {}
