"""Two prompts on the same rows."""

from __future__ import annotations

import pytest

from autoprompt.measure.compare import compare_rows, compare_scores
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


def test_scores_are_compared_in_the_direction_of_new_minus_old() -> None:
    """The exact test of 6 rows that all rose: 2 * 0.5 ** 6."""
    found = compare_scores([1.0] * 7 + [0.0], [0.0] * 6 + [1.0, 0.0], [None] * 8)
    assert (found.new, found.old, found.gain) == (0.875, 0.125, 0.75)
    assert (found.fixed, found.broken, found.groups) == (6, 0, 8)
    assert found.p_value == pytest.approx(2 * 0.5**6)
    assert found.gain_interval[0] < 0.75 < found.gain_interval[1]
