"""Sentences that the panel, the report and the lines without a terminal share."""

from __future__ import annotations

from typing import Any

import pytest

from autoprompt.report import wording


@pytest.mark.parametrize(
    ("fresh", "basis", "tried", "said"),
    [
        (1, "both", 1, "1.000 against 0.500 on 1 fresh row; with the race p = 0.020, after 1 candidate"),
        (9, "both", 8, "1.000 against 0.500 on 9 fresh rows; with the race p = 0.020, after 8 candidates"),
        (0, "raced", 1, "0.700 against 0.500 on 16 rows that chose it; p = 0.020, after 1 candidate"),
    ],
)
def test_one_is_not_many(fresh: int, basis: str, tried: int, said: str) -> None:
    found: dict[str, Any] = {
        "fresh": {"rows": fresh, "score": 1.0, "other_score": 0.5, "groups": fresh},
        "raced": {"rows": 16, "score": 0.7, "other_score": 0.5, "groups": 16},
        "tried": tried,
        "basis": basis,
        "p_value": 0.02,
    }
    assert wording.confirmation(found) == said


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (0, "(16 of validation, 22 of train)"),
        (1, "(16 of validation, 22 of train, 1 of them a demonstration that was left out for it)"),
        (13, "(16 of validation, 22 of train, 13 of them demonstrations that were left out for it)"),
    ],
)
def test_rows_that_the_winner_shows_are_named(shown: int, said: str) -> None:
    fresh = {"rows": 38, "score": 0.9, "other_score": 0.5}
    found = {
        "fresh": fresh,
        "raced": fresh,
        "tried": 9,
        "p_value": 0.001,
        "train_rows": 22,
        "held_out_rows": shown,
    }
    assert f"0.900 against 0.500 on 38 fresh rows {said};" in wording.confirmation(found)
