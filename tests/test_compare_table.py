"""The comparison's table: what it takes for a difference, and what it refuses to compare."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmark_scripts import script


@pytest.fixture(scope="module")
def table() -> ModuleType:
    return script("compare_table.py")


def cell(tool: str, correct: list[int], seed: int = 0) -> dict[str, Any]:
    count = {"calls": 400.0, "prompt_tokens": 9000.0, "completion_tokens": 100.0}
    return {
        "tool": tool,
        "task": "toy",
        "seed": seed,
        "threads": 1,
        "revision": "abc",
        "wall_s": 60.0,
        "search": {"task": count},
        "status": "finished",
        "correct": correct,
        "accuracy": sum(correct) / len(correct),
        "n": len(correct),
        "naive": {"accuracy": 0.1, "correct": [0] * len(correct)},
        "bests": [{"id": "a", "is_leader": True, "calls": 100.0, "tokens": 910.0, "accuracy": 0.9}],
        "operator": "demos",
    }


def write(folder: Path, *cells: dict[str, Any]) -> None:
    for number, found in enumerate(cells):
        (folder / f"{number}.json").write_text(json.dumps(found), encoding="utf-8")


def test_a_clear_difference_has_an_interval_above_zero(table: ModuleType) -> None:
    ours, theirs = [1] * 90 + [0] * 10, [1] * 50 + [0] * 50
    mean, low, high = table.difference([([ours, ours], [theirs])])
    assert mean == pytest.approx(0.4)
    assert 0.25 < low < mean < high < 0.55
    assert table.difference([([ours], [ours])]) == (0.0, 0.0, 0.0)


def test_the_table_tells_what_it_took_to_reach_the_best_peer(
    table: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, cell("autoprompt", [1] * 9 + [0]), cell("gepa", [1] * 5 + [0] * 5))
    table.print_table(tmp_path)
    said = capsys.readouterr().out
    assert "| toy | 0 | autoprompt | 0.900 [0.596, 0.982] | 400 | 9100 | 0 | 1.0 | 1 |  |  | abc |" in said
    assert "| toy | 0.100 | 0.900 [0.700, 1.000] (1) | 0.500 [0.200, 0.800] (1) |" in said
    assert "autoprompt − gepa: +0.400" in said
    assert "gepa ends with 0.500; reached with 0.25 of its calls and 0.10 of its tokens" in said


def test_time_is_compared_as_whole_runs_and_by_call(
    table: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, peer, slow = cell("autoprompt", [1] * 10), cell("gepa", [0] * 10), cell("dspy-gepa", [0] * 10)
    ours["search"] = {"task": {"calls": 200.0}}
    write(tmp_path, ours, peer | {"wall_s": 150.0}, slow | {"wall_s": 900.0})
    table.print_table(tmp_path)
    assert "took 0.40 of the fastest peer's time, 0.80 by call" in capsys.readouterr().out


def test_times_of_a_busy_machine_are_not_compared(
    table: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, cell("autoprompt", [1] * 10), cell("gepa", [0] * 10) | {"is_busy": True})
    table.print_table(tmp_path)
    assert "peer's time" not in capsys.readouterr().out


def test_cells_of_other_rows_are_refused_by_name(table: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, cell("autoprompt", [1] * 9 + [0]), cell("gepa", [1] * 5, seed=2))
    with pytest.raises(SystemExit, match="toy: gepa, seed 2, was scored on 5 rows, another cell on 10"):
        table.print_table(tmp_path)
