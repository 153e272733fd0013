import json
from pathlib import Path

from autoprompt.runs.openings import Opening, record_opening, times_opened


def opening(path: Path, rows: str, run: str, sha256: str = "s") -> Opening:
    return record_opening(path, list(rows), test_sha256=sha256, run_id=run)


def test_runs_are_counted_for_each_row_and_not_for_the_set(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "openings.jsonl"
    assert opening(path, "abc", "1") == Opening(1, 0)
    assert opening(path, "abc", "2", "of other labels") == Opening(2, 3)
    assert opening(path, "abcd", "3", "of more rows") == Opening(3, 3)
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


def test_what_an_older_version_counted_is_counted_on(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    old = [("s", "1"), ("s", "2"), ("t", "3"), ("s", "4")]
    path.write_text("".join(json.dumps({"test_sha256": s, "run_id": run}) + "\n" for s, run in old))
    # The fourth run opened it before it was resumed with this version.
    assert opening(path, "abc", "4") == Opening(3, 3)
    assert opening(path, "ab", "5", "of other labels") == Opening(4, 2)
    assert opening(path, "x", "6", "t") == Opening(2, 1)


def test_how_often_rows_were_opened_is_known_before_a_run(tmp_path: Path) -> None:
    path = tmp_path / "openings.jsonl"
    assert times_opened(path, ["a"]) == 0
    for number in range(3):
        opening(path, "ab" if number else "a", str(number))
    assert [times_opened(path, rows) for rows in ("a", "b", "ab", "c", "")] == [3, 2, 3, 0, 0]
