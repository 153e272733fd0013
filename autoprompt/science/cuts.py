"""Cuts of the rows' measures that part wrong rows from right ones: hypotheses that need no model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from autoprompt.science.findings import FEWEST_ROWS, MOST_LIKELY_CHANCE, hypergeometric_tail


def best_cuts(measures: Mapping[str, Sequence[int]], wrong: Collection[int]) -> list[str]:
    """Conditions like "length > 80": the surest cut of each measure, where it is beyond luck; surest first.

    measures: name -> a number for each row. wrong: 0-based numbers of the wrong rows. Beyond luck: p of the
    cut, times all cuts that were tried (Bonferroni), is at most MOST_LIKELY_CHANCE. Of measures that part the
    rows alike the first is named.
    """
    tried = [
        (name, sign, cut, rows)
        for name, values in measures.items()
        for cut in _between(values)
        for sign, rows in _sides(values, cut)
        if len(rows) >= FEWEST_ROWS
    ]
    best: dict[str, tuple[float, str, frozenset[int]]] = {}
    for name, sign, cut, rows in tried:
        chance = hypergeometric_tail(len(rows & set(wrong)), len(rows), len(wrong), len(measures[name]))
        if chance * len(tried) <= MOST_LIKELY_CHANCE and (name not in best or chance < best[name][0]):
            best[name] = (chance, f"{name} {sign} {cut}", rows)
    found: dict[frozenset[int], str] = {}
    for _, condition, rows in sorted(best.values(), key=lambda cut: cut[0]):
        found.setdefault(rows, condition)
    return list(found.values())


def _between(values: Sequence[int]) -> list[int]:
    """The middle between each value and the next: rows that are not here will fall on either side."""
    return [(low + high) // 2 for low, high in pairwise(sorted(set(values)))]


def _sides(values: Sequence[int], cut: int) -> list[tuple[str, frozenset[int]]]:
    above = frozenset(n for n, v in enumerate(values) if v > cut)
    return [(">", above), ("<=", frozenset(range(len(values))) - above)]
