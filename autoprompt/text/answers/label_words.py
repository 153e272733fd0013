"""The words of a set of labels inside a text: as they may be written, and which of several is said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from autoprompt.text.answers import standing
from autoprompt.text.answers.headings import is_of_passage, last_markers, line_behind, lines_behind
from autoprompt.text.answers.texts import bare, normalize, plain
from autoprompt.text.scripts import MARKS, PARTED_LETTER

_JOINT = re.compile(rf"(?<=(?!_)[\w{MARKS}])[\s_\-]+(?=(?!_)[\w{MARKS}])")  # between the words of a label
# Behind a "no" that answers nothing: "I have no idea", "no way to tell", the Spanish "no sé". Before another
# noun ("there is no sarcasm") it may well be the answer.
_NO_ANSWER = (
    r"(?!\s+(?:(?:doubt|question|wonder|idea|clue|opinion|preference|matter)\b"
    r"|(?:(?:clear|definite|definitive|simple|single|right|correct|certain)\s+){0,2}answer\b"
    r"|(?:way|means)\s+(?:to|of)\s+(?:tell|know|say|see|decid|determin|judg|be\b|find)"
    r"|(?:lo\s+)?(?:sé|sabría)\b|estoy\s+segur|puedo\s+(?:decir|decidir|determinar|saber)"
    r"|tengo\s+(?:ni\s+)?idea))"
)
_NUMBER_LABEL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0+)?")
_FEWEST_GRADES = 3  # labels that are whole numbers; of two, 0/1 is no grade but both of them


def label_key(label: str) -> str:
    """What a label is read by: normalized, with one sign for space, hyphen and underscore between words."""
    return _JOINT.sub("_", normalize(label))


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
        longest_first = sorted(self._normal.items(), key=lambda item: len(item[0]), reverse=True)
        self._by_group = {f"l{i}": label for i, (_, label) in enumerate(longest_first)}
        whole = _whole_numbers(forms)
        numbers = _number_patterns(whole)
        words = [
            f"(?P<l{i}>{_word(bare(forms[label]), numbers.get(label))})"
            for i, (_, label) in enumerate(longest_first)
        ]
        self._words = re.compile("|".join(words), re.IGNORECASE) if words else None
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
            self._normal |= {number: label, f"{number}.0": label}

    def exact(self, text: str) -> str | None:
        return self._raw.get(text.strip()) or self._normal.get(label_key(text))

    def values_of(self, data: Any) -> set[str]:
        """The labels that are values of a JSON object."""
        values = data.values() if isinstance(data, dict) else ()
        named = [self.exact(str(value)) for value in values if isinstance(value, str | int | float)]
        return {label for label in named if label is not None}

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

    def words_of(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """The labels that occur as words, in order, and where."""
        words = list(self._words.finditer(text)) if self._words else []
        return [self._by_group[word.lastgroup or ""] for word in words], [word.span() for word in words]

    def first_word(self, text: str) -> str | None:
        return self._first(text)[0]

    def _first(self, text: str) -> tuple[str | None, int]:
        """The first label that is said, or the one that its denial means; where its word begins.

        Of labels of which none counts more ("yes or no") none is said. One that is asked about ("Is it
        spam?") counts where no other is said.
        """
        labels, spans = self.words_of(text)
        if len(set(labels)) > 1 and standing.are_alone(text, spans):
            return None, -1
        asked: tuple[str | None, int] = None, -1
        denied_end, past = -1, 0
        for at, (label, (start, end)) in enumerate(zip(labels, spans, strict=True)):
            if at < past:
                continue
            if standing.is_denied(text, start, end, denied_end):
                if label in self._negative:
                    return self._negative[label], start
                denied_end = end
                continue
            behind = at + standing.listed(text, spans[at : at + standing.MOST_LISTED])
            if len(set(labels[at:behind])) > 1:
                past = behind
            elif standing.is_weighed(text, start):
                continue
            elif not standing.is_asked(text, end):
                return label, start
            elif asked[0] is None:
                asked = label, start
        return asked


def _whole_numbers(forms: Mapping[str, str]) -> dict[str, str]:
    """Label -> its whole number, where all labels are numbers, of those that are one that no other label is.

    A column of whole numbers with a gap is written as 1.0, 2.0 by pandas, and a model answers 1.
    """
    if not all(map(_NUMBER_LABEL.fullmatch, forms.values())):
        return {}
    numbers = {label: number for label in forms if (number := whole_number(label)) is not None}
    counts = Counter(numbers.values())
    return {label: number for label, number in numbers.items() if counts[number] == 1}


def _number_patterns(whole: Mapping[str, str]) -> dict[str, str]:
    """Label -> pattern of its whole number: with .0 behind it, as 4/5 of grades up to 5, as +1 beside -1."""
    top = max(whole.values(), key=int) if len(whole) >= _FEWEST_GRADES else ""
    out_of = rf"(?:/{re.escape(top)}(?!\d))?" if top else ""
    plus = r"\+?" if any(number.startswith("-") for number in whole.values()) else ""
    return {
        label: ("" if number.startswith("-") else plus) + rf"{re.escape(number)}(?:\.0+)?{out_of}"
        for label, number in whole.items()
    }


def _word(core: str, number: str | None = None) -> str:
    """Pattern of a label inside running text, with borders where its script has them.

    number: the pattern of its number, if it is one.
    """
    body = number or r"[\s_\-]*".join(map(re.escape, _JOINT.split(core)))
    if re.fullmatch(r"[A-Za-z]", core):
        # One letter is also a word or a part of one: only the capital counts, and "A headline" is not A.
        article = r"(?!\s+(?!(?:is|was|because|since|as|and|or)\b)[a-z])" if core in "AaIi" else ""
        return rf"(?<![\w'’])(?-i:{core.upper()})(?![\w'’]){article}"
    if core.casefold() == "no":
        body += _NO_ANSWER
    elif core in ("是", "否"):
        body = rf"(?<!是){body}(?!否)"  # 是否 asks
    if core[0].isdigit():
        body = rf"(?<!\d[.,/])(?<![-+])(?<![^\W为是]){body}"  # 有1个 is a count, 是1 an answer
    elif re.match(PARTED_LETTER, core[0]):
        body = rf"(?<!{PARTED_LETTER}){body}"
    if core[-1].isdigit():
        return rf"{body}(?![.,/]\d)(?!%)(?!{PARTED_LETTER})"
    return rf"{body}(?!{PARTED_LETTER})" if re.match(PARTED_LETTER, core[-1]) else body
