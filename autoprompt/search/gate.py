"""The two decisions that a run stands on: does a candidate beat its parent, and is the winner more than luck.

A round's gate only says who is worth building on, so it is lenient. The confirmation decides what the user gets, so
it answers for everything that was tried: with 20 candidates and a plain p < .05, a model that answers at random would
be given a "better" prompt in a quarter of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autoprompt.search.pool import Entry, Pool
from autoprompt.stats import paired_test

ACCEPT_ALPHA = 0.2  # 3-0, 4-1 or 6-2 among the rows that differ: worth building on, not yet worth believing
CONFIRM_ALPHA = 0.05  # for the whole family of candidates; halved between the two ways below


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate against another on the rows they share. p_value is one-sided: the first is no better."""

    rows: int
    score: float
    other_score: float
    fixed: int
    broken: int
    p_value: float


def compare(pool: Pool, candidate_id: str, other_id: str, row_ids: Sequence[str]) -> Comparison:
    ours, theirs = pool.shared(candidate_id, other_id, row_ids)
    n = len(ours)
    return Comparison(
        rows=n,
        score=sum(ours) / n if n else 0.0,
        other_score=sum(theirs) / n if n else 0.0,
        fixed=sum(a > b for a, b in zip(ours, theirs, strict=True)),
        broken=sum(a < b for a, b in zip(ours, theirs, strict=True)),
        p_value=paired_test(theirs, ours, "greater") if n else 1.0,
    )


def is_accepted(comparison: Comparison) -> bool:
    """Whether a candidate that finished the race joins the pool of parents."""
    return comparison.score > comparison.other_score and comparison.p_value < ACCEPT_ALPHA


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether the winner of the search is better than the original beyond luck, and how that was found.

    way: "fresh" (validation rows that no comparison had used), "corrected" (all validation rows, p-value corrected
        for the candidates tried), or "" where neither held.
    fresh, overall: winner against original; `overall.p_value` is the corrected one.
    """

    is_confirmed: bool
    way: str
    fresh: Comparison
    overall: Comparison
    tried: int

    def to_dict(self) -> dict[str, Any]:
        def plain(c: Comparison) -> dict[str, Any]:
            return {
                "rows": c.rows,
                "best": round(c.score, 6),
                "original": round(c.other_score, 6),
                "fixed": c.fixed,
                "broken": c.broken,
                "p_value": c.p_value,
            }

        return {
            "confirmed": self.is_confirmed,
            "way": self.way,
            "tried": self.tried,
            "fresh": plain(self.fresh),
            "overall": plain(self.overall),
        }


def confirm(
    pool: Pool, winner: Entry, original: Entry, race_ids: Sequence[str], fresh_ids: Sequence[str], tried: int
) -> Confirmation:
    """Is `winner` better than `original`, at a chance of error of CONFIRM_ALPHA for the whole search?

    Two ways, each at half of it (their union is valid by Bonferroni): the fresh rows alone, which no comparison had
    used, or all rows with the p-value corrected for the number of candidates tried (Sidak 1967). Without fresh rows
    the second way has all of it.
    """
    share = CONFIRM_ALPHA / 2 if fresh_ids else CONFIRM_ALPHA
    ids = winner.candidate.id, original.candidate.id
    fresh = compare(pool, *ids, fresh_ids)
    plain = compare(pool, *ids, [*race_ids, *fresh_ids])
    corrected = 1.0 - (1.0 - plain.p_value) ** max(1, tried)
    overall = Comparison(plain.rows, plain.score, plain.other_score, plain.fixed, plain.broken, corrected)
    if fresh.rows and fresh.score > fresh.other_score and fresh.p_value < share:
        way = "fresh"
    elif plain.score > plain.other_score and corrected < share:
        way = "corrected"
    else:
        way = ""
    return Confirmation(bool(way), way, fresh, overall, tried)
