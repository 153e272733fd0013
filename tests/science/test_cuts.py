"""Measures cut where wrong rows part from right ones."""

from __future__ import annotations

import random

from autoprompt.science.findings import best_cuts


def test_a_cut_that_parts_them_is_found_with_its_side() -> None:
    lengths = [*range(20, 36), *range(90, 98)]
    words = [7 * n % 11 for n in range(24)]
    wrong = set(range(16, 24))
    assert best_cuts({"words": words, "length": lengths}, wrong) == ["length > 62"]
    assert best_cuts({"length": lengths}, set(range(16))) == ["length <= 62"]


def test_of_measures_that_part_alike_the_first_is_named() -> None:
    lengths = [30] * 16 + [90] * 8
    assert best_cuts({"length": lengths, "words": [n // 5 for n in lengths]}, set(range(16, 24))) == [
        "length > 60"
    ]


def test_luck_is_seldom_taken_for_a_cause() -> None:
    named = 0
    for seed in range(200):
        rng = random.Random(seed)
        measures = {name: [rng.randrange(100) for _ in range(24)] for name in "abcde"}
        named += bool(best_cuts(measures, set(rng.sample(range(24), 8))))
    assert named <= 30  # at most one in ten, within what 200 draws may stray


def test_nothing_to_part_is_no_cut() -> None:
    assert best_cuts({"length": [5] * 20}, {1, 2, 3}) == []
    assert best_cuts({"length": [1, 2]}, {1}) == []
    assert best_cuts({"length": list(range(20))}, set()) == []
