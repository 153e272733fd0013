"""Phrases of rows, found by counting: which are typical of a label, and which copy a row.

No model is asked, so this works beside the smallest one, and in any language.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from autoprompt.records import Example
from autoprompt.text.scripts import is_unparted, runs, signs

FEWEST_ROWS = 2  # of a label that hold a cue; one row alone is a quotation
_PRIOR = 0.5  # Jeffreys' pseudo-count of each cell
_LEAST_Z = 1.3  # of the log odds ratio: one-sided p of 0.1, for a word to be named at all
Run = tuple[str, ...]

# The weight of a run that was copied instead of described: eight words, or sixteen signs of a script that
# does not part its words (about as many words).
COPIED = 16
_WORD = 2  # weight of a word; a sign weighs 1


def typical(examples: Sequence[Example], most: int) -> dict[str, list[str]]:
    """Label -> up to `most` words or pairs of words typical of its rows, the surest first; lower case.

    By the log odds ratio of the label's rows to hold the word, over its standard error (Monroe et al. 2008,
    with Jeffreys' prior). A pair replaces its words where it is as sure. Labels without any are left out;
    ascending by label.
    """
    rows: dict[str, int] = Counter(e.target_text for e in examples)
    holding: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        holding[example.target_text].update(set(grams(example.input_text)))
    overall: Counter[str] = Counter()
    for counts in holding.values():
        overall.update(counts)
    found: dict[str, list[str]] = {}
    for label in sorted(rows):
        n, others = rows[label], len(examples) - rows[label]
        scored = [
            (_z(count, n, overall[gram] - count, others), gram)
            for gram, count in holding[label].items()
            if count >= FEWEST_ROWS
        ]
        chosen = _distinct((gram for z, gram in sorted(scored, key=_surest_first) if z >= _LEAST_Z), most)
        if chosen:
            found[label] = chosen
    return found


def grams(text: str) -> Iterator[str]:
    """Words and pairs of neighbours; of scripts that do not part their words, pairs and triples of signs."""
    before = ""
    for run in runs(text.casefold()):
        if is_unparted(run):
            each = signs(run)
            yield from ("".join(each[i : i + size]) for size in (2, 3) for i in range(len(each) - size + 1))
            before = ""
            continue
        yield run
        if before:
            yield f"{before} {run}"
        before = run


def as_lines(cues: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for each label, line breaks in it or not: an earlier telling is found by its lines."""
    return [f"{' '.join(label.split())}: {', '.join(words)}" for label, words in cues.items()]


def _surest_first(scored: tuple[float, str]) -> tuple[float, int, str]:
    z, gram = scored
    return -z, -len(gram), gram


def _z(holding: int, rows: int, others_holding: int, others: int) -> float:
    cells = (holding, rows - holding, others_holding, others - others_holding)
    a, b, c, d = (cell + _PRIOR for cell in cells)
    return math.log(a * d / (b * c)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)


def _distinct(ranked: Iterator[str], most: int) -> list[str]:
    """Return the first `most` of which none is a part of another, or cut from the same place of a phrase."""
    chosen: list[str] = []
    for gram in ranked:
        if len(chosen) < most and not any(_overlap(gram, other) for other in chosen):
            chosen.append(gram)
    return chosen


def _overlap(a: str, b: str) -> bool:
    """Return whether one has all words of the other; of grams of signs, whether they share two neighbours."""
    if is_unparted(a) or is_unparted(b):
        return not _pairs(a).isdisjoint(_pairs(b))
    left, right = set(a.split()), set(b.split())
    return left <= right or right <= left


def _pairs(gram: str) -> set[tuple[str, str]]:
    return set(pairwise(signs(gram)))


class Copies:
    """Finds rows that a text copies whole. A part of a row may be a phrase of its field.

    Rows are read once, at the first question.
    """

    def __init__(self, rows: Sequence[Example]) -> None:
        self._rows = rows

    def first(self, said: Sequence[str]) -> Run | None:
        """Return the first row in a text's words (see `words`); None if it holds none whole.

        Rows of less than COPIED are not found: a text may say as much by itself.
        """
        for start, run in enumerate(word_runs(said)):
            for number in self._starts.get(hash(run), ()):
                row = tuple(words(self._rows[number].full_text))
                if tuple(said[start : start + len(row)]) == row:
                    return row
        return None

    @cached_property
    def _starts(self) -> dict[int, list[int]]:
        """The hash of each row's first run -> numbers of the rows."""
        starts: dict[int, list[int]] = defaultdict(list)
        for number, row in enumerate(self._rows):
            if (run := next(word_runs(words(row.full_text)), None)) is not None:
                starts[hash(run)].append(number)
        return starts


def word_runs(words: Sequence[str]) -> Iterator[Run]:
    """From every word on, the shortest run that weighs COPIED; in the text's order."""
    weights = [weight_of(word) for word in words]
    end, weight = 0, 0
    for start, first in enumerate(weights):
        while weight < COPIED and end < len(words):
            weight += weights[end]
            end += 1
        if weight < COPIED:
            break
        yield tuple(words[start:end])
        weight -= first


def weight_of(word: str) -> int:
    return 1 if is_unparted(word) else _WORD


def words(text: str) -> list[str]:
    """Words, and single characters of scripts that do not part them; without case."""
    return [part for run in runs(text.casefold()) for part in (signs(run) if is_unparted(run) else [run])]
