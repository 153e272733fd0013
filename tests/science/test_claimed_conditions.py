"""Conditions as models write them."""

from __future__ import annotations

import pytest

from autoprompt.science.findings import as_condition, coded_conditions, stated_conditions

COLUMNS = ("input", "prediction", "ground_truth", "correct", "length", "words")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("length > 80", "length > 80"),
        ("df['length'] > 80", "length > 80"),
        ("data.length > 80", "length > 80"),
        ("length ≥ 80", "length >= 80"),
        ("length > 80 and words < 3", "(length > 80) & (words < 3)"),
        ("(df['length'] > 80) & ~(df.words == 2)", "(length > 80) & ~(words == 2)"),
        ("20 < length <= 80", "(20 < length) & (length <= 80)"),
        ("prediction = 'A'", "prediction == 'A'"),
        ("len(input) > 80", "input.str.len() > 80"),
        ("df['input'].str.len() > 80", "input.str.len() > 80"),
        ("'?' in input", "input.str.contains('?', regex=False)"),
        ("prediction not in ['A', 'B']", "~prediction.isin(['A', 'B'])"),
        ("input.startswith('1')", "input.str.startswith('1')"),
        ("df['input'].str.contains('x')", "input.str.contains('x')"),
    ],
)
def test_as_condition(text: str, expected: str) -> None:
    assert as_condition(text, COLUMNS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "correct == 0",  # the outcome says nothing about its cause
        "length > 80 and correct == 0",
        "ground_truth != prediction",  # the same outcome in other words
        "length",
        "some_column > 5",
        "length > threshold",
        "__import__('os').system('true')",
        "length + words",
        "the rows are long",
        "",
        "length > ",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    assert as_condition(text, COLUMNS) is None


def test_conditions_are_read_out_of_a_conclusion() -> None:
    text = (
        "1. `length > 80`: 7 of 9 wrong\n- **Condition**: words > 12 | 3 of 4 wrong\n"
        "Rows where `df['x'] > 1` fail.\n"
        "length > 100: 2 of 2 wrong"
    )
    assert stated_conditions(text, COLUMNS) == ["length > 80", "words > 12", "length > 100"]


def test_conditions_are_read_out_of_code() -> None:
    code = (
        "import pandas as pd\ndf = pd.read_csv('predictions.csv')\nwrong = df[df['correct'] == 0]\n"
        "long = df[df['length'] > 80]\nprint(len(wrong[wrong['words'] > 12]), len(long) > 3)\n"
        "print(((df.length > 50) & (df.words < 4)).sum())"
    )
    found = coded_conditions(code, COLUMNS)
    assert {"length > 80", "words > 12", "(length > 50) & (words < 4)"} <= set(found)
    assert not any("correct" in condition for condition in found)


def test_code_that_is_no_python_has_none() -> None:
    assert coded_conditions("print(", COLUMNS) == []
