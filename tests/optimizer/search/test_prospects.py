"""Which candidate is worth a confirmation."""

from __future__ import annotations

import random

from fakes import add

from autoprompt.optimizer.search.gate import CONFIRM_ALPHA, MOST_GENERATIONS, confirm, foresee
from autoprompt.optimizer.search.pool import Pool

RACE = [f"r{i}" for i in range(40)]


def fixing(rows: int, broken: int = 0) -> list[float]:
    """Beside an original that is right on the last half."""
    return [1.0] * rows + [0.0] * (20 - rows) + [0.0] * broken + [1.0] * (20 - broken)


def pool_of(rights: list[float], groups: dict[str, str] | None = None) -> tuple[Pool, str]:
    pool = Pool(groups=groups or {})
    add(pool, "original", fixing(0))
    return pool, add(pool, "candidate", rights)


def foreseen(rights: list[float], fresh: int, **known: bool) -> float:
    pool, name = pool_of(rights)
    return foresee(pool, pool[name], RACE, fresh, **known).value


def test_more_fresh_rows_and_a_larger_gain_promise_more() -> None:
    assert 0 < foreseen(fixing(8, 3), 5) < foreseen(fixing(8, 3), 15) < foreseen(fixing(8, 3), 40) < 5 / 40
    assert foreseen(fixing(6, 3), 15) < foreseen(fixing(8, 3), 15) < foreseen(fixing(12, 3), 15)


def test_one_that_is_not_ahead_promises_nothing() -> None:
    assert foreseen(fixing(0), 30) == foreseen(fixing(3, 3), 30) == foreseen(fixing(2, 9), 30) == 0.0
    pool, name = pool_of(fixing(9))
    assert foresee(pool, pool[name], ["elsewhere"], 30).value == 0.0


def test_without_fresh_rows_the_race_has_decided() -> None:
    assert foreseen(fixing(5), 0) > 0  # p = .031
    assert foreseen(fixing(4), 0) == 0
    assert foreseen(fixing(20), 0, is_remembered=True) == 0


def test_a_long_line_and_lessons_of_earlier_runs_have_only_the_fresh_rows() -> None:
    few, many = 6, 40
    pool, name = pool_of(fixing(12))
    for number in range(MOST_GENERATIONS + 1):
        name = add(pool, f"child {number}", fixing(12), parents=(name,))
    late = foresee(pool, pool[name], RACE, few).value
    assert late < foreseen(fixing(12), few)
    assert foreseen(fixing(12), few, is_remembered=True) == late
    assert foresee(pool, pool[name], RACE, many).value > 0.9 * foreseen(fixing(12), many)


def test_rows_that_belong_together_foretell_less() -> None:
    """The same scores in pairs: half as many draws, and as much of a spread."""
    together = {f"r{i}": f"g{i // 2}" for i in range(40)}
    pool, name = pool_of(fixing(8, 4), together)
    assert foresee(pool, pool[name], RACE, 10).value < foreseen(fixing(8, 4), 20)


def test_a_gain_on_all_groups_of_several_rows_is_as_good_as_certain() -> None:
    """A naive prompt that gets none right, for want of a format, and tickets in pairs or fives."""
    for size, rights in ((2, 40), (2, 38), (5, 28)):
        together = {f"r{i}": f"g{i // size}" for i in range(40)}
        pool, name = pool_of(fixing(rights), together)
        assert 0.99 < foresee(pool, pool[name], RACE, 20).chance <= 1


def test_a_gain_that_is_alike_on_all_rows_is_not_certain() -> None:
    """A judge's tenth more for each answer: without any spread it would be foreseen in 99 of 100 cases."""
    pool = Pool()
    add(pool, "original", [0.5] * 40)
    name = add(pool, "candidate", [0.6] * 40)
    assert 0.7 < foresee(pool, pool[name], RACE, 30, is_remembered=True).chance < 0.9


def test_what_is_foreseen_is_about_what_comes() -> None:
    """Of prompts with a true gain of 0.3: the chance that is foreseen, and how many are confirmed."""
    rng = random.Random(0)
    fresh_ids = [f"f{i}" for i in range(20)]
    ids = RACE + fresh_ids
    chances, passed = [], []
    for _ in range(150):
        pool = Pool()
        add(pool, "original", {i: float(rng.random() < 0.5) for i in ids})
        name = add(pool, "candidate", {i: float(rng.random() < 0.8) for i in ids})
        chances.append(foresee(pool, pool[name], RACE, len(fresh_ids)).chance)
        passed.append(confirm(pool, pool[name], RACE, fresh_ids).p_value < CONFIRM_ALPHA)
    foretold, came = sum(chances) / len(chances), sum(passed) / len(passed)
    assert came - 0.12 < foretold <= came + 0.03  # a gain is foreseen smaller than it was in the race
