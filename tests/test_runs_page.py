"""docs/reference/run-files.md: every file of a run's folder and every key of its result."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from run_folders import real_run

from autoprompt.runs import RunFolder
from autoprompt.runs.result import Round

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "run-files.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return real_run(tmp_path_factory.mktemp("page"))


def test_every_file_is_told_of(run: RunFolder) -> None:
    names = {path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if path.is_file()}
    known = set(told(PAGE.partition("## ")[0]))
    assert {re.sub(r"/.*", "/*.jsonl", name) for name in names} <= known


def test_the_keys_of_the_result_are_those_that_are_told_of(run: RunFolder) -> None:
    keys = PAGE.partition("## result.json")[2].partition("### ")[0]
    assert set(told(keys)) == set(run.read_result() or {})


def test_the_fields_of_a_round_are_those_that_are_told_of() -> None:
    assert sorted(told(PAGE.partition("### The history")[2])) == sorted(f.name for f in fields(Round))


def told(section: str) -> list[str]:
    """What stands between backticks in the first cells of the table."""
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
