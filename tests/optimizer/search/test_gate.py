"""Who is worth building on, who is worth a confirmation, and when a winner is more than luck."""

from __future__ import annotations

import math
import random

import pytest
from fakes import add

from autoprompt.optimizer.search.gate import (
    CONFIRM_ALPHA,
    MOST_GENERATIONS,
    TOGETHER,
    Confirmation,
    compare,
    confirm,
    foresee,
    is_better,
    smallest_gain,
)
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate
from autoprompt.stats import many_to_one

IDS = [f"r{i}" for i in range(400)]
RACE = [f"r{i}" for i in range(40)]


def pool_of(fixed: int, broken: int, same: int = 20) -> tuple[Pool, str, str]:
    """Original and candidate that differ on `fixed` and `broken` rows."""
    pool = Pool()
    a = add(pool, "original", [0.0] * fixed + [1.0] * broken + [1.0, 0.0] * (same // 2))
    b = add(pool, "candidate", [1.0] * fixed + [0.0] * broken + [1.0, 0.0] * (same // 2))
    return pool, b, a


@pytest.mark.parametrize(("fixed", "broken"), [(3, 0), (1, 0), (4, 1), (5, 4), (6, 2)])
def test_a_better_mean_is_worth_building_on(fixed: int, broken: int) -> None:
    pool, candidate, original = pool_of(fixed, broken)
    comparison = compare(pool, candidate, original, IDS)
    assert (comparison.fixed, comparison.broken, comparison.rows) == (fixed, broken, fixed + broken + 20)
    tail = sum(math.comb(fixed + broken, k) for k in range(fixed, fixed + broken + 1)) / 2 ** (fixed + broken)
    assert comparison.p_value == pytest.approx(tail)
    assert is_better(comparison)


def test_a_worse_or_equal_candidate_is_not_accepted() -> None:
    for fixed, broken in ((0, 0), (0, 9), (4, 4)):
        pool, candidate, original = pool_of(fixed, broken)
        assert not is_better(compare(pool, candidate, original, IDS))


def test_scores_that_only_rounding_keeps_apart_are_equal() -> None:
    pool = Pool()
    a, b = add(pool, "original", [0.3] * 8), add(pool, "candidate", [0.1 + 0.2] * 8)
    comparison = compare(pool, b, a, IDS)
    assert (comparison.fixed, comparison.broken, comparison.p_value) == (0, 0, 1.0)
    assert not is_better(comparison)


def test_without_shared_rows_nothing_is_claimed() -> None:
    pool, candidate, original = pool_of(9, 0)
    comparison = compare(pool, candidate, original, ["elsewhere"])
    assert (comparison.rows, comparison.p_value) == (0, 1.0)
    assert not is_better(comparison)


def confirmed(raced: tuple[int, int], fresh: tuple[int, int], tried: int, same: int = 20) -> bool:
    pool = Pool()
    parts = []
    for (fixed, broken), start in ((raced, 0), (fresh, 100)):
        n = fixed + broken + (same if fixed + broken else 0)
        old = [0.0] * fixed + [1.0] * broken + [1.0] * (n - fixed - broken)
        new = [1.0] * fixed + [0.0] * broken + [1.0] * (n - fixed - broken)
        ids = [f"r{start + i}" for i in range(n)]
        parts.append((ids, dict(zip(ids, old, strict=True)), dict(zip(ids, new, strict=True))))
    add(pool, "original", parts[0][1] | parts[1][1])
    b = add(pool, "winner", parts[0][2] | parts[1][2])
    flips = random.Random(tried)
    for n in range(tried - 1):
        add(pool, f"coin {n}", {i: float(flips.random() < 0.5) for i in parts[0][0]})
    result = confirm(pool, pool[b], parts[0][0], parts[1][0])
    assert result.tried == (tried if any(raced) else 0)
    return result.confirmed


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


def coin_flip_search(rng: random.Random, race: int, fresh: int, *, is_known: bool = True) -> bool:
    """Ten coin-flipping candidates race beside a coin-flipping original; whether the luckiest is confirmed.

    is_known: whether the gate is told of the other nine.
    """
    pool = Pool()
    add(pool, "original", [float(rng.random() < 0.5) for _ in range(race + fresh)])
    flips = sorted(([float(rng.random() < 0.5) for _ in range(race)] for _ in range(10)), key=sum)
    luckiest = add(pool, "luckiest", flips.pop() + [float(rng.random() < 0.5) for _ in range(fresh)])
    if is_known:
        for n, flip in enumerate(flips):
            add(pool, f"coin {n}", flip)
    return confirm(pool, pool[luckiest], IDS[:race], IDS[race : race + fresh]).confirmed


@pytest.mark.parametrize(("race", "fresh"), [(60, 40), (60, 0), (24, 16), (22, 11), (26, 6), (24, 1)])
def test_the_best_of_ten_coin_flipping_prompts_is_confirmed_in_at_most_5_percent(
    race: int, fresh: int
) -> None:
    """The error is that of the whole search."""
    rng = random.Random(race + fresh)
    runs = 400
    wrong = sum(coin_flip_search(rng, race, fresh) for _ in range(runs))
    # Three standard errors above 5%: a correct gate fails this once in a thousand.
    assert wrong / runs <= CONFIRM_ALPHA + 3 * math.sqrt(CONFIRM_ALPHA * (1 - CONFIRM_ALPHA) / runs)


def test_uncorrected_the_same_search_errs_often() -> None:
    """That the simulation above can fail: told of one candidate, not of ten, the gate errs far more often."""
    rng = random.Random(7)
    wrong = sum(coin_flip_search(rng, 60, 0, is_known=False) for _ in range(150))
    assert wrong / 150 > 3 * CONFIRM_ALPHA


def climb(rng: random.Random, rounds: int, redrawn: float) -> bool:
    """Rounds of six children of the luckiest, which inherit most of its luck; whether it is confirmed."""
    pool = Pool()
    luck = [float(rng.random() < 0.5) for _ in range(120)]
    best = add(pool, "original", luck)
    for number in range(rounds):
        children = []
        for n in range(6):
            drawn = [float(rng.random() < 0.5) if rng.random() < redrawn else right for right in luck]
            children.append((sum(drawn[:45]), f"child {number} {n}", drawn))
        for _, text, drawn in children:
            add(pool, text, drawn[:45], parents=(best,))
        most, text, drawn = max(children)
        if most > sum(luck[:45]):
            luck = drawn
            best = add(pool, text, luck, parents=(best,))
            pool[best].scores.update(dict(zip(IDS, luck, strict=False)))
    return confirm(pool, pool[best], IDS[:45], IDS[45:120]).confirmed


@pytest.mark.parametrize("rounds", [2, 3, 4, 6, 15])
def test_luck_that_is_inherited_over_rounds_is_not_confirmed(rounds: int) -> None:
    """Nothing is better than a coin, but each round keeps what was lucky on the raced rows."""
    rng = random.Random(1)
    runs = 200
    wrong = sum(climb(rng, rounds, redrawn=0.1) for _ in range(runs))
    assert wrong / runs <= CONFIRM_ALPHA + 2 * math.sqrt(CONFIRM_ALPHA * (1 - CONFIRM_ALPHA) / runs)


def test_after_many_generations_the_fresh_rows_decide_alone() -> None:
    pool = Pool()
    best = add(pool, "original", [0.0] * 12 + [1.0] * 28)
    for number in range(MOST_GENERATIONS + 1):
        best = add(pool, f"child {number}", [1.0] * 40, parents=(best,))
    found = confirm(pool, pool[best], IDS[:20], IDS[20:40])
    assert (found.basis, found.p_value, found.confirmed) == ("fresh", 1.0, False)
    # Where there are none, the raced ones have to do.
    found = confirm(pool, pool[best], IDS[:20], [])
    assert (found.basis, found.p_value) == ("raced", found.raced.p_value)


def test_a_winner_of_a_later_generation_needs_more() -> None:
    def p_value(*line: str) -> float:
        pool = Pool()
        parent = add(pool, "original", [0.0] * 12 + [1.0] * 28)
        for text in line:
            parent = add(pool, text, [1.0] * 11 + [0.0] + [1.0] * 28, parents=(parent,))
        return confirm(pool, pool[parent], IDS[:20], IDS[20:40]).raced.p_value

    line = ["child", "grandchild", "third", "fourth"]
    assert p_value(*line) > 2 * len(line) * p_value("child")


def test_a_candidate_that_was_dropped_early_counts_by_its_share_of_the_race() -> None:
    def p_value(rows: int) -> float:
        pool = Pool()
        add(pool, "original", [0.0] * 8 + [1.0] * 24)
        winner = add(pool, "winner", [1.0] * 8 + [0.0] + [1.0] * 23)
        for n in range(8):
            add(pool, f"dropped {n}", [0.0] * rows)
        return confirm(pool, pool[winner], IDS[:32], []).raced.p_value

    alone = 10 / 2**9  # 8 fixed, 1 broken
    assert p_value(0) == pytest.approx(alone)
    assert p_value(8) == pytest.approx(many_to_one(alone, 1 + 8 / 4, TOGETHER))
    assert p_value(32) == pytest.approx(many_to_one(alone, 9, TOGETHER))


@pytest.mark.parametrize(("race", "fresh"), [(12, 0), (24, 0), (18, 12), (30, 20), (60, 40)])
def test_the_smallest_gain_is_confirmed_and_a_row_less_is_not(race: int, fresh: int) -> None:
    least = smallest_gain(race, fresh, 8)
    assert least is not None

    def is_confirmed(fixed: int) -> bool:
        held = round(fixed * fresh / race)
        pool = Pool()
        add(pool, "original", [0.0] * (race + fresh))
        for n in range(7):
            add(pool, f"no better {n}", [0.0] * race)
        rights = [float(n < fixed) for n in range(race)] + [float(n < held) for n in range(fresh)]
        winner = add(pool, "winner", rights)
        return confirm(pool, pool[winner], IDS[:race], IDS[race : race + fresh]).confirmed

    (fixed,) = (n for n in range(race + 1) if n + round(n * fresh / race) == round(least * (race + fresh)))
    assert is_confirmed(fixed)
    assert not is_confirmed(fixed - 1)


def test_a_few_rows_can_confirm_nothing() -> None:
    assert smallest_gain(7, 0, 8) is None
    assert smallest_gain(30, 20, 8) > smallest_gain(60, 40, 8)  # type: ignore[operator]


def test_fresh_rows_without_a_change_say_nothing_for_or_against() -> None:
    pool = Pool()
    add(pool, "original", [0.0] * 12 + [1.0] * 28)
    winner = add(pool, "winner", [1.0] * 40)
    result = confirm(pool, pool[winner], IDS[:20], IDS[20:40])
    assert result.fresh.p_value == 0.5
    assert result.confirmed


@pytest.mark.parametrize("tied", [1, 3])
def test_a_few_tied_rows_do_not_veto_a_clear_winner(tied: int) -> None:
    """Weighed like twelve, one row that both had right took 11 fixed and none broken from .009 to .085."""
    pool = Pool()
    add(pool, "original", [0.0] * 11 + [1.0] * 11 + [1.0] * tied)
    for n in range(7):
        add(pool, f"no better {n}", [0.0] * 11 + [1.0] * 11)
    winner = add(pool, "winner", [1.0] * (22 + tied))
    alone = confirm(pool, pool[winner], IDS[:22], [])
    found = confirm(pool, pool[winner], IDS[:22], IDS[22 : 22 + tied])
    assert found.basis == "both"
    assert alone.confirmed
    assert found.p_value < 0.03


def test_a_few_rows_that_it_fixes_count_for_a_winner() -> None:
    pool = Pool()
    add(pool, "original", [0.0] * 7 + [1.0] * 15 + [0.0] * 6 + [1.0] * 5)
    for n in range(7):
        add(pool, f"no better {n}", [0.0] * 7 + [1.0] * 15)
    winner = add(pool, "winner", [1.0] * 33)
    assert not confirm(pool, pool[winner], IDS[:22], []).confirmed
    assert confirm(pool, pool[winner], IDS[:22], IDS[22:33]).confirmed


def test_what_was_remembered_is_not_confirmed_without_fresh_rows() -> None:
    pool = Pool()
    add(pool, "original", [0.0] * 12 + [1.0] * 8)
    winner = add(pool, "winner", [1.0] * 20)
    assert confirm(pool, pool[winner], IDS[:20], []).confirmed
    assert not confirm(pool, pool[winner], IDS[:20], [], is_remembered=True).confirmed


def test_graded_scores_are_confirmed_by_sign_flips() -> None:
    rng = random.Random(2)
    pool = Pool()
    old = [rng.random() * 0.8 for _ in range(60)]
    add(pool, "original", old)
    better = add(pool, "better", [x + 0.15 * rng.random() for x in old])
    as_good = add(pool, "as good", [min(1.0, max(0.0, x + 0.2 * (rng.random() - 0.5))) for x in old])
    assert confirm(pool, pool[better], IDS[:30], IDS[30:60]).confirmed
    assert not confirm(pool, pool[as_good], IDS[:30], IDS[30:60]).confirmed


def test_a_real_gain_is_confirmed() -> None:
    rng = random.Random(3)
    found = 0
    for _ in range(50):
        pool = Pool()
        add(pool, "original", [float(rng.random() < 0.55) for _ in range(140)])
        b = add(pool, "better", [float(rng.random() < 0.9) for _ in range(140)])
        for n in range(19):
            add(pool, f"no better {n}", [float(rng.random() < 0.55) for _ in range(84)])
        found += confirm(pool, pool[b], IDS[:84], IDS[84:140]).confirmed
    assert found >= 48


def test_what_earlier_runs_measured_does_not_count_twice() -> None:
    """Where the makers knew of earlier runs, the raced rows say nothing: the fresh rows decide alone."""
    pool = Pool()
    race, fresh = [f"r{i}" for i in range(40)], [f"f{i}" for i in range(20)]
    add(pool, "original", dict.fromkeys([*race, *fresh], 0.0))
    b = add(pool, "winner", dict.fromkeys(race, 1.0) | {i: float(i in fresh[:3]) for i in fresh})
    together = confirm(pool, pool[b], race, fresh)
    alone = confirm(pool, pool[b], race, fresh, is_remembered=True)
    assert together.confirmed
    assert not alone.confirmed
    assert alone.p_value == alone.fresh.p_value


def grouped(size: int, rows: int) -> Pool:
    """A pool whose rows are in groups of so many, one after the other."""
    return Pool(groups={f"r{n}": f"g{n // size}" for n in range(rows)})


def test_rows_of_a_group_are_one_piece_of_evidence() -> None:
    pool = grouped(4, 8)
    a, b = add(pool, "original", [0.0] * 8 + [1.0] * 12), add(pool, "candidate", [1.0] * 20)
    comparison = compare(pool, b, a, IDS)
    assert (comparison.rows, comparison.groups, comparison.fixed) == (20, 14, 8)
    assert comparison.p_value == 1 / 4
    assert compare(pool, b, a, IDS, is_mid=True).p_value == 1 / 8


def test_a_winner_that_rows_alone_confirm_is_not_confirmed_by_few_groups() -> None:
    def result(pool: Pool) -> Confirmation:
        add(pool, "original", [0.0] * 8 + [1.0] * 12 + [0.0] * 4 + [1.0] * 16)
        winner = add(pool, "winner", [1.0] * 40)
        return confirm(pool, pool[winner], IDS[:20], IDS[20:40])

    alone, together = result(Pool()), result(grouped(4, 40))
    assert alone.confirmed
    assert (alone.raced.groups, alone.fresh.groups) == (20, 20)
    assert together.p_value > CONFIRM_ALPHA
    assert not together.confirmed
    assert together.fresh.groups == 5


def test_groups_that_flip_coins_are_confirmed_in_at_most_5_percent() -> None:
    """Ten candidates answer each group of four rows by one coin: as rows alone many of the luckiest pass."""
    rng, runs = random.Random(4), 300

    def flips(groups: int) -> list[float]:
        return [value for value in (float(rng.random() < 0.5) for _ in range(groups)) for _ in range(4)]

    wrong = {True: 0, False: 0}
    for _ in range(runs):
        drawn = [flips(25) for _ in range(11)]
        luckiest = max(drawn[1:], key=lambda scores: sum(scores[:60]))
        for knows in wrong:
            pool = grouped(4, 100) if knows else Pool()
            add(pool, "original", drawn[0])
            for n, scores in enumerate(drawn[1:]):
                if scores is not luckiest:
                    add(pool, f"coin {n}", scores[:60])
            winner = add(pool, "luckiest", luckiest)
            wrong[knows] += confirm(pool, pool[winner], IDS[:60], IDS[60:100]).confirmed
    assert wrong[True] / runs < 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert wrong[False] / runs > 0.15


def test_where_a_cap_cut_the_race_all_who_came_as_far_had_a_whole_chance() -> None:
    pool = Pool()
    add(pool, "original", [0.0] * 16)
    for number in range(8):
        add(pool, f"candidate {number}", [float(number > 6 or row < number) for row in range(16)])
    winner = pool.entries[-1]
    assert confirm(pool, winner, IDS[:120], []).chances == 8  # not 8 * 16 / 120
    assert confirm(pool, winner, IDS[:16], []).chances == 8


def fixing(rows: int, broken: int = 0) -> list[float]:
    """Beside an original that is right on the last half."""
    return [1.0] * rows + [0.0] * (20 - rows) + [0.0] * broken + [1.0] * (20 - broken)


def pool_beside(rights: list[float], groups: dict[str, str] | None = None) -> tuple[Pool, str]:
    pool = Pool(groups=groups or {})
    add(pool, "original", fixing(0))
    return pool, add(pool, "candidate", rights)


def foreseen(rights: list[float], fresh: int, **known: bool) -> float:
    pool, name = pool_beside(rights)
    return foresee(pool, pool[name], RACE, fresh, **known).value


def test_more_fresh_rows_and_a_larger_gain_promise_more() -> None:
    assert 0 < foreseen(fixing(8, 3), 5) < foreseen(fixing(8, 3), 15) < foreseen(fixing(8, 3), 40) < 5 / 40
    assert foreseen(fixing(6, 3), 15) < foreseen(fixing(8, 3), 15) < foreseen(fixing(12, 3), 15)


def test_one_that_is_not_ahead_promises_nothing() -> None:
    assert foreseen(fixing(0), 30) == foreseen(fixing(3, 3), 30) == foreseen(fixing(2, 9), 30) == 0.0
    pool, name = pool_beside(fixing(9))
    assert foresee(pool, pool[name], ["elsewhere"], 30).value == 0.0


def test_without_fresh_rows_the_race_has_decided() -> None:
    assert foreseen(fixing(5), 0) > 0  # p = .031
    assert foreseen(fixing(4), 0) == 0
    assert foreseen(fixing(20), 0, is_remembered=True) == 0


def test_a_long_line_and_lessons_of_earlier_runs_have_only_the_fresh_rows() -> None:
    few, many = 6, 40
    pool, name = pool_beside(fixing(12))
    for number in range(MOST_GENERATIONS + 1):
        name = add(pool, f"child {number}", fixing(12), parents=(name,))
    late = foresee(pool, pool[name], RACE, few).value
    assert late < foreseen(fixing(12), few)
    assert foreseen(fixing(12), few, is_remembered=True) == late
    assert foresee(pool, pool[name], RACE, many).value > 0.9 * foreseen(fixing(12), many)


def test_rows_that_belong_together_foretell_less() -> None:
    """The same scores in pairs: half as many draws, and as much of a spread."""
    together = {f"r{i}": f"g{i // 2}" for i in range(40)}
    pool, name = pool_beside(fixing(8, 4), together)
    assert foresee(pool, pool[name], RACE, 10).value < foreseen(fixing(8, 4), 20)


def test_a_gain_on_all_groups_of_several_rows_is_as_good_as_certain() -> None:
    """A naive prompt that gets none right, for want of a format, and tickets in pairs or fives."""
    for size, rights in ((2, 40), (2, 38), (5, 28)):
        together = {f"r{i}": f"g{i // size}" for i in range(40)}
        pool, name = pool_beside(fixing(rights), together)
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


def test_simpler_forms_were_no_chance_of_the_best_that_they_were_made_of() -> None:
    pool = Pool()
    original = pool.add(Candidate({"prompt": "p"}))
    best, form = (
        pool.add(Candidate({"prompt": text}, parents=(original.candidate.id,), operator=operator))
        for text, operator in (("best", "cues"), ("form", "strip"))
    )
    for entry in (original, best, form):
        entry.scores.update({row: float(entry is not original) for row in IDS})
    assert confirm(pool, best, IDS, []).chances == 1
    assert confirm(pool, form, IDS, []).chances == 2
