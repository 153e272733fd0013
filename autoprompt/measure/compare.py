"""Two prompts on the same rows: is the new one better than the old one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autoprompt.brief import brief
from autoprompt.metrics import Metric
from autoprompt.records import EvaluatedRow
from autoprompt.stats import (
    Interval,
    aggregate_draws,
    aggregate_interval,
    count_groups,
    difference,
    draws_interval,
    mean_interval,
    paired_difference_interval,
    paired_test,
    permutation_aggregate,
)

ALPHA = 0.05  # two-sided
LOPSIDED = 0.1  # of the rows: so many more of them lost on one side than on the other


@dataclass(frozen=True, slots=True)
class Scored:
    """A figure of rows, in [0, 1], with its 95% interval."""

    score: float
    interval: Interval

    __repr__ = brief


def _changed(new: Sequence[float], old: Sequence[float]) -> tuple[int, int]:
    """Return how many rows score higher, and how many lower."""
    gains = [difference(a, b) for a, b in zip(new, old, strict=True)]
    return sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """New against old on the rows that neither side lost. Scores in [0, 1], intervals of 95%.

    fixed, broken: rows that the new prompt scores higher, and lower. left_out: rows that the endpoint failed,
    or the budget had no call for, on either side: they say nothing of the prompts. is_lopsided: so many more
    failed on one side than on the other that what is left says nothing either.
    groups: in how many the compared rows are, a row alone being one.
    """

    new: Scored
    old: Scored
    gain: float
    gain_interval: Interval
    p_value: float
    fixed: int
    broken: int
    left_out: int
    groups: int
    is_lopsided: bool = False

    __repr__ = brief

    @property
    def is_better(self) -> bool:
        return self.gain > 0 and self.p_value < ALPHA and not self.is_lopsided

    @property
    def is_worse(self) -> bool:
        return self.gain < 0 and self.p_value < ALPHA and not self.is_lopsided

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain JSON; the two sides have records of their own."""
        return {
            "gain": {"value": self.gain, "ci95": list(self.gain_interval)},
            "p_value": self.p_value,
            "fixed": self.fixed,
            "broken": self.broken,
            "left_out": self.left_out,
            "is_lopsided": self.is_lopsided,
        }


def score_rows(rows: Sequence[EvaluatedRow], metric: Metric) -> Scored:
    """Return the metric over all rows; those that failed score 0. Rows that belong together count as such.

    The same rows give the same interval in any order.
    """
    rows = sorted(rows, key=_id)
    groups = [row.group for row in rows]
    scores = [row.score for row in rows]
    if not metric.is_aggregate:
        return Scored(sum(scores) / max(1, len(rows)), mean_interval(scores, groups=groups))
    targets, answers = [row.ground_truth for row in rows], _answers(rows)
    interval = aggregate_interval(answers, targets, metric.aggregate, groups=groups)
    return Scored(metric.aggregate(answers, targets), interval)


def compare_rows(
    new: Sequence[EvaluatedRow], old: Sequence[EvaluatedRow], metric: Metric
) -> ComparedRows | None:
    """None where no row was answered on both sides. Two-sided and paired; exact where scores are 0 or 1.

    Of an aggregate metric (macro-F1) the aggregate is compared, by a paired permutation test. Rows that
    belong together are no independent evidence: see `autoprompt.stats`. The same rows give the same figures
    in any order: what is drawn at random is drawn for them in the order of their ids.
    """
    pairs = [(a, b) for a, b in zip(new, old, strict=True) if not (a.is_lost or b.is_lost)]
    pairs.sort(key=lambda pair: _id(pair[0]))
    if not pairs:
        return None
    sides = [a for a, _ in pairs], [b for _, b in pairs]
    groups = [row.group for row in sides[0]]
    scores = [[row.score for row in side] for side in sides]
    if not metric.is_aggregate:
        p_value = paired_test(scores[1], scores[0], "two-sided", groups=groups)
        gain_interval = paired_difference_interval(scores[1], scores[0], groups=groups)
        scored = [score_rows(side, metric) for side in sides]
    else:
        targets = [row.ground_truth for row in sides[0]]
        answers = [_answers(side) for side in sides]
        p_value = permutation_aggregate(
            answers[1], answers[0], targets, metric.aggregate, alternative="two-sided", groups=groups
        )
        draws = [aggregate_draws(side, targets, metric.aggregate, groups=groups) for side in answers]
        scored = [
            Scored(metric.aggregate(side, targets), draws_interval(own, Interval(0.0, 1.0), targets, groups))
            for side, own in zip(answers, draws, strict=True)
        ]
        gains = [a - b for a, b in zip(*draws, strict=True)]
        gain_interval = draws_interval(gains, Interval(-1.0, 1.0), targets, groups)
    fixed, broken = _changed(*scores)
    return ComparedRows(
        new=scored[0],
        old=scored[1],
        gain=difference(scored[0].score, scored[1].score),
        gain_interval=gain_interval,
        p_value=p_value,
        fixed=fixed,
        broken=broken,
        left_out=len(new) - len(pairs),
        groups=count_groups(groups),
        is_lopsided=_is_lopsided(new, old),
    )


def _id(row: EvaluatedRow) -> str:
    return row.example_id


def _is_lopsided(new: Sequence[EvaluatedRow], old: Sequence[EvaluatedRow]) -> bool:
    """Which rows come to a tool that is not there, or to an answer that takes too long, is for the prompts to
    say: of two that fail by accident, neither does so much more often.
    """
    failed = [sum(row.is_lost and not row.is_unasked for row in side) for side in (new, old)]
    return abs(failed[0] - failed[1]) > LOPSIDED * len(new)


def _answers(rows: Sequence[EvaluatedRow]) -> list[str]:
    return ["" if row.is_unparsed else row.prediction for row in rows]
