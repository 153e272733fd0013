"""One rule for the answers of all tools that are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmark_scripts import script


@pytest.fixture(scope="module")
def is_right() -> Callable[[str, str, dict[str, Any]], bool]:
    found: Callable[[str, str, dict[str, Any]], bool] = script("peers/scoring.py").is_right
    return found


@pytest.mark.parametrize(
    ("answer", "is_it"),
    [
        ("So it is 3 + 4 = 1,234.", True),
        ("$1234.00", True),
        ("1234 and then 7", False),
        ("-1234", False),
        ("none", False),
    ],
)
def test_of_a_numeric_task_the_last_number_counts(is_right: Any, answer: str, is_it: bool) -> None:
    assert is_right(answer, "1234", {"metric": "numeric", "labels": []}) is is_it


def test_a_full_stop_is_passed_over_only_where_answers_are_free(is_right: Any) -> None:
    assert is_right(" Spam\n", "spam", {"metric": "exact_match", "labels": ["spam", "ham"]})
    assert not is_right("spam.", "spam", {"metric": "exact_match", "labels": ["spam", "ham"]})
    assert is_right("Horse.", "horse", {"metric": "exact_match", "labels": []})
