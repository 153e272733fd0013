"""Which candidate to confirm: one with fresh rows left may bring more than a better one without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from autoprompt.search.gate import CONFIRM_ALPHA, raced_part, stage_weights
from autoprompt.search.pool import Entry, Pool
from autoprompt.stats.groups import members

_NORMAL = NormalDist()
# What is left on fresh rows of a gain on the rows that chose the candidate.
_SHRUNK = 0.75


def foreseen_gain(
    pool: Pool,
    entry: Entry,
    race_ids: Sequence[str],
    fresh: int,
    *,
    is_remembered: bool = False,
) -> float:
    """What confirming `entry` can be expected to bring: its gain on the raced rows, times its chance.

    fresh: how many groups of fresh rows it could be compared with the original on, a row alone being one.
    The chance is that of `confirm` with as many rows like the raced ones. No answer on fresh rows is looked
    at, so that who is chosen by this is confirmed as honestly as any other. 0 where it is not ahead.
    """
    ours, theirs, groups = pool.shared(entry.candidate.id, pool.original.candidate.id, race_ids)
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    gain = _SHRUNK * sum(differences) / max(1, len(differences))
    if gain <= 0:
        return 0.0
    raced, basis = raced_part(pool, entry, race_ids, has_fresh=fresh > 0, is_remembered=is_remembered)
    if not fresh:
        return gain if basis == "raced" and raced.p_value < CONFIRM_ALPHA else 0.0
    together = members(groups, len(differences)) or [[row] for row in range(len(differences))]
    sums = [sum(differences[row] for row in rows) for rows in together]
    # With one group more that is of one row and fixed: a spread of 0 would foresee certainty.
    spread = math.sqrt((sum(d * d for d in sums) + 1) / (len(sums) + 1) - (sum(sums) / len(sums)) ** 2)
    expected = _SHRUNK * sum(sums) / len(sums) / max(spread, 0.1) * math.sqrt(fresh)
    needed = -_NORMAL.inv_cdf(CONFIRM_ALPHA)
    if basis == "both":
        first, second = stage_weights(fresh)
        lead = -_NORMAL.inv_cdf(min(raced.p_value, 1 - 1e-9))
        needed = (needed * math.hypot(first, second) - first * lead) / second
    return gain * _NORMAL.cdf(expected - needed)
