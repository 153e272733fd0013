"""Who is worth building on, and when a winner is more than luck."""

from __future__ import annotations

import math
import random

import pytest
from fakes import add

from autoprompt.search.gate import CONFIRM_ALPHA, compare, confirm, is_accepted
from autoprompt.search.pool import Pool

IDS = [f"r{i}" for i in range(400)]


def pool_of(fixed: int, broken: int, same: int = 20) -> tuple[Pool, str, str]:
    """Original and candidate that differ on `fixed` and `broken` rows."""
    pool = Pool()
    a = add(pool, "original", [0.0] * fixed + [1.0] * broken + [1.0, 0.0] * (same // 2))
    b = add(pool, "candidate", [1.0] * fixed + [0.0] * broken + [1.0, 0.0] * (same // 2))
    return pool, b, a


@pytest.mark.parametrize(
    ("fixed", "broken", "accepted"),
    [(3, 0, True), (2, 0, False), (4, 1, True), (3, 1, False), (6, 2, True), (5, 2, False), (5, 0, True)],
)
def test_a_round_accepts_from_3_to_0_4_to_1_or_6_to_2(fixed: int, broken: int, accepted: bool) -> None:
    pool, candidate, original = pool_of(fixed, broken)
    comparison = compare(pool, candidate, original, IDS)
    assert (comparison.fixed, comparison.broken, comparison.rows) == (fixed, broken, fixed + broken + 20)
    tail = sum(math.comb(fixed + broken, k) for k in range(fixed, fixed + broken + 1)) / 2 ** (fixed + broken)
    assert comparison.p_value == pytest.approx(tail)
    assert is_accepted(comparison) is accepted


def test_a_worse_or_equal_candidate_is_not_accepted() -> None:
    for fixed, broken in ((0, 0), (0, 9), (4, 4)):
        pool, candidate, original = pool_of(fixed, broken)
        assert not is_accepted(compare(pool, candidate, original, IDS))


def test_without_shared_rows_nothing_is_claimed() -> None:
    pool, candidate, original = pool_of(9, 0)
    comparison = compare(pool, candidate, original, ["elsewhere"])
    assert (comparison.rows, comparison.p_value) == (0, 1.0)
    assert not is_accepted(comparison)


def confirmed(raced: tuple[int, int], fresh: tuple[int, int], tried: int, same: int = 20) -> bool:
    pool = Pool()
    parts = []
    for (fixed, broken), start in ((raced, 0), (fresh, 100)):
        n = fixed + broken + (same if fixed + broken else 0)
        old = [0.0] * fixed + [1.0] * broken + [1.0] * (n - fixed - broken)
        new = [1.0] * fixed + [0.0] * broken + [1.0] * (n - fixed - broken)
        ids = [f"r{start + i}" for i in range(n)]
        parts.append((ids, dict(zip(ids, old, strict=True)), dict(zip(ids, new, strict=True))))
    a = add(pool, "original", parts[0][1] | parts[1][1])
    b = add(pool, "winner", parts[0][2] | parts[1][2])
    result = confirm(pool, pool[b], pool[a], parts[0][0], parts[1][0], tried)
    assert result.tried == tried
    assert result.to_dict()["confirmed"] is result.is_confirmed
    return result.is_confirmed


@pytest.mark.parametrize(
    ("raced", "fresh", "tried", "expected"),
    [
        ((0, 0), (0, 0), 1, False),
        ((5, 0), (0, 0), 1, True),  # .031
        ((4, 0), (0, 0), 1, False),  # .0625
        ((7, 1), (0, 0), 1, True),  # .035
        ((6, 1), (0, 0), 1, False),  # .0625
        ((5, 0), (0, 0), 2, False),  # the luckier of two
        ((5, 0), (0, 0), 20, False),
        ((12, 0), (0, 0), 20, True),
        ((12, 0), (5, 0), 20, True),
        ((12, 0), (0, 5), 20, False),  # raced rows flatter; fresh ones speak against
        ((0, 5), (5, 0), 1, False),
    ],
)
def test_a_winner_needs_more_the_more_were_tried(
    raced: tuple[int, int], fresh: tuple[int, int], tried: int, expected: bool
) -> None:
    assert confirmed(raced, fresh, tried) is expected


@pytest.mark.parametrize(("race", "fresh"), [(60, 40), (60, 0), (24, 16)])
def test_the_best_of_twenty_coin_flipping_prompts_is_confirmed_in_at_most_5_percent(
    race: int, fresh: int
) -> None:
    """20 candidates race, the luckiest is confirmed: the error is that of the whole search."""
    rng = random.Random(race + fresh)
    runs, wrong = 400, 0
    race_ids, fresh_ids = IDS[:race], IDS[race : race + fresh]
    for _ in range(runs):
        pool = Pool()
        flips = [[float(rng.random() < 0.5) for _ in range(race)] for _ in range(20)]
        a = add(pool, "original", [float(rng.random() < 0.5) for _ in range(race + fresh)])
        luckiest = max(flips, key=sum) + [float(rng.random() < 0.5) for _ in range(fresh)]
        b = add(pool, "luckiest", luckiest)
        wrong += confirm(pool, pool[b], pool[a], race_ids, fresh_ids, 20).is_confirmed
    # Three standard errors above 5%: a correct gate fails this once in a thousand.
    assert wrong / runs <= CONFIRM_ALPHA + 3 * math.sqrt(CONFIRM_ALPHA * (1 - CONFIRM_ALPHA) / runs)


def test_uncorrected_the_same_search_errs_often() -> None:
    """That the simulation above can fail: told of one candidate, not of 20, the gate errs far more often."""
    rng = random.Random(7)
    wrong = 0
    for _ in range(150):
        pool = Pool()
        a = add(pool, "original", [float(rng.random() < 0.5) for _ in range(60)])
        flips = [[float(rng.random() < 0.5) for _ in range(60)] for _ in range(20)]
        b = add(pool, "luckiest", max(flips, key=sum))
        wrong += confirm(pool, pool[b], pool[a], IDS[:60], [], 1).is_confirmed
    assert wrong / 150 > 3 * CONFIRM_ALPHA


def test_a_real_gain_is_confirmed() -> None:
    rng = random.Random(3)
    found = 0
    for _ in range(50):
        pool = Pool()
        a = add(pool, "original", [float(rng.random() < 0.55) for _ in range(140)])
        b = add(pool, "better", [float(rng.random() < 0.9) for _ in range(140)])
        found += confirm(pool, pool[b], pool[a], IDS[:84], IDS[84:140], 20).is_confirmed
    assert found >= 48


def test_what_earlier_runs_measured_does_not_count_twice() -> None:
    """Where the makers knew of earlier runs, the raced rows say nothing: the fresh rows decide alone."""
    pool = Pool()
    race, fresh = [f"r{i}" for i in range(40)], [f"f{i}" for i in range(20)]
    a = add(pool, "original", dict.fromkeys([*race, *fresh], 0.0))
    b = add(pool, "winner", dict.fromkeys(race, 1.0) | {i: float(i in fresh[:3]) for i in fresh})
    together = confirm(pool, pool[b], pool[a], race, fresh, tried=5)
    alone = confirm(pool, pool[b], pool[a], race, fresh, tried=5, is_remembered=True)
    assert together.is_confirmed
    assert not alone.is_confirmed
    assert alone.p_value == alone.fresh.p_value
