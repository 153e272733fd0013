import json
from pathlib import Path

import pytest

from autoprompt.errors import Place, StoreError
from autoprompt.runs.listing import Opening, record_opening, times_opened


def opening(path: Path, rows: str, run: str) -> Opening:
    return record_opening(path, list(rows), run_id=run)


def test_runs_are_counted_for_each_row_and_not_for_the_set(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "openings.jsonl"
    assert opening(path, "abc", "1") == Opening(1, 0)
    assert opening(path, "abc", "2") == Opening(2, 3)
    assert opening(path, "abcd", "3") == Opening(3, 3)
    assert opening(path, "xyz", "4") == Opening(1, 0)
    assert opening(path, "dx", "5") == Opening(2, 2)


def test_a_run_that_was_killed_before_it_knew_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    for _ in range(2):
        assert opening(path, "abc", "1") == Opening(1, 0)
    for _ in range(2):
        assert opening(path, "bcd", "2") == Opening(2, 2)


def test_the_file_grows_by_rows_and_not_by_runs(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    for number in range(20):
        opening(path, "abc", str(number))
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"row": name, "runs": 20, "last_run": "19"} for name in "abc"
    ]


def test_a_line_that_counts_no_row_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    opening(path, "a", "1")
    with path.open("a", encoding="utf-8") as lines:
        lines.write('{"test_sha256": "s", "run_id": "2"}\n')
    for ask in (lambda: opening(path, "a", "3"), lambda: times_opened(path, ["a"])):
        with pytest.raises(StoreError) as caught:
            ask()
        (problem,) = caught.value.problems
        assert (problem.code, problem.place) == ("run.bad-openings", Place(path, 2))
        assert str(problem).endswith("Move the file away to count openings from 0.")


def test_how_often_rows_were_opened_is_known_before_a_run(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    assert times_opened(path, ["a"]) == 0
    for number in range(3):
        opening(path, "ab" if number else "a", str(number))
    assert [times_opened(path, rows) for rows in ("a", "b", "ab", "c", "")] == [3, 2, 3, 0, 0]
