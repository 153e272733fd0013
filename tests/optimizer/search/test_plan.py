"""How a run's calls are divided, and how many rows a cap has room for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import rows
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.dataset.partition import MOST
from autoprompt.errors import BudgetTooSmallError
from autoprompt.optimizer.search.plan import (
    DEPTHS,
    FEWEST_ENTRANTS,
    FEWEST_FRESH,
    FEWEST_ROWS,
    FIRST_BLOCK,
    SCARCE_ROWS,
    Depth,
    Overhead,
    calls_for,
    candidates_for,
    check_budget,
    default_max_calls,
    fewest_calls,
    fewest_optimizer_calls,
    final_cost,
    interleave,
    make_plan,
    race_cost,
    rows_with_room,
    scarce_batch,
    simplifying_calls,
)
from autoprompt.records import Example, Part

numbers = st.integers(1, 700)
overheads = st.builds(Overhead, st.integers(1, 20), st.integers(1, 3), st.integers(1, 48))
movables = st.sets(st.sampled_from(["val", "test"]))


def examples(targets: str) -> list[Example]:
    return [Example(f"r{i}", f"item {i}", target, {}) for i, target in enumerate(targets)]


@given(st.text("ABC", min_size=7, max_size=80))
def test_every_beginning_holds_the_targets_in_about_their_shares(targets: str) -> None:
    known = examples(targets)
    ordered = interleave(known)
    assert sorted(e.id for e in ordered) == sorted(e.id for e in known)
    shares = Counter(targets)
    for end in range(1, len(ordered) + 1):
        seen = Counter(e.target for e in ordered[:end])
        for target, n in shares.items():
            # Each target's own rows stand half a step off their places, so three targets are 1.5 off at most.
            assert abs(seen[target] - end * n / len(targets)) <= len(shares) / 2
    for target in shares:
        assert [e.id for e in ordered if e.target == target] == [e.id for e in known if e.target == target]


def test_free_texts_keep_their_order() -> None:
    known = [Example(f"r{i}", "", f"answer {i}", {}) for i in range(9)]
    assert interleave(known) == known


@given(st.integers(1, 500))
def test_a_plan_splits_validation_into_raced_and_fresh_rows(n: int) -> None:
    val = rows(0, n)
    plan = make_plan(val)
    assert sorted(plan.race_ids + plan.fresh_ids) == sorted(r.id for r in val)
    assert not plan.fresh or len(plan.fresh) >= FEWEST_FRESH
    assert len(plan.fresh) <= 0.4 * n
    assert list(plan.blocks) == sorted(set(plan.blocks))
    assert plan.blocks[-1] == len(plan.race)
    assert plan.blocks[0] == min(FIRST_BLOCK, len(plan.race)) or len(plan.blocks) == 1
    assert make_plan(val) == plan


def test_sixty_percent_race() -> None:
    plan = make_plan(rows(0, 200))
    assert (len(plan.race), len(plan.fresh), plan.blocks) == (120, 80, (16, 32, 64, 120))


def test_the_end_needs_winner_and_original_on_fresh_and_test_rows() -> None:
    assert final_cost(make_plan(rows(0, 200)), 50) == 2 * (80 + 50)


@pytest.mark.parametrize("n", [4, 20, 50, 200])
@pytest.mark.parametrize("preset", DEPTHS)
def test_the_default_cap_is_enough(preset: str, n: int) -> None:
    plan, depth = make_plan(rows(0, n)), DEPTHS[preset]
    check_budget(default_max_calls(depth, plan, 50), plan, 50, fewest_optimizer_calls(depth, 1))


def test_a_writer_that_only_describes_makes_rounds_shorter() -> None:
    depth = DEPTHS["standard"]
    small = depth.describing(has_labels=False)
    assert (small.candidates, small.writers, small.rewrites) == (6, 1, False)
    assert depth.describing(has_labels=True) == replace(small, writers=0)
    assert (small.max_iterations, small.calls_per_row, small.patience) == (6, 15, depth.patience)
    assert small.slow.candidates == 2


def test_a_cap_too_small_names_the_smallest_that_works() -> None:
    plan = make_plan(rows(0, 50))
    needed = fewest_calls(plan, 50, 3)
    with pytest.raises(
        BudgetTooSmallError, match=f"max_calls: {needed - 1} calls.*Give max_calls={needed} or"
    ):
        check_budget(needed - 1, plan, 50, 3)
    check_budget(needed, plan, 50, 3)
    check_budget(None, plan, 50, 3)


@given(
    st.integers(0, 3000),
    st.integers(1, 15),
    st.integers(2, 12),
    st.integers(8, 200),
    st.integers(0, 40),
    st.integers(0, 6),
)
def test_a_round_never_plans_more_than_is_left(
    calls: int, rounds: int, most: int, n: int, look: int, writers: int
) -> None:
    plan = make_plan(rows(0, n))

    def planned(left: float) -> int:
        return candidates_for(left, rounds, most, plan, look=look, writers=writers)

    number = planned(calls)
    assert number == 0 or 2 <= number <= most
    if number:
        assert race_cost(number, plan) + writers <= calls
    else:
        assert race_cost(2, plan) + writers > calls
    assert planned(math.inf) == most


def test_calls_are_shared_out_over_the_rounds() -> None:
    plan = make_plan(rows(0, 200))
    beside = {"look": 17, "writers": 4}
    assert candidates_for(4000, 6, 8, plan, **beside) == 8
    assert 2 <= candidates_for(1500, 6, 8, plan, **beside) < 8
    assert candidates_for(1500, 1, 8, plan, **beside) == 8


def of_groups(names: str) -> list[Example]:
    """Rows of these groups; a dot is a row alone."""
    return [
        Example(f"r{i}", f"item {i}", "A", {}, group=None if name == "." else name)
        for i, name in enumerate(names)
    ]


@given(st.text("abcdefghijklmnopqrstuvwxyz.", min_size=1, max_size=120))
def test_the_rows_of_a_group_all_race_or_are_all_fresh(names: str) -> None:
    val = of_groups(names)
    plan = make_plan(val)
    assert sorted(plan.race_ids + plan.fresh_ids) == sorted(r.id for r in val)
    assert not {r.group for r in plan.race} & {r.group for r in plan.fresh} - {None}
    assert sum(plan.groups) == len(set(names) - {"."}) + names.count(".")
    assert plan.race
    assert not plan.fresh or plan.groups[1] >= FEWEST_FRESH


def test_groups_count_like_rows_for_what_stays_fresh() -> None:
    pairs = of_groups("".join(f"{chr(97 + n)}{chr(97 + n)}" for n in range(26)) * 2)
    assert make_plan(pairs[:52]).fresh == ()  # 20 rows in 10 groups
    alone = make_plan(of_groups("." * 52))
    assert (len(alone.race), len(alone.fresh)) == (32, 20)
    wide = [Example(f"r{i}", f"item {i}", "A", {}, group=f"g{i // 2}") for i in range(100)]
    plan = make_plan(wide)
    assert (len(plan.race), len(plan.fresh), plan.groups) == (60, 40, (30, 20))


def test_the_page_says_what_each_preset_means() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "search.md"
    section = page.read_text(encoding="utf-8").partition("## Presets")[2].partition("## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip(" `") for cell in line.split("|")[2:-1]] for line in lines]
    names, _, *facts = rows
    said = {name: column for name, *column in zip(names, *facts, strict=True)}
    assert said == {name: _told(depth) for name, depth in DEPTHS.items()}


def _told(depth: Depth) -> list[str]:
    most = [depth.most_rows or MOST[part] for part in ("val", "test")]
    numbers = (depth.max_iterations, depth.candidates, depth.writers, depth.patience, depth.calls_per_row)
    return [*map(str, numbers), ", ".join(map(str, most))]


@given(st.integers(1, 4000), numbers, numbers, overheads, movables)
def test_rows_fit_as_many_as_there_is_room_for(
    max_calls: int, val: int, test: int, overhead: Overhead, movable: set[Part]
) -> None:
    found = rows_with_room(max_calls, val, test, overhead, movable=movable)
    whole: dict[Part, int] = {"val": val, "test": test}
    for part, size in whole.items():
        fewest = SCARCE_ROWS if overhead.calls_per_row > 2 else FEWEST_ROWS
        least = min(size, fewest) if part in movable else size
        assert least <= found[part] <= size

    def takes(sizes: dict[Part, int]) -> int:
        return calls_for(FEWEST_ENTRANTS, sizes["val"], sizes["test"], overhead)

    if takes(whole) <= max_calls:
        assert found == whole
    elif movable and max(found[part] for part in movable) > FEWEST_ROWS:
        assert takes(found) <= max_calls
        one_more = max(found[part] for part in movable) + 1
        longer = {p: min(n, one_more) if p in movable else n for p, n in whole.items()}
        assert takes(longer) > max_calls


def test_rows_that_take_many_calls_are_fewer_where_a_cap_has_no_room_for_28() -> None:
    agent = Overhead(5, 6.3, 16)
    found = rows_with_room(260, 60, 60, agent, movable={"val", "test"})
    assert found == {"val": 8, "test": 8}
    # One look at 8 rows, both prompts on 8 that race, and both on 8 of the test.
    assert calls_for(1, 8, 8, replace(agent, train_batch=scarce_batch(16, 8))) == 252 + 5
    assert calls_for(1, 9, 9, replace(agent, train_batch=9)) > 260
    assert simplifying_calls(make_plan(rows(0, 8), 6.3, train_batch=8)) == 0
    assert rows_with_room(260, 60, 60, Overhead(5, 2, 16), movable={"val", "test"}) == {
        "val": FEWEST_ROWS,
        "test": FEWEST_ROWS,
    }


def test_the_longer_part_is_cut_first() -> None:
    found = rows_with_room(1000, 120, 500, Overhead(5), movable={"val", "test"})
    assert found["val"] == 120 < found["test"] < 500
