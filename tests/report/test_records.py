"""What is said of a row that two prompts answered."""

from __future__ import annotations

import pytest

from autoprompt.report.records import Answer, ComparedRow, RowState


@pytest.mark.parametrize(
    ("original", "best", "state"),
    [(0.3, 0.1 + 0.2, "wrong"), (0.3, 0.5, "fixed"), (0.5, 0.3, "broken"), (1.0, 1.0, "right")],
)
def test_a_row_is_fixed_or_broken_by_more_than_rounding(
    original: float, best: float, state: RowState
) -> None:
    sides = [Answer("a", score, score == 1.0) for score in (original, best)]
    assert ComparedRow("r1", "x", "a", *sides).state == state
