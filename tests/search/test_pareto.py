"""Who is worth building on."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from fakes import add
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.search.pareto import front, pick_parent
from autoprompt.search.pool import Pool

SCORES = st.integers(1, 5).flatmap(
    lambda m: st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=m, max_size=m), max_size=8)
)


def is_dominated(scores: list[list[float]], i: int) -> bool:
    return any(
        all(x >= y for x, y in zip(other, scores[i], strict=True)) and other != scores[i] for other in scores
    )


@given(SCORES)
def test_the_front_is_exactly_those_that_nobody_dominates(scores: list[list[float]]) -> None:
    found = front(scores)
    assert found == [i for i in range(len(scores)) if not is_dominated(scores, i)]
    assert bool(found) == bool(scores)


@given(SCORES, st.randoms(use_true_random=False))
def test_the_front_does_not_depend_on_the_order_of_candidates_or_rows(
    scores: list[list[float]], rng: random.Random
) -> None:
    order = list(range(len(scores)))
    rng.shuffle(order)
    columns = list(range(len(scores[0]))) if scores else []
    rng.shuffle(columns)
    moved = [[scores[i][c] for c in columns] for i in order]
    assert sorted(order[k] for k in front(moved)) == front(scores)


def test_equal_rows_both_stay() -> None:
    assert front([[1, 0], [0, 1], [1, 0], [0, 0]]) == [0, 1, 2]


def test_rows_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="same examples"):
        front([[1.0], [1.0, 0.0]])


def test_the_parent_is_not_always_the_best_and_never_a_dominated_one() -> None:
    pool = Pool()
    best = add(pool, "best", [1, 1, 1, 1, 0, 0])
    special = add(pool, "special", [0, 0, 0, 1, 1, 1])
    add(pool, "dominated", [0, 0, 0, 1, 1, 0])
    ids = [f"r{i}" for i in range(6)]
    drawn = Counter(pick_parent(pool, ids, random.Random(seed)).candidate.id for seed in range(600))
    assert set(drawn) == {best, special}
    # It is best on 4 rows and the other on 3; squared, 16 to 9.
    assert drawn[best] > 1.4 * drawn[special] > 140


def test_a_rejected_candidate_is_no_parent() -> None:
    pool = Pool()
    kept = add(pool, "kept", [0, 0])
    pool[add(pool, "rejected", [1, 1])].status = "rejected"
    assert pick_parent(pool, ["r0", "r1"], random.Random(0)).candidate.id == kept


def test_only_rows_that_all_parents_have_count_and_without_any_the_best_mean_wins() -> None:
    pool = Pool()
    add(pool, "weak", {"r0": 0.0, "r1": 0.0, "r5": 1.0})
    strong = add(pool, "strong", {"r0": 1.0, "r1": 1.0})
    assert {pick_parent(pool, ["r0", "r1", "r5"], random.Random(s)).candidate.id for s in range(50)} == {
        strong
    }
    assert pick_parent(pool, ["r7"], random.Random(0)).candidate.id == pool.original.candidate.id
    pool = Pool()
    add(pool, "few rows", {"r0": 0.0})
    other = add(pool, "other rows", {"r1": 1.0})
    assert pick_parent(pool, ["r0", "r1"], random.Random(0)).candidate.id == other
