"""Conditions in one line: what they mean, and that they are no way into Python."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.workflow.engine.expression import ExpressionError, parse_expression

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
