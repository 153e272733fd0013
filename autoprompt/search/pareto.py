"""Which accepted candidate to build on: one that is best somewhere, the more often the likelier."""

from __future__ import annotations

import random
from collections.abc import Sequence

from autoprompt.search.pool import Entry, Pool


def front(scores: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the candidates that no other candidate dominates.

    scores: N candidates x M examples, each in [0, 1], higher is better, no NaN.
    Ascending; equal rows do not dominate each other, so both stay.
    Raises ValueError if rows differ in length. Cost O(N^2 M).
    Source: NSGA-II (Deb et al. 2002), section III-A.
    """
    if len({len(row) for row in scores}) > 1:
        raise ValueError("all candidates need a score on the same examples")

    def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
        return all(x >= y for x, y in zip(a, b, strict=True)) and any(
            x > y for x, y in zip(a, b, strict=True)
        )

    return [i for i, row in enumerate(scores) if not any(dominates(other, row) for other in scores)]


def pick_parent(pool: Pool, row_ids: Sequence[str], rng: random.Random) -> Entry:
    """An accepted candidate, drawn by the number of rows on which it is (jointly) the best.

    Only rows that every accepted candidate was evaluated on count; with none, the best mean wins.
    Source: GEPA (Agrawal et al. 2025), algorithm 2: its ablation gives 61.3 for this choice against 54.9 for
    always taking the best.
    """
    entries = pool.accepted()
    ids = [i for i in row_ids if all(i in e.scores for e in entries)]
    if not ids:
        return max(entries, key=lambda e: e.mean_merit(row_ids))
    kept = [entries[k] for k in front([[e.scores[i] for i in ids] for e in entries])]
    wins = [0] * len(kept)
    for row_id in ids:
        best = max(e.scores[row_id] for e in kept)
        for k, entry in enumerate(kept):
            wins[k] += entry.scores[row_id] == best
    # Squared: with 0/1 scores most candidates share most rows, and plain counts would be almost uniform.
    return rng.choices(kept, weights=[w * w + 1e-9 for w in wins])[0]
