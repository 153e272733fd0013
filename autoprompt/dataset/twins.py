"""Rows that say nearly the same in nearly the same words. They stay in one part, or a score proves nothing.

A question made from a template with other names, a ticket sent twice with a typo fixed: with one of them in
train, as a demonstration, its twin in val or test is answered without any skill. Measured on 64 sentences of
which most differ from another in two swapped nouns (BIG-Bench Hard, disambiguation_qa): a prompt with
demonstrations had 0.875 on the validation rows, and 0.397 on 63 rows of other sentences.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autoprompt.errors import Place, Problem
from autoprompt.records import Example, Message
from autoprompt.text.names import counted
from autoprompt.text.scripts import counted_words

# Shared weight of words from which two rows are twins. Of 150 rows each of clickbait, subj, trec, banking and
# gsm8k none are, of sms 2; of the sentences above all 64.
LIKENESS = 0.7
_STEP = 0.1  # by which twins are taken more strictly where rows made of few words hang together in chains
_LEARNED = ("dataset", "train")  # files with rows that demonstrations may come from
# Rows of a family, or a tenth of all; twins must share a word that is in no more rows. Without one, rows of a
# small vocabulary are alike by chance, and their order, brackets or signs hold the answer: of 62 lists of
# steps and turns (navigate, of the source above) 4 were twins, and 40 when a word counted once however often
# it stood there, half of such pairs with unlike answers; of 221 boolean expressions 163, of 250 sums of
# one-digit numbers 148. Now none are, and of the rows above as many as before. With so few groups left a gain
# of 14 points was seen by 68% of tests, by 81% without them.
_LARGEST = 10
# Rows with a word, above which it finds no twins, so that time stays linear: they are overlooked among tens
# of thousands of rows made of a few hundred words.
_COMMON = 100
_MANY_WORDS, _SAMPLING = 200, 0.1  # of a row, from which a sample is looked up, and how far that may be off
_LOOKED_AT = 2 * (1 - LIKENESS)  # the more, the fewer rows to compare and the more to look up
_ROUNDING = 1e-9  # of sums of weights
_FIRST = " 1"  # ends a word that has not stood in its row before


@dataclass(frozen=True, slots=True)
class Twins:
    """How many rows of a file are nearly alike, and a pair of them."""

    count: int
    rows: int
    pair: tuple[Place, ...]

    def warning(self, *, is_torn: bool) -> Problem:
        """Return the warning of them.

        Args:
            is_torn: There are too few other rows to keep them in one split.
        """
        alike = f"{self.count} of {counted(self.rows, 'row')} are nearly alike"
        if is_torn:
            said = f"{alike}, and too few others are left to keep them in one split"
            fix = "Add rows: scores are too good if one row answers another."
            return Problem("dataset.twins-apart", said, fix=fix, related=self.pair)
        said, fix = (
            f"{alike}, so they stay in one split",
            "Use {group_field} to say which rows belong together.",
        )
        return Problem("dataset.twins", said, Place(), fix, {"group_field": "<FIELD>"}, self.pair)


def group_twins(examples: Sequence[Example]) -> tuple[list[Example], Twins | None]:
    """Return the rows with twins in one group, and how many twins there are if they are many.

    Rows that have a group keep it. Twins have words in common that make up 0.7 of the weight of all words of
    both, in any order, each weighed by the logarithm of its rarity, and one of these is in few rows; twins of
    twins are one family. The second, third, ... time that a word is in a row counts as a word of its own, as
    rare as rows that have it so often. So two rows that say one word twenty times, as no other does, may be
    put together though the rest differs. Of conversations the user's last turns are compared, and one that
    continues where another ends is its twin.
    """
    families = _families_of(examples)
    named = dict[int, str]()
    for family in families:
        name = "twins of " + min(examples[i].id for i in family)
        named |= dict.fromkeys(family, name)
    grouped = [
        replace(example, group=named[i]) if i in named and example.group is None else example
        for i, example in enumerate(examples)
    ]
    if not _are_many(len(named), len(examples)):
        return grouped, None
    return grouped, Twins(len(named), len(examples), tuple(examples[i].place for i in families[0][:2]))


def twin_warnings(sources: Mapping[str, Sequence[Example]]) -> list[Problem]:
    """Return warnings of files whose rows are nearly alike to rows that are learned from; none under 5%.

    Args:
        sources: Rows of each file, by the setting that names it. Given files are taken as they are.
    """
    rows = [(name, row) for name, found in sources.items() for row in found]
    twins: dict[str, list[Example]] = defaultdict(list)
    for family in _families_of([row for _, row in rows]):
        if any(rows[i][0] in _LEARNED for i in family):
            for name, row in (rows[i] for i in family):
                twins[name].append(row)
    return [
        Problem(
            "dataset.twins-across",
            f"{len(found)} of {counted(len(sources[name]), 'row')} of {name} are nearly alike to rows to "
            "learn from, so "
            "scores on them are too good",
            fix="Take them out of one of the files.",
            related=(found[0].place,),
        )
        for name, found in sorted(twins.items())
        if name not in _LEARNED and _are_many(len(found), len(sources[name]))
    ]


def _are_many(twins: int, rows: int) -> bool:
    return twins > 0 and 20 * twins >= rows


def _families_of(examples: Sequence[Example]) -> list[list[int]]:
    words = [counted_words(example.input_text) for example in examples]
    counts = Counter(word for found in words for word in found)
    weights = {word: math.log(len(examples) / count) for word, count in counts.items()}
    families = _families(words, counts, weights)
    continued = list(_continued(examples))
    if not continued:
        return families
    alike = [(family[0], other) for family in families for other in family[1:]]
    return _joined(len(examples), [*alike, *continued])


def _continued(examples: Sequence[Example]) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows of which one is a conversation that continues where the other ends.

    So the one holds the other's answer. A beginning from which many conversations continue, such as a
    greeting, says nothing.
    """
    beginnings: dict[tuple[int, Message], int] = {}  # the beginning before it and a turn -> its number
    paths: list[list[int]] = []  # of each row, the numbers of its beginnings: no turn is hashed twice
    for row in examples:
        path, at = list[int](), 0
        for turn in row.turns:
            at = beginnings.setdefault((at, turn), len(beginnings) + 1)
            path.append(at)
        paths.append(path)
    rows = {path[-1]: number for number, path in enumerate(paths) if path}
    branches: dict[int, dict[tuple[Message, ...], list[int]]] = defaultdict(dict)
    for number, (row, path) in enumerate(zip(examples, paths, strict=True)):
        for end, beginning in enumerate(path[:-1], 1):
            if (other := rows.get(beginning)) is not None:
                branches[other].setdefault(row.turns[end : end + 2], []).append(number)
    for number, found in branches.items():
        if len(found) <= _few(len(examples)):
            yield from ((number, other) for others in found.values() for other in others)


def _families(
    words: Sequence[frozenset[str]], counts: Mapping[str, int], weights: Mapping[str, float]
) -> list[list[int]]:
    pairs = list(_twins(words, counts, weights))
    likeness = LIKENESS
    while True:
        found = _joined(len(words), [(a, b) for a, b, like in pairs if like >= likeness])
        if max(map(len, found), default=0) <= _few(len(words)):
            return found
        likeness += _STEP  # above 1 nothing is left


def _twins(
    words: Sequence[frozenset[str]], counts: Mapping[str, int], weights: Mapping[str, float]
) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of rows with their likeness, each once.

    Of a row's weight at most 0.3 is in words that its twin does not have. So of its rarest words, up to
    _LOOKED_AT of its weight, a twin shares all but 0.3 of the row's weight: rows that share less are not
    compared (prefix filtering; Chaudhuri, Ganti & Kaushik 2006). Words in too many rows are not looked up and
    count as shared, and of a long row every second, third, ... word stands for the others.
    """
    rows_with: dict[str, list[int]] = defaultdict(list)
    rare = {word for word, count in counts.items() if word.endswith(_FIRST) and count <= _few(len(words))}
    totals: list[float] = []
    for row, found in enumerate(words):
        total = sum(weights[word] for word in found)
        totals.append(total)
        step = 1 + len(found) // _MANY_WORDS
        shared: dict[int, float] = defaultdict(float)
        looked_up = passed = 0.0
        for word in sorted(found, key=lambda w: (-weights[w], w))[::step]:
            if passed > _LOOKED_AT * total:
                break
            passed += step * weights[word]
            if counts[word] <= _COMMON:
                looked_up += step * weights[word]
                for other in rows_with.get(word, ()):
                    shared[other] += step * weights[word]
        for word in found:
            if 1 < counts[word] <= _COMMON:
                rows_with[word].append(row)
        missing = 1 - LIKENESS + (_ROUNDING if step == 1 else _SAMPLING)
        least = looked_up - missing * total
        for other in sorted(other for other, weight in shared.items() if weight >= least):
            both = found & words[other]
            if both.isdisjoint(rare):
                continue
            common = sum(weights[word] for word in both)
            union = total + totals[other] - common
            if union and common / union >= LIKENESS - _ROUNDING:
                yield other, row, common / union + _ROUNDING


def _few(rows: int) -> int:
    return max(_LARGEST, rows // 10)


def _joined(rows: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the families that pairs make, each in ascending order."""
    root = list(range(rows))

    def find(row: int) -> int:
        while root[row] != row:
            root[row] = root[root[row]]
            row = root[row]
        return row

    for a, b in pairs:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    families: dict[int, list[int]] = defaultdict(list)
    for row in sorted({row for pair in pairs for row in pair}):
        families[find(row)].append(row)
    return list(families.values())
