"""Reading what a model answered: a label or JSON out of more or less text.

Models decorate: `Answer: **Clickbait**.`, fenced `{"label": "clickbait"}`, `这是标题党。`. Every reader
returns None where the text does not say, and never guesses by similarity. Numbers are read in `numbers`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from autoprompt import standing
from autoprompt.scripts import MARKS, PARTED_LETTER
from autoprompt.thoughts import parted

_JOINT = re.compile(rf"(?<=(?!_)[\w{MARKS}])[\s_\-]+(?=(?!_)[\w{MARKS}])")  # between the words of a label
_OPENING, _CLOSING = "\"'`“”‘’«»「」『』*([{<【《（", "\"'`“”‘’«»「」『』*)]}>】》）"
# Latin and Chinese; Indic; Arabic; Armenian, Ethiopic, Burmese, Khmer.
_SENTENCE_END = ".。!！?？,，;；:：、" + "।॥" + "،؛؟۔" + "։።፣፧၊။។៕"

_MARKER = re.compile(
    r"(?:answer|label|category|class|classification|output|result|prediction|verdict|conclusion"
    r"|答案|类别|类型|分类|标签|结果|结论|输出|预测|回答|判断)"
    r"[\"'`*\])]*\s*(?:[:=]|(?:\bis\b|是(?!否[^\W定的])|为)(?:\s*[:=])?)",  # 判断是否为 asks
    re.IGNORECASE,
)
# Results and outputs head passages that hold no answer, too.
_OF_A_PASSAGE = re.compile(r"output|result|conclusion|结果|结论|输出", re.IGNORECASE)
_BEFORE_HEADING = 30  # characters of its line or sentence: "The final classification label:"
_NO_HEADING = re.compile(r"[,;:=、]|(?:\S+\s+){4}")
_LINE_OR_SENTENCE = re.compile(r"[\n.!?。]")
_ONLY_MARKS = re.compile(r"[\s*_`\"'#>-]*|\s*```\w*")
# Behind a "no" that answers nothing: "I have no idea", "no way to tell", the Spanish "no sé". Before another
# noun ("there is no sarcasm") it may well be the answer.
_NO_ANSWER = (
    r"(?!\s+(?:(?:doubt|question|wonder|idea|clue|opinion|preference|matter)\b"
    r"|(?:(?:clear|definite|definitive|simple|single|right|correct|certain)\s+){0,2}answer\b"
    r"|(?:way|means)\s+(?:to|of)\s+(?:tell|know|say|see|decid|determin|judg|be\b|find)"
    r"|(?:lo\s+)?(?:sé|sabría)\b|estoy\s+segur|puedo\s+(?:decir|decidir|determinar|saber)"
    r"|tengo\s+(?:ni\s+)?idea))"
)
_FENCE = re.compile(r"```[\w-]*\n?(.*?)```", re.DOTALL)
_NUMBER_LABEL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0+)?")
# Signs that models write for the hyphen, the minus and the apostrophe of a keyboard: U+2011 in non‑toxic, the
# minus of −1, an en dash inside a word or before a number, the apostrophe of don’t. A soft hyphen is none.
_HYPHEN = re.compile(r"[\u2010\u2011\u2212]|(?<=\w)\u2013(?=\w)|(?:^|(?<=\s))\u2013(?=\d)", re.MULTILINE)
_APOSTROPHE = re.compile(r"(?<=\w)\u2019(?=\w)")
_SOFT_HYPHEN = "\u00ad"
_FEWEST_GRADES = 3  # labels that are whole numbers; of two, 0/1 is no grade but both of them
# An answer that says "Answer:" a thousand times must not cost a quadratic search.
_MARKERS, _MARKED = 20, 500  # markers looked at, characters behind each


def visible(text: str) -> str:
    """The answer without surrounding space and without the `<think>` part of reasoning models."""
    return parted(text)[0]


def normalize(text: str) -> str:
    """For comparing: NFKC, case folded, single spaces, without quotes, brackets and end marks around it.

    Hyphens and apostrophes that look alike are one. A text of nothing but such marks stays as it is.
    """
    return _bare(_plain(text).casefold())


def _plain(text: str) -> str:
    text = _HYPHEN.sub("-", unicodedata.normalize("NFKC", text.replace(_SOFT_HYPHEN, "")))
    return _APOSTROPHE.sub("'", text)


def read_answer(text: str, labels: Sequence[str] = ()) -> str | None:
    """The label that `text` names; without labels the visible text itself. None: unparsed."""
    return read_label(text, labels) if labels else visible(text) or None


def read_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that `text` names, as it is written in `labels`; None where it names none.

    Tried in this order: the whole text; a value of a JSON object; what stands behind "Answer:" or the like at
    the beginning of a line or a sentence, unless several differ; what stands behind the last of these and of
    "the answer is"; a first or last line that is a label; the first label that occurs as a word. That last is
    not tried where "Answer:" stands before something else ("Answer: unclear"), nor where the values or the
    two lines are different labels.

    A longer label wins over one that it contains, `1` is not found in `10` or `1.5`, and "not X" names X only
    as the label non_X, also in other languages. Labels of which none counts more name none ("X or Y", "X, Y",
    "between X and Y"); what is said besides does ("X or Y? I would say Y"). What is asked ("Is it X?") counts
    only where nothing else is said, what is weighed ("whether it is X") never. Of several words that are left
    the first counts, though it is no more than the likelier: models write "positive rather than negative".
    Where all labels are numbers, 1 and 1.0 are one, unless both are labels, and 4/5 is 4 where 5 is the last.
    """
    known = _labels(tuple(labels))
    answer = _plain(visible(text))
    if not answer:
        return None
    if (whole := known.exact(answer)) is not None:
        return whole
    found = known.values_of(read_json(answer))
    if len(found) == 1:
        return found.pop()
    markers = list(_MARKER.finditer(answer))
    headings = [marker for marker in markers if _is_heading(marker)][-_MARKERS:]
    headed = {named for marker in headings if (named := known.headed_by(marker)) is not None}
    if len(headed) == 1:
        return headed.pop()
    for marker in reversed(markers[-_MARKERS:]):
        if (named := known.behind(marker)) is not None:
            return named
    lines = [line for line in answer.splitlines() if line.strip(" `")]
    ends = {named for line in (*lines[:1], *lines[-1:]) if (named := known.exact(line)) is not None}
    if len(ends) == 1:
        return ends.pop()
    if len(ends | found) > 1:
        return None
    if any(_line_behind(marker) and not _is_of_passage(marker) for marker in headings):
        return None
    return known.first_word(answer)


def mentions_several(text: str, labels: Sequence[str]) -> bool:
    """Whether different labels occur in `text`, whichever it settles on, if on any."""
    return len(set(_labels(tuple(labels)).words_of(_plain(visible(text)))[0])) > 1


def _is_heading(marker: re.Match[str]) -> bool:
    """Whether a line or a sentence begins with it, as "Final answer:", and not in "the answer is"."""
    if marker[0][-1] not in ":=":
        return False
    before = marker.string[max(0, marker.start() - _BEFORE_HEADING) : marker.start()]
    parts = _LINE_OR_SENTENCE.split(before)
    is_begun = len(parts) > 1 or marker.start() <= _BEFORE_HEADING
    return is_begun and not _NO_HEADING.search(parts[-1])


def _is_of_passage(heading: re.Match[str]) -> bool:
    return _OF_A_PASSAGE.match(heading[0]) is not None


def _lines_behind(marker: re.Match[str]) -> list[str]:
    return marker.string[marker.end() : marker.end() + _MARKED].strip().split("\n")


def _line_behind(marker: re.Match[str]) -> str:
    """The first line behind a marker that says something: `**Answer:**` may stand on a line of its own."""
    lines = _lines_behind(marker)
    return next((line for line in lines if not _ONLY_MARKS.fullmatch(line)), lines[0])


def read_json(text: str) -> Any | None:
    """The JSON value in `text`: the whole, its last fenced block, or the last object or list inside it."""
    shown = visible(text)
    for body in (shown, *reversed(_FENCE.findall(shown))):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            continue
    found = None
    for value in _embedded(shown):
        found = value
    return found


def _embedded(text: str) -> Iterator[Any]:
    """JSON objects and lists inside a text, outermost only."""
    decoder = json.JSONDecoder()
    at = 0
    # A text of thousands of opening brackets must not cost a quadratic search.
    for _ in range(200):
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return
        try:
            value, at = decoder.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            at = min(starts) + 1
            continue
        yield value


class _Labels:
    """What is worked out once for a set of labels."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        forms = {label: form for label in labels if (form := _plain(label).strip())}
        # Of labels that differ in case or marks only, the first is meant unless it is written exactly.
        self._raw = {form: label for label, form in reversed(forms.items())}
        self._normal = {label_key(label): label for label in reversed(forms)}
        longest_first = sorted(self._normal.items(), key=lambda item: len(item[0]), reverse=True)
        self._by_group = {f"l{i}": label for i, (_, label) in enumerate(longest_first)}
        whole = _whole_numbers(forms)
        numbers = _number_patterns(whole)
        words = [
            f"(?P<l{i}>{_word(_bare(forms[label]), numbers.get(label))})"
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
        return self._leading(heading) if _is_of_passage(heading) else self.behind(heading)

    def behind(self, marker: re.Match[str]) -> str | None:
        """The label that a marker's line names: at its beginning, behind a last "is" in it, or anywhere."""
        if (label := self._leading(marker)) is not None:
            return label
        line = _line_behind(marker)
        for inner in reversed(list(_MARKER.finditer(line))[-_MARKERS:]):
            if (label := self.first_word(line[inner.end() :])) is not None:
                return label
        return self.first_word(line)

    def _leading(self, marker: re.Match[str]) -> str | None:
        line = _line_behind(marker)
        label = self.exact(_lines_behind(marker)[0]) or self.exact(line)  # a label may be a mark: "Answer: -"
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


@lru_cache(maxsize=64)
def _labels(labels: tuple[str, ...]) -> _Labels:
    return _Labels(labels)


def label_key(label: str) -> str:
    """What a label is read by: normalized, with one sign for space, hyphen and underscore between words."""
    return _JOINT.sub("_", normalize(label))


def whole_number(label: str) -> str | None:
    """`1` of the labels 1 and 1.0; None of what is no whole number, and of 01, which is a code."""
    found = _WHOLE.fullmatch(_plain(label).strip())
    return found[1] if found else None


def _whole_numbers(forms: Mapping[str, str]) -> dict[str, str]:
    """Label -> its whole number, where all labels are numbers, of those that are one that no other label is.

    A column of whole numbers with a gap is written as 1.0, 2.0 by pandas, and a model answers 1.
    """
    if not all(map(_NUMBER_LABEL.fullmatch, forms.values())):
        return {}
    numbers = {label: number for label in forms if (number := whole_number(label)) is not None}
    counts = Counter(numbers.values())
    return {label: number for label, number in numbers.items() if counts[number] == 1}


def _bare(text: str) -> str:
    line = " ".join(text.split())
    return line.lstrip(_OPENING + " ").rstrip(_CLOSING + _SENTENCE_END + " ") or line


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
