"""The two decisions that a run stands on: does a candidate beat its parent, and is the winner more than luck.

A round only says who is worth building on, so a better mean is enough. The confirmation decides what the
user gets, so it answers for everything that was tried: with 20 candidates and a plain p < .05, a model that
answers at random would be given a "better" prompt in a quarter of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from autoprompt.optimizer.search.operators import SIMPLIFIERS
from autoprompt.optimizer.search.plan import FEWEST_FRESH
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.runs.result import Basis, Comparison, Confirmation
from autoprompt.stats import combine_inverse_normal, count_groups, difference, many_to_one, paired_test
from autoprompt.stats.groups import members

CONFIRM_ALPHA = 0.05  # one-sided, for the whole search
# Of the fresh rows, where the raced ones weigh 1: about the roots of their numbers, as up to 1.7 times as
# many are fresh with the train rows that nobody has seen. A few of these alone say little either way.
FRESH_WEIGHT = 2**0.5
# How far the comparisons of two candidates go together where nothing helps: all meet the same original, and
# where that was unlucky all are ahead. By a half, where it is chosen once (Dunnett); half of that is kept for
# what rounds choose on the way. With 0, as if each had an original of its own, 2.7% of simulated searches
# of coin flips on 62 rows were confirmed and gains with them; with a half 7% of long ones on 150.
TOGETHER = 0.25
# Longer lines than this have picked the luckiest too often for the correction of the raced rows: in
# simulated climbs of coin flips 10 and 15 generations were confirmed in 10 and 14%, up to 6 in 1-6%. Those
# count by their square over GENERATION_SQUARES: two are worth none, three 2, six 9; as many as there are
# left two and three at 1-3% and cost gain.
MOST_GENERATIONS = 6
GENERATION_SQUARES = 4


def compare(
    pool: Pool, candidate_id: str, other_id: str, row_ids: Sequence[str], *, is_mid: bool = False
) -> Comparison:
    """On the rows that both have. is_mid: the mid-p, for what is to be combined."""
    ours, theirs, groups = pool.shared(candidate_id, other_id, row_ids)
    n = len(ours)
    return Comparison(
        rows=n,
        score=sum(ours) / n if n else 0.0,
        other_score=sum(theirs) / n if n else 0.0,
        fixed=sum(difference(a, b) > 0 for a, b in zip(ours, theirs, strict=True)),
        broken=sum(difference(a, b) < 0 for a, b in zip(ours, theirs, strict=True)),
        p_value=paired_test(theirs, ours, "greater", groups=groups, is_mid=is_mid) if n else 1.0,
        groups=count_groups(groups),
    )


def is_better(comparison: Comparison) -> bool:
    """Return whether a candidate that finished the race has the higher mean, which is enough to build on it.

    A test here would ask of each step what only all of them together can show: see the ablation "better
    mean" of benchmarks/simulated.py, which puts p < .2 in its place.
    """
    return difference(comparison.score, comparison.other_score) > 0


def confirm(
    pool: Pool,
    winner: Entry,
    race_ids: Sequence[str],
    fresh_ids: Sequence[str],
    *,
    is_remembered: bool = False,
) -> Confirmation:
    """Is `winner` better than the original beyond luck? Meant to err in CONFIRM_ALPHA of all searches.

    An adaptive design in two stages. The p-value of the raced rows is corrected for all that raced against
    the one original (Dunnett 1955, see TOGETHER), each by its share of the race, and for the generations of
    the winner's line: children inherit their parent's luck on these rows, and each round chose anew. The
    fresh rows are used by one comparison and need no correction. Both are combined by the inverse normal
    method with weights by their groups, which no answer on them decides (Lehmacher & Wassmer 1999).
    Combined, each is a mid-p: the exact ones, made for a test that stands alone, left 4 of the 5% unused.
    Where one stage stands alone it is exact.
    is_remembered: the winner's makers knew what earlier runs had measured, maybe on the raced rows: then the
    fresh rows decide alone, as they do for a line of more than MOST_GENERATIONS, unless there are none.

    The error is a measured one, since how much luck is inherited is not known: `benchmarks/simulated.py` has
    worlds in which nothing helps, one whose prompts inherit nearly all of their parent's luck among them, and
    benchmarks/docs/search.md says how often each is given another prompt. Tried and
    dropped: the highest statistic of all candidates under random signs (Westfall & Young 1993). It gains a
    little more, but takes the candidates for fixed, and children of lucky parents passed it in 7% of runs.
    """
    ids = winner.candidate.id, pool.original.candidate.id
    has_fresh = bool(pool.shared(*ids, fresh_ids).groups)
    raced, basis = raced_part(pool, winner, race_ids, has_fresh=has_fresh, is_remembered=is_remembered)
    fresh = compare(pool, *ids, fresh_ids, is_mid=basis == "both")
    if basis == "both":
        p_value = combine_inverse_normal([raced.p_value, fresh.p_value], stage_weights(fresh.groups))
    else:
        p_value = (fresh if basis == "fresh" else raced).p_value
    ours = raced.score * raced.rows + fresh.score * fresh.rows
    theirs = raced.other_score * raced.rows + fresh.other_score * fresh.rows
    is_confirmed = difference(ours, theirs) > 0 and p_value < CONFIRM_ALPHA
    tried = sum(e is not pool.original and any(i in e.scores for i in race_ids) for e in pool.entries)
    chances = _chances(pool, winner, race_ids)
    return Confirmation(
        is_confirmed,
        p_value,
        tried,
        chances,
        basis,
        raced,
        fresh,
        winner.candidate.id,
        remembered=is_remembered,
    )


def raced_part(
    pool: Pool, winner: Entry, race_ids: Sequence[str], *, has_fresh: bool, is_remembered: bool
) -> tuple[Comparison, Basis]:
    """Return the raced rows' comparison with the original, corrected as in `confirm`."""
    generations = generation(pool, winner)
    basis: Basis = "both" if has_fresh else "raced"
    if is_remembered or (has_fresh and generations > MOST_GENERATIONS):
        basis = "fresh"
    ids = winner.candidate.id, pool.original.candidate.id
    raced = compare(pool, *ids, race_ids, is_mid=basis == "both")
    return replace(raced, p_value=_corrected(raced.p_value, _chances(pool, winner, race_ids))), basis


def _chances(pool: Pool, winner: Entry, race_ids: Sequence[str]) -> float:
    """As how many prompts on all its raced rows the candidates count, and what its line adds: at least 1.

    One that was dropped after a third of the race had a third of a chance to be the luckiest of it. Where a
    cap ended the race on its way, only the rows that the winner has are the race: all who came as far had a
    whole chance. Simpler forms, which race when the best has been chosen, were no chance of the best.
    """
    ids = [i for i in race_ids if i in winner.scores and i in pool.original.scores]
    others = [e for e in pool.entries if e is not pool.original]
    if winner.candidate.operator not in SIMPLIFIERS:
        others = [e for e in others if e.candidate.operator not in SIMPLIFIERS]
    rows = sum(i in e.scores for e in others for i in ids)
    generations = generation(pool, winner)
    return max(1.0, rows / max(1, len(ids))) * max(1.0, generations**2 / GENERATION_SQUARES)


def smallest_gain(race: int, fresh: int, chances: float) -> float | None:
    """Return the smallest gain that so many raced and fresh rows can confirm; None if even 1 is too small.

    Where rows belong together, so many groups: one that is fixed counts once, however many rows it has.
    Of a winner that breaks no row and fixes the same share of both. chances: as how many
    prompts the candidates count (see `_chances`). More fresh rows may come from train.
    """
    for fixed in range(1, race + 1):
        held = round(fixed * fresh / race)
        raced = _corrected(_luck(fixed, is_mid=bool(fresh)), chances)
        p_value = raced
        if fresh:
            p_value = combine_inverse_normal([raced, _luck(held, is_mid=True)], stage_weights(fresh))
        if p_value < CONFIRM_ALPHA:
            return (fixed + held) / (race + fresh)
    return None


def stage_weights(fresh: int) -> tuple[float, float]:
    """Of raced and of fresh rows, by how many groups these are."""
    return 1.0, FRESH_WEIGHT * math.sqrt(min(1.0, fresh / FEWEST_FRESH))


def _luck(fixed: int, *, is_mid: bool) -> float:
    """One-sided p-value of `fixed` rows fixed and none broken."""
    return paired_test([0.0] * fixed, [1.0] * fixed, "greater", is_mid=is_mid) if fixed else 0.5


def generation(pool: Pool, entry: Entry) -> int:
    """0 for the original, else one more than the latest of its parents."""
    parents = [pool[i] for i in entry.candidate.parents]
    return 1 + max(generation(pool, parent) for parent in parents) if parents else 0


def _corrected(p_value: float, chances: float) -> float:
    return many_to_one(p_value, chances, TOGETHER)


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
    """Return what confirming `entry` can be expected to bring, by its gain on the raced rows.

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
