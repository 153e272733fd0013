"""A name in an address finds a run that lies there, and never anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from written_runs import begin

from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.library import RunLibrary


@pytest.fixture
def library(runs: RunStore) -> RunLibrary:
    return RunLibrary(runs.runs_dir)


def test_no_folder_yet(library: RunLibrary) -> None:
    assert library.runs() == []
    assert library.find("x") is None


def test_the_newest_run_comes_first_and_is_found_by_its_id(runs: RunStore, library: RunLibrary) -> None:
    made = [begin(runs, name).run_id for name in ("a", "b")]
    assert [entry.key for entry in library.runs()] == sorted(made, reverse=True)
    found = library.find(made[0])
    assert found is not None
    assert found.line.run_id == made[0]


@pytest.mark.parametrize(
    "key",
    [
        "",
        ".",
        "..",
        "../secret",
        "../runs/{run}",
        "{run}/",
        "{run}/..",
        "{run}/../{run}",
        "./{run}",
        "{run}/.",
    ],
)
def test_no_text_but_a_name_finds_a_run(runs: RunStore, library: RunLibrary, key: str) -> None:
    run = begin(runs)
    (runs.runs_dir.parent / "secret").mkdir()
    assert library.find(key.replace("{run}", run.run_id)) is None
    assert library.find(str(run.path)) is None


def test_links_and_hidden_folders_are_no_runs(runs: RunStore, library: RunLibrary, tmp_path: Path) -> None:
    elsewhere = begin(RunStore(tmp_path / "elsewhere"))
    run = begin(runs)
    (runs.runs_dir / "link").symlink_to(elsewhere.path)
    (runs.runs_dir / ".removed").mkdir()
    assert [entry.key for entry in library.runs()] == [run.run_id]
    assert library.find("link") is None


@pytest.mark.parametrize(
    "name", ["result.json", "events.jsonl", "predictions/test-best.jsonl", "predictions"]
)
def test_a_run_that_holds_a_link_is_not_opened(
    runs: RunStore, library: RunLibrary, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "hunter2"}', encoding="utf-8")
    run = begin(runs)
    assert library.runs()[0].line.status == "interrupted"
    path = run.path / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    line = library.runs()[0].line
    assert line.status == "broken"
    assert f"{path}: this is a link" in line.problem


def test_a_run_that_is_taken_and_left_changes_its_state(runs: RunStore, library: RunLibrary) -> None:
    run = begin(runs)
    assert library.runs()[0].line.status == "interrupted"
    with run.lock():
        assert library.runs()[0].line.status == "running"
    assert library.runs()[0].line.status == "interrupted"


def test_looking_writes_nothing(runs: RunStore, library: RunLibrary) -> None:
    run = begin(runs)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    library.runs()
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_a_result_is_seen_when_it_comes_and_the_files_are_read_once(
    runs: RunStore, library: RunLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(runs)
    library.runs()
    run.write_result({"verdict": "confirmed", "best": {"score": 0.9}, "original": {"score": 0.5}})
    assert library.runs()[0].line.best == 0.9
    monkeypatch.setattr(RunFolder, "read_config", lambda self: pytest.fail("read again"))
    assert library.runs()[0].line.best == 0.9


def test_a_damaged_folder_is_listed_with_its_reason(runs: RunStore, library: RunLibrary) -> None:
    run = begin(runs)
    run.info_path.write_text("{", encoding="utf-8")
    line = library.runs()[0].line
    assert line.status == "broken"
    assert "run.json" in line.problem


def test_trials_lie_under_their_batch(
    runs: RunStore, library: RunLibrary, held: Callable[[RunFolder], None]
) -> None:
    batch = runs.create({}, kind="batch", name="matrix")
    trials = [begin(RunStore(batch.path), name) for name in ("a", "b")]
    held(trials[1])
    entry = library.find(batch.run_id)
    assert entry is not None
    found = library.trials(entry)
    assert {e.key: e.line.status for e in found} == {
        f"{batch.run_id}/{trials[0].run_id}": "interrupted",
        f"{batch.run_id}/{trials[1].run_id}": "running",
    }
    assert library.find(f"{batch.run_id}/{trials[0].run_id}") is not None
    assert [e.key for e in library.runs()] == [batch.run_id]
