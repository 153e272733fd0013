"""How the benchmark of questions over tables reads an answer, and that it goes on where it was."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from benchmark_scripts import script


@pytest.fixture(scope="module")
def tableqa() -> ModuleType:
    return script("tableqa.py")


@pytest.mark.parametrize(
    ("answer", "target", "right"),
    [
        ("29.6991", "29.6991", True),
        ("The mean is 29.69912.", "29.6991", True),
        ("29.70", "29.6991", False),
        ("0.742", "0.7420", True),
        ("6300.0", "6300", True),
        ("6300.4", "6300", False),
        ("1,234", "1234", True),
        ("-0.5495", "-0.5495", True),
        ("0.5495", "-0.5495", False),
        ("setosa", "setosa", True),
        ("The answer is **Setosa**.", "setosa", True),
        ("setosa and virginica", "setosa", False),
        ("S", "C", False),
        ("", "22", False),
    ],
)
def test_what_is_right(tableqa: ModuleType, answer: str, target: str, right: bool) -> None:
    assert tableqa.is_right(answer, target) is right


def test_the_files_that_a_question_names(tableqa: ModuleType, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    assert [p.name for p in tableqa._files("Table file: b.csv", tmp_path)] == ["b.csv"]
    assert [p.name for p in tableqa._files("Which?", tmp_path)] == ["a.csv", "b.csv"]
