"""Which candidate to confirm: one with fresh rows left may bring more than a better one without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from autoprompt.optimizer.search.gate import CONFIRM_ALPHA, raced_part, stage_weights
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.stats import difference
from autoprompt.stats.groups import members

_NORMAL = NormalDist()
# What is left on fresh rows of a gain on the rows that chose the candidate.
_SHRUNK = 0.75
_LEAST_SPREAD = 0.1  # of the groups' differences


@dataclass(frozen=True, slots=True)
class Prospect:
    """What confirming a candidate can be expected to bring.

    gain: in score, over the original, of one that is confirmed. chance: that it is confirmed, in [0, 1].
    """

    gain: float
    chance: float

    @property
    def value(self) -> float:
        """The gain that is to be expected."""
        return self.gain * self.chance


def foresee(
    pool: Pool,
    entry: Entry,
    race_ids: Sequence[str],
    fresh: int,
    *,
    is_remembered: bool = False,
) -> Prospect:
    """What confirming `entry` can be expected to bring, by its gain on the raced rows.

    fresh: how many groups of fresh rows it could be compared with the original on, a row alone being one.
    The chance is that of `confirm` with as many rows like the raced ones. No answer on fresh rows is looked
    at, so that who is chosen by this is confirmed as honestly as any other. Both are 0 where it is not ahead.
    """
    ours, theirs, groups = pool.shared(entry.candidate.id, pool.original.candidate.id, race_ids)
    differences = [difference(a, b) for a, b in zip(ours, theirs, strict=True)]
    gain = _SHRUNK * sum(differences) / max(1, len(differences))
    if gain <= 0:
        return Prospect(0.0, 0.0)
    raced, basis = raced_part(pool, entry, race_ids, has_fresh=fresh > 0, is_remembered=is_remembered)
    if not fresh:
        return Prospect(gain, float(basis == "raced" and raced.p_value < CONFIRM_ALPHA))
    together = members(groups, len(differences)) or [[row] for row in range(len(differences))]
    sums = [sum(differences[row] for row in rows) for rows in together]
    # With one group more that is of one row and fixed: a spread of 0 would foresee certainty. It is in the
    # squares alone, which are less than the mean's where all groups of several rows are fixed.
    variance = (sum(d * d for d in sums) + 1) / (len(sums) + 1) - (sum(sums) / len(sums)) ** 2
    spread = math.sqrt(max(_LEAST_SPREAD**2, variance))
    expected = _SHRUNK * sum(sums) / len(sums) / spread * math.sqrt(fresh)
    needed = -_NORMAL.inv_cdf(CONFIRM_ALPHA)
    if basis == "both":
        first, second = stage_weights(fresh)
        lead = -_NORMAL.inv_cdf(min(raced.p_value, 1 - 1e-9))
        needed = (needed * math.hypot(first, second) - first * lead) / second
    return Prospect(gain, _NORMAL.cdf(expected - needed))
