"""The race: candidates run over shared blocks of validation rows, and losers stop early.

A candidate loses to one that is ahead and costs no more: a cheaper one that is a little behind may be what
the user wants.

Successive halving (Jamieson & Talwalkar 2016) with a paired test beside it, as in irace (Lopez-Ibanez et al.
2016). Every candidate of a stage has the same rows, so each comparison is paired; the incumbent runs along.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprompt.errors import BudgetExhausted, EndpointError, RequestRefusedError
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.records import Example
from autoprompt.stats import difference, paired_error, paired_test

# A candidate that is behind one that costs no more with p under this is dropped at once: 3-0 or 4-1 among
# the rows that differ. Generous on purpose: dropping a good candidate cannot be undone, keeping a bad one
# costs one more block.
DROP_ALPHA = 0.2
# Rows that a slow candidate answers after the others' first rung, before it races. On the embedded model 16
# reasoned answers took two fifths of a run's time where they helped nothing. It goes on if it has as large a
# share of them right as is to be expected of the leader of the whole rung. That is hard on small gains, and
# meant so: it costs many times the tokens of an answer. By coin flips 0.63 (the original's chance, too)
# beside seven others from 0.5 to 0.94 races in 14%, 0.5 beside seven from 0.5 to 0.75 in 21%, 0.75 beside
# seven of 0.55 in 82%. (Beside the leader's own share, the luckiest of eight: 6%, 8% and 56%.)
PROBE_ROWS = 6
# Rows of these at once where each takes long: it ends as soon as that share is out of reach.
PROBE_STEP = 2

# At most so far behind, or one paired standard error, is level: on the few dozen rows of a race less says
# nothing of what is better on others.
LEVEL = 0.01
# At most this share of the cost is cheaper: less is not worth leaving the surer one.
CHEAPER = 0.8

_ROUNDING = 1e-9

# Evaluates the missing rows of several candidates and records them in the pool.
Evaluate = Callable[[Sequence[Entry], Sequence[Example]], None]
# What a call with an entry costs, in one unit for all.
Cost = Callable[[Entry], float]


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung of successive halving: who ran, over how many rows in all, and who goes on.

    ran, kept: best first. Source of the name: Li et al. 2020 (ASHA).
    """

    rows: int
    ran: tuple[str, ...]
    kept: tuple[str, ...]


def race(
    pool: Pool,
    incumbent: Entry,
    entrants: Sequence[Entry],
    rows: Sequence[Example],
    blocks: Sequence[int],
    evaluate: Evaluate,
    *,
    cost: Cost = lambda _: 0.0,
    on_rung: Callable[[Rung], None] = lambda _: None,
    is_slow: Callable[[Entry], bool] = lambda _: False,
    probe_step: int = PROBE_STEP,
    smaller: Callable[[Entry], Entry | None] = lambda _: None,
) -> list[Rung]:
    """Run `entrants` against `incumbent` over `rows`; scores land in the pool.

    After each rung the better half goes on, less those that are passed (see `is_passed`); its last place goes
    to the cheapest that is level with the leader.

    blocks: ascending row counts at which a rung ends; the last is len(rows). on_rung: hears of each as it
        ends. is_slow: whether an entrant takes so long that it comes after the others' first rung, and
        PROBE_ROWS rows at most decide whether it races at all. probe_step: how many of these are asked at
        once; the decision is the same. smaller: what races in an entrant's place, if the endpoint does not
        take its requests; None if nothing does.
    Returns the rungs; the last rung's `kept` are those that finished all rows, best first. What `evaluate`
    raises passes through, with the finished blocks in the pool.
    """
    alive = _without_slow_losers(pool, incumbent, entrants, rows[: blocks[0]], evaluate, is_slow, probe_step)
    rungs: list[Rung] = []
    start = 0
    for number, edge in enumerate(blocks):
        if not alive:
            break
        evaluate([incumbent, *alive], rows[start:edge])
        alive = [_fitted(entry, rows[:edge], evaluate, smaller) for entry in alive]
        so_far = [row.id for row in rows[:edge]]
        ranked = sorted(alive, key=lambda e: standing(e, so_far, cost))
        is_last = number == len(blocks) - 1
        keep = len(ranked) if is_last else max(1, (len(ranked) + 1) // 2)
        kept = _going_on(pool, incumbent, ranked, keep, so_far, cost)
        rungs.append(Rung(edge, tuple(e.candidate.id for e in ranked), tuple(e.candidate.id for e in kept)))
        on_rung(rungs[-1])
        alive, start = kept, edge
    return rungs


def standing(entry: Entry, row_ids: Sequence[str], cost: Cost) -> tuple[float, float, float]:
    """Return what entries are sorted by, best first.

    The score, of equal ones the cost, then how sure they are.
    """
    return -round(entry.mean(row_ids), 9), cost(entry), -entry.mean_merit(row_ids)


def _going_on(
    pool: Pool, incumbent: Entry, ranked: Sequence[Entry], most: int, row_ids: Sequence[str], cost: Cost
) -> list[Entry]:
    """At most so many of `ranked`, best first, of which the last one may be the cheapest that is level."""
    field = [incumbent, *ranked]
    staying = [e for e in ranked if not any(is_passed(pool, e, o, row_ids, cost) for o in field)]
    kept = staying[:most]
    leader = min(field, key=lambda e: standing(e, row_ids, cost))
    level = [e for e in staying if is_level(pool, e, leader, row_ids)]
    cheapest = min(level, key=cost, default=None)
    if most > 1 and cheapest is not None and cheapest not in kept:
        kept[-1] = cheapest
    return kept


def _fitted(
    entry: Entry, rows: Sequence[Example], evaluate: Evaluate, smaller: Callable[[Entry], Entry | None]
) -> Entry:
    """Return the entrant, or the first of its smaller ones that the endpoint takes."""
    while (other := smaller(entry)) is not None:
        evaluate([other], rows)
        entry = other
    return entry


def _without_slow_losers(
    pool: Pool,
    incumbent: Entry,
    entrants: Sequence[Entry],
    block: Sequence[Example],
    evaluate: Evaluate,
    is_slow: Callable[[Entry], bool],
    probe_step: int,
) -> list[Entry]:
    """Return the entrants less the slow ones that do not hold their own on the first rows.

    Where there are slow ones, the others have raced the whole block after this.

    Their share of right answers must not be below what `expected_best` says of the block's leader, nor
    nothing at all, level as it may be; beside the incumbent alone a hair is allowed. Rows of which none can
    be answered end the probe, not the race.
    """
    slow = [e for e in entrants if is_slow(e)]
    if not slow:
        return list(entrants)
    fast = [e for e in entrants if not is_slow(e)]
    ids = [row.id for row in block]
    probe = block[:PROBE_ROWS]
    step = len(probe)
    leading = 0.0
    if fast:
        evaluate([incumbent, *fast], block)
        leading = expected_best([e.mean(ids) for e in (incumbent, *fast)], len(ids))
        step = probe_step
    enough = max(0.0, leading - _ROUNDING)  # more than this: level is as good, and a mean is a rounded sum
    holding = slow
    try:
        for edge in range(step, len(probe) + step, step):
            if holding:
                evaluate([incumbent, *holding], probe[edge - step : edge])
            answered = [e for e in holding if any(row.id in e.scores for row in probe[:edge])]
            holding = [e for e in answered if _most(e, incumbent, probe) > enough]
    except BudgetExhausted:
        if not fast:
            raise
        return fast  # they may still fit
    except (EndpointError, RequestRefusedError) as error:  # it asks for longer answers, which not all give
        if getattr(error, "is_fatal", False):
            raise
        return fast
    if fast:
        holding = [e for e in holding if e.mean(ids) > enough]
    else:
        holding = [e for e in slow if not is_behind(pool, incumbent, e, ids)]
    racing = {e.candidate.id for e in (*fast, *holding)}
    return [e for e in entrants if e.candidate.id in racing]


def _most(entry: Entry, incumbent: Entry, rows: Sequence[Example]) -> float:
    """Return the largest mean that `entry` can come to on these rows, which the incumbent has answered."""
    scores = [entry.scores.get(row.id, 1.0) for row in rows]
    return statistics.fmean(scores, [incumbent.weights.get(row.id, 1.0) for row in rows])


def expected_best(shares: Sequence[float], rows: int) -> float:
    """Return what the best of several shares, each of so many rows, is worth beyond its luck.

    It keeps the part of its lead over the mean that is not explained by chance (empirical Bayes: Efron &
    Morris 1975). Shares on the same rows scatter less by chance than is taken here, so it is kept too low.
    """
    mean = statistics.fmean(shares)
    by_chance = statistics.fmean(share * (1 - share) for share in shares) / rows
    variance = statistics.pvariance(shares)
    kept = max(0.0, 1 - by_chance / variance) if variance else 0.0
    return mean + kept * (max(shares) - mean)


def is_passed(pool: Pool, entry: Entry, other: Entry, row_ids: Sequence[str], cost: Cost) -> bool:
    """Return whether `other` is ahead of `entry` by more than a hair, and not more expensive."""
    return cost(other) <= cost(entry) and is_behind(pool, other, entry, row_ids)


def is_level(pool: Pool, entry: Entry, other: Entry, row_ids: Sequence[str]) -> bool:
    """Return whether `entry` is at most LEVEL or one paired standard error behind on the shared rows."""
    ours, theirs, groups = pool.shared(entry.candidate.id, other.candidate.id, row_ids)
    behind = difference(sum(theirs), sum(ours)) / max(1, len(ours))
    return behind <= max(LEVEL, paired_error(ours, theirs, groups)) + _ROUNDING


def is_behind(pool: Pool, other: Entry, entry: Entry, row_ids: Sequence[str]) -> bool:
    """Return whether `entry` is behind `other` on the shared rows, with p < DROP_ALPHA."""
    ours, theirs, groups = pool.shared(entry.candidate.id, other.candidate.id, row_ids)
    return sum(ours) < sum(theirs) and paired_test(ours, theirs, "greater", groups=groups) < DROP_ALPHA
