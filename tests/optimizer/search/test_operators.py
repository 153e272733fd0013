"""Which kinds of change a round tries."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from autoprompt.optimizer.search.operators import (
    WRITERS,
    Means,
    OperatorName,
    choose_operators,
    record_outcome,
)

ALL = Means(writers=4, can_demo=True, has_demos=True, has_errors=True)
EVERY = ["patch", "rewrite", "describe", "cues", "reason", "demos", "demos_errors", "demos_varied"]
TALLIES = st.dictionaries(st.sampled_from(EVERY), st.tuples(st.integers(0, 9), st.integers(0, 9)))


@given(
    st.integers(0, 12),
    st.builds(Means, st.integers(0, 6), st.booleans(), st.booleans(), st.booleans()),
    TALLIES,
    st.integers(0, 99),
)
def test_only_what_is_possible_is_chosen(
    number: int, means: Means, counts: dict[str, tuple[int, int]], seed: int
) -> None:
    tally = {name: [won + lost, won] for name, (won, lost) in counts.items()}
    chosen = choose_operators(number, means, tally, random.Random(seed))
    assert chosen == choose_operators(number, means, tally, random.Random(seed))
    assert len(chosen) <= number
    assert sum(o in WRITERS for o in chosen) <= means.writers
    assert means.can_demo or not set(chosen) & {"demos", "demos_errors", "demos_varied"}
    assert means.has_errors or "demos_errors" not in chosen
    assert means.has_demos or "demos_varied" not in chosen
    if means.can_demo:
        assert len(chosen) == number


def test_nothing_possible_is_nothing_chosen() -> None:
    assert choose_operators(4, Means(0, False, False, False), {}, random.Random(0)) == []


def test_the_first_round_tries_one_of_each_kind() -> None:
    means = replace(ALL, has_demos=False, can_tell=True, has_labels=True)
    chosen = choose_operators(8, means, {}, random.Random(0))
    assert sum(o in WRITERS for o in chosen) == 4
    assert set(chosen) == {"rewrite", "patch", "describe", "cues", "demos", "demos_errors"}


def test_kinds_whose_means_are_used_up_are_passed_over() -> None:
    means = replace(ALL, writers=2, has_demos=False, can_tell=True, has_labels=True)
    first = choose_operators(8, means, {}, random.Random(0))
    assert first == ["demos", "rewrite", "cues", "describe", "demos", "demos_errors", "demos", "cues"]


def test_a_writer_that_only_describes_is_asked_for_no_prompt() -> None:
    means = replace(ALL, writers=1, has_demos=False, can_tell=True, has_labels=True)
    means = replace(means, can_reason=True, can_rewrite=False)
    first = choose_operators(6, means, {}, random.Random(0))
    assert first == ["cues", "demos", "cues", "reason", "describe", "demos"]
    alone = choose_operators(6, replace(means, writers=0), {}, random.Random(0))
    assert alone == ["cues", "demos", "cues", "reason", "demos", "cues"]
    draws = (choose_operators(6, means, {"demos": (1, 0)}, random.Random(seed)) for seed in range(50))
    assert {operator for drawn in draws for operator in drawn} == {
        "demos",
        "demos_errors",
        "cues",
        "describe",
        "reason",
    }


def test_reasoning_is_one_candidate_of_the_first_round_where_it_is_possible() -> None:
    means = replace(ALL, has_demos=False, can_tell=True, has_labels=True, can_reason=True)
    assert choose_operators(6, means, {}, random.Random(0)).count("reason") == 1
    assert "reason" not in choose_operators(6, replace(means, can_reason=False), {}, random.Random(0))
    for seed in range(20):
        assert choose_operators(8, means, {"demos": (1, 0)}, random.Random(seed)).count("reason") <= 1


def test_the_shares_of_labels_are_shifted_where_the_answers_lean() -> None:
    tally = {"demos": [4, 1], "rewrite": [2, 0]}
    rng = random.Random(0)
    assert "demos_rebalanced" in choose_operators(4, replace(ALL, is_leaning=True), tally, rng)
    for _ in range(20):
        chosen = choose_operators(8, replace(ALL, is_leaning=True), tally, rng)
        assert chosen.count("demos_rebalanced") <= 2
        assert "demos_rebalanced" not in choose_operators(8, ALL, tally, rng)
    # Not for ever, if it does not help.
    lost = tally | {"demos_rebalanced": [20, 0]}
    drawn = [o for _ in range(50) for o in choose_operators(4, replace(ALL, is_leaning=True), lost, rng)]
    assert drawn.count("demos_rebalanced") < 10


def test_cues_need_labels_and_rows_to_count() -> None:
    for means in (replace(ALL, can_tell=True), replace(ALL, has_labels=True)):
        rng = random.Random(0)
        assert "cues" not in {o for _ in range(20) for o in choose_operators(6, means, {}, rng)}


def test_what_was_accepted_is_tried_more() -> None:
    tally = {name: [10, 0] for name in EVERY} | {"demos_varied": [10, 9]}
    rng = random.Random(0)
    drawn = Counter(o for _ in range(50) for o in choose_operators(4, ALL, tally, rng))
    assert drawn["demos_varied"] > sum(drawn.values()) / 2


def test_what_keeps_losing_is_tried_less() -> None:
    tally = {name: [2, 1] for name in EVERY} | {"patch": [12, 0]}
    drawn = Counter(o for seed in range(50) for o in choose_operators(4, ALL, tally, random.Random(seed)))
    assert drawn["patch"] < drawn["rewrite"] / 3


def test_an_outcome_is_counted_without_touching_the_old_tally() -> None:
    before = {"patch": [3, 1]}
    assert record_outcome(before, "patch", True) == {"patch": [4, 2]}
    assert record_outcome(before, "demos", False) == {"patch": [3, 1], "demos": [1, 0]}
    assert before == {"patch": [3, 1]}


def test_the_page_says_what_each_operator_makes() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "search.md"
    section = page.read_text(encoding="utf-8").partition("## Operators")[2].partition("## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(get_args(OperatorName))
