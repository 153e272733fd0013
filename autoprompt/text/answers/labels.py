"""Which label an answer names, in more or less text. None where it does not say: never a guess by similarity.

Models decorate: `Answer: **Clickbait**.`, fenced `{"label": "clickbait"}`, `这是标题党。`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from autoprompt.text.answers import denials
from autoprompt.text.answers.checklists import read_checklist, read_truths
from autoprompt.text.answers.conclusions import (
    conclude,
    is_of_passage,
    label_of_lines,
    last_headings,
    last_markers,
    line_behind,
    lines_behind,
    text_after_correction,
)
from autoprompt.text.answers.denials import (
    begins_with_or,
    declined_labels,
    ends_with_or,
    find_declined,
    is_given,
    is_ruled_out,
)
from autoprompt.text.answers.label_index import JOINT, Found, LabelIndex
from autoprompt.text.answers.menus import (
    OUT_OF,
    UNIT,
    Menus,
    Span,
    blank,
    find_certainties,
    find_scales,
    is_end_explained,
)
from autoprompt.text.answers.number_words import with_digits
from autoprompt.text.answers.texts import normalize, plain, visible, without_marks, without_struck
from autoprompt.text.answers.wrapping import read_json, unwrap
from autoprompt.text.scripts import lazy


def read_answer(text: str, labels: Sequence[str] = ()) -> str | None:
    """Return the label that `text` names, or without labels the visible text; None if unparsed."""
    return read_label(text, labels) if labels else visible(text) or None


def is_whole(text: str, value: str | None, labels: Sequence[str] = ()) -> bool:
    """Return whether an answer that may be cut off is complete: it was read, and a label is all it says.

    Args:
        text: The answer.
        value: What it was read as.
        labels: The only answers; () for free answers.
    """
    return value is not None and (not labels or value == text.strip())


def read_label(text: str, labels: Sequence[str]) -> str | None:
    """Return the label that `text` names, as it is written in `labels`; None where it names none.

    If the text has `<answer>`, `\\boxed{}` or the like, only what is inside is read (see `unwrap`). These are
    tried in order:

    1. the whole text;
    2. a value of a JSON object, or a key that is true;
    3. rows of labels with marks (see `read_checklist`);
    4. the text after a correction ("Wait, B");
    5. the text after "Answer:" or the like at the start of a line or sentence, unless several of them differ;
    6. the text after the last of these, or of "the answer is";
    7. a first or last line that is a label;
    8. the labels that occur as words. Not if "Answer:" has something else behind it ("Answer: unclear"), and
       not if the values or the two lines are different labels.

    A longer label wins over one that it contains. `1` is not found in `10` or `1.5`. "not X" names only the
    label non_X, in any language. Labels of equal weight name none ("X or Y", "between X and Y"), but
    "X or Y? I would say Y" names Y. A question ("Is it X?") counts only if it is all there is; a label that
    is weighed ("whether it is X") never counts. If several labels remain, the one that the text concludes
    with counts ("It starts positive. Overall: negative"), see `conclude`. If all labels are numbers, 1 and
    1.0 are the same unless both are labels, and 4/5 is 4 if 5 is the highest.

    Examples:
        >>> read_label("Answer: **Spam**, since it sells a prize.", ("spam", "ham"))
        'spam'
        >>> read_label("spam or ham", ("spam", "ham"))
    """
    known = _words(labels)
    shown = visible(text)
    if not shown:
        return None
    if (whole := known.exact(plain(shown))) is not None:
        return whole
    return _of_answer(plain(unwrap(without_struck(shown))), known)


def _of_answer(answer: str, known: LabelWords) -> str | None:
    if (whole := known.exact(answer)) is not None:
        return whole
    data = read_json(answer)
    found = known.values_of(data)
    if len(found) == 1:
        return found.pop()
    if not found and (held := read_truths(data, known.exact)):
        return known.likeliest(held)
    if rows := read_checklist(answer, known.exact):
        return known.likeliest(rows)
    answer, options = known.without_options(answer)
    if options and (whole := known.exact(answer)) is not None:
        return whole
    if (correction := text_after_correction(answer)) is not None:
        said = known.named_in(correction)
        meant = {word.label for word in said if not is_ruled_out(correction, word.end)}
        if len(meant) == 1:
            return meant.pop()
    refused = find_declined(answer)
    headings, markers = (
        [one for one in found if not any(start <= one.end() <= end for start, end in refused)]
        for found in (last_headings(answer), last_markers(answer))
    )
    headed = {named for marker in headings if (named := known.headed_by(marker)) is not None}
    if len(headed) == 1:
        return headed.pop()
    for marker in reversed(markers):
        if (named := known.behind(marker)) is not None:
            return named
    lines = [line for line in answer.splitlines() if line.strip(" `")]
    ends = {named for line in _outer(lines) if (named := known.exact(line)) is not None}
    if len(ends) == 1:
        return ends.pop()
    if len(ends | found) > 1:
        return None
    if not found and not options and not known.find(answer):
        respelled = known.respelled(answer)
        return _of_answer(respelled, known) if respelled != answer else None
    if any(line_behind(marker) and not is_of_passage(marker) for marker in headings):
        return None
    said = known.named_in(answer)
    if options and len({word.label for word in said}) > 1:
        given = [word for word in said if is_given(answer, word.start, options)]
        # The first, or the only one that is.
        if said[:1] != given[:1] and len({word.label for word in given}) != 1:
            return None
        said = given
    if len({word.label for word in said}) < 2:
        return said[0].label if said else None
    return label_of_lines(answer, known.exact) or conclude(answer, said)


def _outer(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first and the last line, unless an "or" joins it to the one beside it."""
    if lines[:1] and not (lines[1:] and begins_with_or(lines[1])):
        yield lines[0]
    if lines[:1] and not (lines[1:] and ends_with_or(lines[-2])):
        yield lines[-1]


def mentions_several(text: str, labels: Sequence[str]) -> bool:
    """Return whether different labels occur in `text`, whichever of them it names."""
    return len({word.label for word in _words(labels).find(plain(visible(text)))}) > 1


_latest: tuple[Sequence[str], LabelWords] | None = None


def _words(labels: Sequence[str]) -> LabelWords:
    """Return the words of a set of labels, kept for the next answer."""
    global _latest
    latest = _latest
    if latest is not None and latest[0] is labels and isinstance(labels, tuple):
        return latest[1]
    words = _cached_words(tuple(labels))
    _latest = (labels, words)
    return words


@lru_cache(maxsize=64)
def _cached_words(labels: tuple[str, ...]) -> LabelWords:
    return LabelWords(labels)


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
    """Return what a label is read by: normalized, with _ for space, hyphen and underscore in it."""
    return JOINT.sub("_", normalize(label))


def whole_number(label: str) -> str | None:
    """Return `1` for the labels 1 and 1.0; None for other numbers, and for 01, which is a code."""
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
            {label: without_marks(forms[label]) for _, label in longest_first}, whole, _number_tail(whole)
        )
        letters = _letters(forms)
        places = (
            {label: letters[without_marks(form).lower()] for label, form in forms.items()} if letters else {}
        )
        if len(whole) == len(forms):
            places = {label: at for at, label in enumerate(sorted(whole, key=lambda one: int(whole[one])))}
        self._menus = Menus(places, letters, len(self._normal))
        self._are_numbers = bool(whole) and len(whole) == len(forms)
        self._has_digits = any(any(map(str.isdigit, form)) for form in forms.values())
        self._negative = {
            label: self._normal[opposite]
            for core, label in self._normal.items()
            for opposite in (
                *(f"{negation}{core}" for negation in denials.BEFORE_OPPOSITE),
                *(f"{core}{negation}" for negation in denials.BEHIND_OPPOSITE),
            )
            if opposite in self._normal
        }
        for label, number in whole.items():
            self._normal |= {number: label, f"{number}.0": label, f"{number},0": label}

    def exact(self, text: str) -> str | None:
        """Return the label that a text is as a whole; None if it is none."""
        return self._raw.get(text.strip()) or self._normal.get(label_key(text))

    def values_of(self, data: Any) -> set[str]:
        """Return the labels that are values of a JSON object, except scale ends and certainties."""
        pairs = data.items() if isinstance(data, dict) else ()
        named = [
            self.exact(str(value))
            for name, value in pairs
            if isinstance(value, str | int | float) and not _ASIDE_NAME.search(str(name))
        ]
        return {label for label in named if label is not None}

    def likeliest(self, held: Mapping[str, float]) -> str | None:
        """Return the label with the highest share, or the one that the denial of the only labels means.

        Args:
            held: Label to its share, or 1 and 0 for a label that holds and one that does not.
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
        """Return the label after a heading; after that of a passage ("Result:") only at its start."""
        return self._leading(heading) if is_of_passage(heading) else self.behind(heading)

    def behind(self, marker: re.Match[str]) -> str | None:
        """Return the label that a marker's line names: at its start, after a last "is", or anywhere."""
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
        """Return the labels that occur as words, in order."""
        return self._index.find(text)

    def without_options(self, text: str) -> tuple[str, list[Span]]:
        """Return `text` with spaces for repeated options and for certainties, and where these were."""
        cut: list[Span] = []
        found = self._index.find(text)
        # In this order: "Rating (1-5)", "Confidence: 1", and behind a menu "Confidence (low, high): high".
        for look in (self._scales, _surenesses, self._menus.find, _surenesses):
            if found and (spans := look(text, found)):
                text = blank(text, spans)
                found = self._index.find(text)
                cut += spans
        return text, cut

    def _scales(self, text: str, found: Sequence[Found]) -> list[Span]:
        return _outside(find_scales(text), found) if self._has_digits else []

    def respelled(self, text: str) -> str:
        """Return `text` without marks and with digits where it names a label in another way.

        `__spam__` is spam, "is_spam: true" too. If labels are whole numbers, "four stars" is 4.
        """
        text = _PREFIX.sub("", _EMPHASIS.sub(r"\2", text))
        return with_digits(text, is_grade=True) if self._are_numbers else text

    def first_word(self, text: str) -> str | None:
        """Return the first label that the text names; None if it names none."""
        return self._first(text)[0]

    def _first(self, text: str) -> tuple[str | None, int]:
        said = self.named_in(text)
        return next(((word.label, word.start) for word in said), (None, -1))

    def named_in(self, text: str) -> list[Found]:
        """Return the labels that the text names, or what their denial means, in order.

        Labels of equal weight ("yes or no") do not count. A label that is asked about ("Is it spam?"),
        called wrong ("A is wrong"), explained ("5 is best") or conditional ("if it is spam, 1") counts only
        if the text names no other.
        """
        found = self._index.find(text)
        refused = declined_labels(text, found)
        found = [word for at, word in enumerate(found) if at not in refused]
        spans = [word.span for word in found]
        if len({word.label for word in found}) > 1 and denials.are_only_joined(text, spans):
            return []
        said: list[Found] = []
        asked: list[Found] = []
        doubtful: list[Found] = []
        denied_end, past = -1, 0
        for at, word in enumerate(found):
            if at < past:
                continue
            if denials.is_denied(text, word.start, word.end, denied_end):
                if word.label in self._negative:
                    said.append(word._replace(label=self._negative[word.label]))
                    continue
                denied_end = word.end
                continue
            behind = at + denials.count_joined(text, spans[at : at + denials.MOST_LISTED])
            if len({one.label for one in found[at:behind]}) > 1:
                past = behind
            elif denials.is_weighed(text, word.start):
                continue
            elif denials.is_asked(text, word.end):
                asked.append(word)
            elif (
                denials.is_ruled_out(text, word.end)
                or denials.is_conditional(text, word.start)
                or (self._has_digits and is_end_explained(text, word.end))
            ):
                doubtful.append(word)
            else:
                said.append(word)
        open_ones = said or asked or doubtful
        return said if said or len({word.label for word in open_ones}) > 1 else open_ones[:1]


def _whole_numbers(forms: Mapping[str, str]) -> dict[str, str]:
    """Return label -> its whole number, if all labels are numbers; without numbers that two labels share.

    pandas writes a column of whole numbers with a gap as 1.0, 2.0, and a model answers 1.
    """
    if not all(map(_NUMBER_LABEL.fullmatch, forms.values())):
        return {}
    numbers = {label: number for label in forms if (number := whole_number(label)) is not None}
    counts = Counter(numbers.values())
    return {label: number for label, number in numbers.items() if counts[number] == 1}


def _number_tail(whole: Mapping[str, str]) -> str:
    """Return the pattern of what belongs to a number: .0 behind it, and of grades up to 5 the /5 of 4/5."""
    top = max(whole.values(), key=int) if len(whole) >= _FEWEST_GRADES else ""
    out_of = rf"(?:{UNIT}?\s?{OUT_OF}\s?{re.escape(top)}(?![\d%]|[.,]\d))?" if top else ""
    return rf"(?:\.0+|,0(?!\d))?{out_of}(?!\s?{OUT_OF}\s?\d)"


def _surenesses(text: str, found: Sequence[Found]) -> list[Span]:
    return _outside(find_certainties(text), found)


def _outside(spans: Sequence[Span], found: Sequence[Found]) -> list[Span]:
    """Return those spans that are no part of a label, as 18-34 is of an age's."""
    starts = [label.start for label in found]
    outside = []
    for start, end in spans:
        at = bisect_right(starts, start) - 1
        if at < 0 or found[at].end < end:
            outside.append((start, end))
    return outside


def _letters(forms: Mapping[str, str]) -> dict[str, int]:
    """Return small letter -> its place among the labels, if all are single letters."""
    letters = sorted({without_marks(form).lower() for form in forms.values()})
    are_letters = all(len(letter) == 1 and letter != letter.upper() for letter in letters)
    return {letter: at for at, letter in enumerate(letters)} if are_letters else {}
