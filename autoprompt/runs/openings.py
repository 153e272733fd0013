"""How often the rows of sealed tests were opened: a test that many runs have looked at is none any more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.text.files import read_jsonl, write_jsonl

MANY_OPENINGS = 5  # runs; by luck one of them is as good as one in twenty is
FEWEST_NEW_ROWS = 30  # of a new test: fewer can only show a very large gain


@dataclass(frozen=True, slots=True)
class Opening:
    """runs: by how many the most opened row of the test was opened, this one included.

    rows_before: how many of the rows an earlier run had opened.
    """

    runs: int
    rows_before: int


def times_opened(path: Path, rows: Collection[str]) -> int:
    """Return how many runs have opened the most opened of these rows. rows: keys as in `record_opening`."""
    wanted = set(rows)
    return max((line["runs"] for line in _lines(path) if line["row"] in wanted), default=0)


def record_opening(path: Path, rows: Collection[str], *, run_id: str) -> Opening:
    """Note that a run opens a test with these rows. A run that was killed on the way may do so once more.

    rows: a key of each row, by its input alone, so that a corrected label or an added row forgets nothing.
    The file has one line for each row that was ever opened, with the number of runs and the last of them,
    which is not counted twice.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        counts: dict[str, int] = {}
        last: dict[str, str] = {}
        for line in _lines(path):
            counts[line["row"]], last[line["row"]] = line["runs"], line["last_run"]
        before = {row: counts.get(row, 0) - (last.get(row) == run_id) for row in rows}
        counts |= {row: runs + 1 for row, runs in before.items()}
        last |= dict.fromkeys(rows, run_id)
        write_jsonl(path, ({"row": row, "runs": runs, "last_run": last[row]} for row, runs in counts.items()))
    return Opening(1 + max(before.values(), default=0), sum(runs > 0 for runs in before.values()))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_jsonl(path), start=1):
        if not line.keys() >= {"row", "runs", "last_run"}:
            said = "this line does not say which test row was opened and how often"
            fix = "Move the file away to count openings from 0."
            raise StoreError(Problem("run.bad-openings", said, Place(path, number), fix))
        yield line
