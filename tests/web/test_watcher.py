"""What is told of runs that write, are killed, go on, end, come and go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from written_runs import begin, propose, settle, tell

from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.library import RunLibrary
from autoprompt.web.watcher import LIST, Watcher

A = "a" * 12


class Looking:
    """A watcher whose pages are the texts of the log, and what it told at the last look."""

    def __init__(self, runs: RunStore) -> None:
        self.library = RunLibrary(runs.runs_dir)
        self.watcher = Watcher(self.library, lambda _, state: "|".join(line.text for line in state.log))

    def look(self) -> dict[str, dict[str, Any]]:
        return {item.topic: json.loads(item.data) for item in self.watcher.scan()}


@pytest.fixture
def looking(runs: RunStore) -> Looking:
    return Looking(runs)


@pytest.fixture
def run(runs: RunStore) -> RunFolder:
    return begin(runs)


def finish(run: RunFolder) -> None:
    result = {"verdict": "confirmed", "message": "Confirmed.", "best": {}, "original": {}}
    run.write_result(result)
    tell(run, "run_finished", result=result)


def test_a_run_that_does_nothing_is_told_once(looking: Looking, run: RunFolder) -> None:
    assert set(looking.look()) == {run.run_id}
    assert looking.look() == {}


def test_a_run_is_followed_through_kill_and_resume_to_its_end(looking: Looking, run: RunFolder) -> None:
    with run.lock():
        assert looking.look()[run.run_id]["status"] == "running"
        propose(run, A)
        assert "joins the race" in looking.look()[run.run_id]["html"]
        with run.events_path.open("ab") as stream:
            stream.write(b'{"event": "candidate_settled", "id": "aaaa')  # and here it is killed
    told = looking.look()
    assert told[run.run_id]["status"] == "interrupted"
    assert "settled" not in told[run.run_id]["html"]
    assert LIST in told
    with run.lock():
        tell(run, "run_started", resumed=True, model="m", max_iterations=3, budget={}, sizes={})
        settle(run, A, 0.75)
        told = looking.look()
        assert told[run.run_id]["status"] == "running"
        assert told[run.run_id]["settled"] == 1
        assert "0.750" in told[run.run_id]["said"]
        finish(run)
    told = looking.look()
    assert told[run.run_id]["status"] == "finished"
    assert LIST in told
    assert looking.look() == {}


def test_what_a_page_has_read_is_told_to_the_others_too(looking: Looking, run: RunFolder) -> None:
    looking.look()
    propose(run, A)
    entry = looking.library.find(run.run_id)
    assert entry is not None
    assert "joins the race" in looking.watcher.html(entry)
    assert "joins the race" in looking.look()[run.run_id]["html"]
    assert looking.look() == {}


def test_runs_that_come_and_go_change_the_list(looking: Looking, runs: RunStore, run: RunFolder) -> None:
    looking.look()
    other = begin(runs, "other")
    assert set(looking.look()) == {LIST, other.run_id}
    runs.remove(other.run_id)
    assert set(looking.look()) == {LIST}


def test_runs_that_have_ended_are_not_read(looking: Looking, runs: RunStore, run: RunFolder) -> None:
    finish(run)
    assert looking.look() == {}
    assert looking.look() == {}


def test_trials_of_a_batch_are_followed_under_its_name(looking: Looking, runs: RunStore) -> None:
    batch = runs.create({}, kind="batch", name="matrix")
    trial = begin(RunStore(batch.path))
    key = f"{batch.run_id}/{trial.run_id}"
    assert key in looking.look()
    propose(trial, A)
    assert set(looking.look()) == {key}


def test_a_link_that_is_put_into_a_run_at_work_is_not_read(
    looking: Looking, run: RunFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.jsonl"
    secret.write_text('{"event": "warning", "message": "hunter2"}\n', encoding="utf-8")
    looking.look()
    run.events_path.unlink()
    run.events_path.symlink_to(secret)
    told = looking.look()
    assert told[run.run_id]["status"] == "broken"
    assert "hunter2" not in json.dumps(told)
