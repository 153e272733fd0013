"""Many runs of a folder, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import real_run

from autoprompt.report.html import trials_page
from autoprompt.report.markdown import trials_markdown
from autoprompt.report.trials import TrialsSummary, read_trials, shared_settings
from autoprompt.runs import RunStore
from autoprompt.runs.folder import member_folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two searches of two seeds each, and what is no run."""
    base = tmp_path_factory.mktemp("trials")
    for iterations in (1, 2):
        for seed in (0, 1):
            real_run(base, seed=seed, max_iterations=iterations, no_memory=True)
    (base / "runs" / "logs").mkdir()
    return base / "runs"


@pytest.fixture(scope="module")
def trials(folder: Path) -> TrialsSummary:
    return read_trials(folder)


def test_settings_that_differ_tell_the_trials_apart(trials: TrialsSummary) -> None:
    assert set(trials.differing) == {"seed", "max_iterations"}
    assert len({trial.label for trial in trials.trials}) == 4
    assert "dataset" in shared_settings(trials)


def test_seeds_are_taken_together(trials: TrialsSummary) -> None:
    assert [dict(group.own) for group in trials.groups] == [{"max_iterations": "1"}, {"max_iterations": "2"}]
    assert all((group.trials, group.tested) == (2, 2) for group in trials.groups)
    for group in trials.groups:
        assert group.lowest is not None
        assert group.highest is not None
        assert group.lowest <= (group.best or 0.0) <= group.highest


def test_headline_counts_the_ends_and_the_best_is_named(trials: TrialsSummary) -> None:
    assert trials.headline.startswith("4 trials: ")
    best = trials.best
    assert best is not None
    assert best.label in trials.explanation
    assert "partly chance" in trials.explanation


def test_page_markdown_and_json_name_every_trial(trials: TrialsSummary) -> None:
    assert trials_page(trials).count("<details>") == 4
    assert len([line for line in trials_markdown(trials).splitlines() if line.startswith("| ")]) == 6
    assert len(json.loads(json.dumps(trials.to_dict()))["trials"]) == 4


def test_a_broken_trial_and_one_that_was_not_run_are_told(tmp_path: Path) -> None:
    broken = RunStore(tmp_path).create({"dataset": Path("x.jsonl")}, name="broken")
    broken.result_path.write_text("{", encoding="utf-8")
    row = {"trial": "later", "own": {"seed": 3}, "status": "not run", "error": "no budget <b>"}
    (tmp_path / "table.json").write_text(json.dumps({"rows": [row]}), encoding="utf-8")
    found = read_trials(tmp_path)
    assert [(t.name, t.status) for t in found.trials] == [("later", "not run"), (broken.run_id, "broken")]
    assert "result.json" in found.trials[1].problem
    page = trials_page(found)
    assert "no budget &lt;b&gt;" in page
    assert "no budget <b>" not in page
    assert found.explanation == "No trial has opened its sealed test yet."


def test_a_batch_and_an_investigation_beside_runs_are_passed_over(tmp_path: Path) -> None:
    RunStore(tmp_path).create({"dataset": Path("x.jsonl")}, run_id="one")
    batch = RunStore(tmp_path).create({"name": "b"}, kind="batch", run_id="b")
    batch.write_result({"status": "finished", "model": "m", "calls": 9, "cost_usd": 0.0, "trials": 2})
    RunStore(tmp_path).create({"name": "s"}, kind="science", run_id="s")
    found = read_trials(tmp_path)
    assert [trial.name for trial in found.trials] == ["one"]
    assert "one" in trials_page(found)


def test_only_folders_with_a_run_are_members(folder: Path, tmp_path: Path) -> None:
    assert len(member_folders(folder)) == 4
    assert member_folders(tmp_path / "nowhere") == []
