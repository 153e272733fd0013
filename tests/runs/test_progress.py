"""The counters of a run at work: written seldom, never half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt.runs.events import EVERY_S, ProgressFile


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def event(done: int, total: int = 10) -> dict[str, Any]:
    return {
        "event": "rows_evaluated",
        "what": "标题 rows",
        "done": done,
        "total": total,
        "spent": {"calls": done},
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "progress.json"


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_bytes())
    return data


def test_rows_that_come_fast_are_not_all_written(path: Path) -> None:
    clock = Clock()
    progress = ProgressFile(path, clock=clock)
    for done in (1, 2, 3):
        progress.note(event(done))
    assert read(path)["done"] == 1
    clock.now += EVERY_S
    progress.note(event(4))
    assert read(path) == event(4)


def test_the_end_of_a_step_is_always_written(path: Path) -> None:
    progress = ProgressFile(path, clock=Clock())
    progress.note(event(1))
    progress.note(event(10))
    assert read(path)["done"] == 10


def test_nothing_but_the_file_is_left(path: Path) -> None:
    progress = ProgressFile(path, clock=Clock())
    progress.note(event(10))
    progress.note(event(10))
    assert [found.name for found in path.parent.iterdir()] == ["progress.json"]
