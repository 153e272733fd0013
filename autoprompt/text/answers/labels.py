"""Which label an answer names, in more or less text. None where it does not say: never a guess by similarity.

Models decorate: `Answer: **Clickbait**.`, fenced `{"label": "clickbait"}`, `这是标题党。`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from autoprompt.text.answers.conclusions import concluded, corrected, of_lines
from autoprompt.text.answers.headings import is_of_passage, last_headings, last_markers, line_behind
from autoprompt.text.answers.label_words import LabelWords
from autoprompt.text.answers.objects import read_json
from autoprompt.text.answers.refusals import declining
from autoprompt.text.answers.standing import begins_with_or, ends_with_or, is_given, is_ruled_out
from autoprompt.text.answers.texts import plain, unstruck, visible
from autoprompt.text.answers.ticks import ticked, truths
from autoprompt.text.answers.wrapped import unwrapped


def read_answer(text: str, labels: Sequence[str] = ()) -> str | None:
    """The label that `text` names; without labels the visible text itself. None: unparsed."""
    return read_label(text, labels) if labels else visible(text) or None


def is_whole(text: str, value: str | None, labels: Sequence[str] = ()) -> bool:
    """Whether an answer that may have broken off is all that was asked for: it was read as `value`, and where
    it should be a label it is nothing else."""
    return value is not None and (not labels or value == text.strip())


def read_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that `text` names, as it is written in `labels`; None where it names none.

    Of a text with `<answer>`, `\\boxed{}` or the like, what stands there is read (see `unwrapped`). Tried in
    this order: the whole text; a value of a JSON object, or a key that is true; rows of labels with marks
    (see `ticked`); what stands behind a correction ("Wait, B"); what stands behind "Answer:" or the like at
    the beginning of a line or a sentence, unless several differ; what stands behind the last of these and of
    "the answer is"; a first or last line that is a label; the labels that occur as words. That last is not
    tried where "Answer:" stands before something else ("Answer: unclear"), nor where the values or the two
    lines are different labels.

    A longer label wins over one that it contains, `1` is not found in `10` or `1.5`, and "not X" names X only
    as the label non_X, also in other languages. Labels of which none counts more name none ("X or Y", "X, Y",
    "between X and Y"); what is said besides does ("X or Y? I would say Y"). What is asked ("Is it X?") counts
    only where nothing else is said, what is weighed ("whether it is X") never. Of several words that are left
    that counts which the text comes to ("It starts positive. Overall: negative"), see `concluded`. Where all
    labels are numbers, 1 and 1.0 are one, unless both are labels, and 4/5 is 4 where 5 is the last.
    """
    known = _words(labels)
    shown = visible(text)
    if not shown:
        return None
    if (whole := known.exact(plain(shown))) is not None:
        return whole
    return _of_answer(plain(unwrapped(unstruck(shown))), known)


def _of_answer(answer: str, known: LabelWords) -> str | None:
    if (whole := known.exact(answer)) is not None:
        return whole
    data = read_json(answer)
    found = known.values_of(data)
    if len(found) == 1:
        return found.pop()
    if not found and (held := truths(data, known.exact)):
        return known.likeliest(held)
    if rows := ticked(answer, known.exact):
        return known.likeliest(rows)
    answer, options = known.without_options(answer)
    if options and (whole := known.exact(answer)) is not None:
        return whole
    if (correction := corrected(answer)) is not None:
        said = known.said(correction)
        meant = {word.label for word in said if not is_ruled_out(correction, word.end)}
        if len(meant) == 1:
            return meant.pop()
    refused = declining(answer)
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
    said = known.said(answer)
    if options and len({word.label for word in said}) > 1:
        given = [word for word in said if is_given(answer, word.start, options)]
        # The first, or the only one that is.
        if said[:1] != given[:1] and len({word.label for word in given}) != 1:
            return None
        said = given
    if len({word.label for word in said}) < 2:
        return said[0].label if said else None
    return of_lines(answer, known.exact) or concluded(answer, said)


def _outer(lines: Sequence[str]) -> Iterator[str]:
    """The first and the last line, unless an "or" joins it to the one beside it."""
    if lines[:1] and not (lines[1:] and begins_with_or(lines[1])):
        yield lines[0]
    if lines[:1] and not (lines[1:] and ends_with_or(lines[-2])):
        yield lines[-1]


def mentions_several(text: str, labels: Sequence[str]) -> bool:
    """Whether different labels occur in `text`, whichever it settles on, if on any."""
    return len({word.label for word in _words(labels).find(plain(visible(text)))}) > 1


_latest: tuple[Sequence[str], LabelWords] | None = None


def _words(labels: Sequence[str]) -> LabelWords:
    """The words of a set of labels, kept for the next answer."""
    global _latest
    latest = _latest
    if latest is not None and latest[0] is labels and isinstance(labels, tuple):
        return latest[1]
    words = _kept(tuple(labels))
    _latest = (labels, words)
    return words


@lru_cache(maxsize=64)
def _kept(labels: tuple[str, ...]) -> LabelWords:
    return LabelWords(labels)
