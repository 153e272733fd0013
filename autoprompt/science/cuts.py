"""Cuts of the rows' measures that part wrong rows from right ones: hypotheses that need no model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from autoprompt.science.findings import FEWEST_ROWS, MOST_LIKELY_CHANCE, hypergeometric_tail


def best_cuts(measures: Mapping[str, Sequence[int]], wrong: Collection[int]) -> list[str]:
    """Conditions like "length > 80": the surest cut of each measure, where it is beyond luck; surest first.

    measures: name -> a number for each row. wrong: 0-based numbers of the wrong rows. Beyond luck: p of the
    cut, times all cuts that were tried (Bonferroni), is at most MOST_LIKELY_CHANCE. Of measures that part the
    rows alike the first is named.
    """
    tried = [
        (name, sign, value, rows)
        for name, values in measures.items()
        for value in sorted(set(values))
        for sign, rows in _sides(values, value)
        if FEWEST_ROWS <= len(rows) < len(values)
    ]
    best: dict[str, tuple[float, str, frozenset[int]]] = {}
    for name, sign, value, rows in tried:
        chance = hypergeometric_tail(len(rows & set(wrong)), len(rows), len(wrong), len(measures[name]))
        if chance * len(tried) <= MOST_LIKELY_CHANCE and (name not in best or chance < best[name][0]):
            best[name] = (chance, f"{name} {sign} {value}", rows)
    found: dict[frozenset[int], str] = {}
    for _, condition, rows in sorted(best.values(), key=lambda cut: cut[0]):
        found.setdefault(rows, condition)
    return list(found.values())


def _sides(values: Sequence[int], value: int) -> list[tuple[str, frozenset[int]]]:
    above = frozenset(n for n, v in enumerate(values) if v > value)
    return [(">", above), ("<=", frozenset(range(len(values))) - above)]
