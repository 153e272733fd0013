"""Two prompts on the same rows."""

from __future__ import annotations

import random

import pytest

from autoprompt.measure.compare import compare_rows, score_rows
from autoprompt.metrics import get_metric
from autoprompt.records import EvaluatedRow


def rows(*scores: float) -> list[EvaluatedRow]:
    return [EvaluatedRow(f"r{n}", "x", "p", "t", False, score) for n, score in enumerate(scores)]


def test_equal_scores_that_were_added_up_differently_are_no_gain() -> None:
    for n in range(6, 20):
        found = compare_rows(rows(*[0.1 + 0.2] * n), rows(*[0.3] * n), get_metric("json_match"))
        assert found is not None
        assert (found.gain, found.p_value, found.fixed, found.broken) == (0.0, 1.0, 0, 0)
        assert not found.is_better


def test_a_gain_of_graded_scores_is_told() -> None:
    found = compare_rows(rows(*[0.75] * 8, 0.25), rows(*[0.5] * 9), get_metric("json_match"))
    assert found is not None
    assert (found.fixed, found.broken, found.is_better) == (8, 1, True)


@pytest.mark.parametrize("metric", ["json_match", "macro_f1"])
def test_the_same_rows_give_the_same_figures_in_any_order(metric: str) -> None:
    """What a run, `runs diff` and `eval --against` draw at random must not depend on the order of a file."""
    rng = random.Random(3)
    new, old = (
        [
            EvaluatedRow(
                f"r{n:03}", "x", rng.choice("ab"), "ab"[n % 2], False, rng.random(), group=f"g{n // 3}"
            )
            for n in range(60)
        ]
        for _ in range(2)
    )
    places = rng.sample(range(60), 60)
    there = compare_rows(new, old, get_metric(metric))
    assert there == compare_rows([new[n] for n in places], [old[n] for n in places], get_metric(metric))
    assert score_rows(new, get_metric(metric)) == score_rows(new[::-1], get_metric(metric))


def test_scores_are_compared_in_the_direction_of_new_minus_old() -> None:
    """The exact test of 6 rows that all rose: 2 * 0.5 ** 6."""
    found = compare_rows(rows(*[1.0] * 7, 0.0), rows(*[0.0] * 6, 1.0, 0.0), get_metric("exact_match"))
    assert found is not None
    assert (found.new.score, found.old.score, found.gain) == (0.875, 0.125, 0.75)
    assert (found.fixed, found.broken, found.groups) == (6, 0, 8)
    assert found.p_value == pytest.approx(2 * 0.5**6)
    assert found.gain_interval[0] < 0.75 < found.gain_interval[1]
