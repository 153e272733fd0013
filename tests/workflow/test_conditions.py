"""Dify's comparison operators over the values that workflows have."""

from __future__ import annotations

from typing import Any

import pytest

from autoprompt.workflow.engine.conditions import (
    OPERATORS,
    ComparisonError,
    canonical_operator,
    combine,
    compare,
)


@pytest.mark.parametrize(
    ("operator", "actual", "expected", "holds"),
    [
        ("contains", "good news", "news", True),
        ("contains", ["a", "b"], "b", True),
        ("contains", [1, 2], "2", True),
        ("contains", "", "", False),
        ("contains", None, "a", False),
        ("not contains", "good news", "bad", True),
        ("not contains", None, "a", True),
        ("start with", "退款申请", "退款", True),
        ("start with", None, "a", False),
        ("end with", "file.pdf", ".pdf", True),
        ("is", "bug", "bug", True),
        ("is", "bug", "Bug", False),
        ("is", True, "true", True),
        ("is", 3, "3", True),
        ("is", None, "x", False),
        ("is not", "bug", "question", True),
        ("is not", None, "x", False),
        ("empty", "", None, True),
        ("empty", [], None, True),
        ("empty", None, None, True),
        ("empty", "x", None, False),
        ("not empty", {"a": 1}, None, True),
        ("in", "a", ["a", "b"], True),
        ("in", "a", '["a", "b"]', True),
        ("in", "c", "a, b", False),
        ("not in", "c", ["a"], True),
        ("not in", None, ["a"], True),
        ("all of", ["a", "b", "c"], ["a", "c"], True),
        ("all of", ["a"], ["a", "c"], False),
        ("=", 5, "5", True),
        ("=", 5, "5.0", True),
        ("=", "5", 5, True),
        ("=", None, "5", False),
        ("≠", 5, "6", True),
        ("≠", None, "6", False),
        (">", 0.8, "0.5", True),
        ("<", 3, "10", True),
        ("≥", 5, "5", True),
        ("≤", 6, "5", False),
        ("null", None, None, True),
        ("not null", "", None, True),
        ("exists", [], None, True),
        ("not exists", None, None, True),
    ],
)
def test_operator(operator: str, actual: Any, expected: Any, holds: bool) -> None:
    assert compare(operator, actual, expected) is holds


def test_every_operator_of_dify_is_known() -> None:
    dify = (
        "contains, not contains, start with, end with, is, is not, empty, not empty, in, not in, all of, "
        "=, ≠, >, <, ≥, ≤, null, not null, exists, not exists"
    )
    assert set(OPERATORS) == set(dify.split(", "))


@pytest.mark.parametrize(("written", "known"), [("==", "="), (">=", "≥"), ("!=", "≠"), ("Is Not", "is not")])
def test_other_spellings(written: str, known: str) -> None:
    assert canonical_operator(written) == known


def test_values_that_cannot_be_compared_are_told() -> None:
    with pytest.raises(ComparisonError, match="'many' is no number"):
        compare(">", "many", "3")
    with pytest.raises(ComparisonError, match="'contains' asks for a text or a list, found 5"):
        compare("contains", 5, "5")


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999"])
def test_a_text_without_a_number_behind_it_is_none(text: str) -> None:
    with pytest.raises(ComparisonError, match=f"'{text}' is no number"):
        compare(">", text, "3")


def test_an_unknown_operator_lists_the_known_ones() -> None:
    with pytest.raises(ComparisonError, match=r"'resembles' is not known.*contains"):
        compare("resembles", "a", "b")


def test_no_condition_does_not_hold() -> None:
    assert combine([], "and") is False
    assert combine([True, False], "or") is True
    assert combine([True, False], "and") is False
