"""Conditions of branches and loops: Dify's comparisons, and one-line ones, which are no way into Python."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.workflow.engine.conditions import (
    OPERATORS,
    ComparisonError,
    ExpressionError,
    canonical_operator,
    combine,
    compare,
    parse_expression,
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
    with pytest.raises(ComparisonError, match="'many' is not a number"):
        compare(">", "many", "3")
    with pytest.raises(ComparisonError, match="'contains' asks for a text or a list, found 5"):
        compare("contains", 5, "5")


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999"])
def test_a_text_without_a_number_behind_it_is_none(text: str) -> None:
    with pytest.raises(ComparisonError, match=f"'{text}' is not a number"):
        compare(">", text, "3")


def test_an_unknown_operator_lists_the_known_ones() -> None:
    with pytest.raises(ComparisonError, match=r"'resembles' is not known.*contains"):
        compare("resembles", "a", "b")


def test_no_condition_does_not_hold() -> None:
    assert combine([], "and") is False
    assert combine([True, False], "or") is True
    assert combine([True, False], "and") is False


VALUES: dict[tuple[str, ...], Any] = {
    ("triage", "class_name"): "bug",
    ("extract", "items"): ["a", "b", "c"],
    ("score", "value"): 0.7,
    ("score", "note"): None,
    ("1754", "text"): "hello",
}


def evaluate(text: str) -> Any:
    return parse_expression(text).evaluate(lambda selector: VALUES.get(selector))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('triage.class_name == "bug" and len(extract.items) > 2', True),
        ("score.value >= 0.8 or not extract.items", False),
        ("0.5 < score.value <= 0.7", True),
        ('"b" in extract.items', True),
        ('{{#1754.text#}} == "hello"', True),
        ('startswith(lower({{#1754.text#}}), "he")', True),
        ("score.note is null", True),
        ("score.note == None", True),
        ('extract.items[0] == "a"', True),
        ("score.value * 10 % 2 == 1", True),
        ("true and not false", True),
        ("1 if score.value > 0.5 else 2", 1),
    ],
)
def test_meaning(text: str, value: Any) -> None:
    assert evaluate(text) == value


def test_selectors_are_named_in_order() -> None:
    found = parse_expression("{{#a.b.c#}} == x.y and len(x.y) > z.q[x.i]").selectors
    assert found == (("a", "b", "c"), ("x", "y"), ("z", "q"), ("x", "i"))


def test_what_decides_first_spares_the_rest() -> None:
    assert evaluate("score.note == null or score.note > 3") is True


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "().__class__.__bases__",
        "a.__class__",
        "[x for x in a.b]",
        "lambda: 1",
        "a.b.lower()",
        "f'{a.b}'",
        "2 ** 99999999",
        "a := 1",
        "a.b[1:2]",
        "a.b; c.d",
        "",
    ],
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text)


def test_no_repetition_without_end() -> None:
    with pytest.raises(ExpressionError, match="not both numbers"):
        evaluate('"a" * 1000000000')


def test_an_unknown_function_lists_the_known_ones() -> None:
    with pytest.raises(ExpressionError, match=r"no function 'size'. Known functions: len"):
        parse_expression("size(a.b) > 1")


def test_values_that_make_no_sense_name_the_condition() -> None:
    with pytest.raises(ExpressionError, match=r"condition 'score.note > 3'"):
        evaluate("score.note > 3")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse_expression(text)


@pytest.mark.parametrize(
    "call", ["str({})", "lower({})", "strip({})", "startswith({}, 'a')", "endswith({}, 'a')"]
)
def test_a_text_that_would_fill_the_memory_is_refused(call: str) -> None:
    """A list that names one value again and again is small, and its text is not."""
    many = "[" + ", ".join(["n.x"] * 60) + "]"
    with pytest.raises(ExpressionError, match="50,000,000 characters"):
        parse_expression(call.format(many)).evaluate(lambda _: "a" * 1_000_000)
