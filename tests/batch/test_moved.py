"""A batch whose folders were renamed or moved since it began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from batches import Home, mortal, scripted, solve
from fakes import write_rows
from typer.testing import CliRunner

from autoprompt import Models
from autoprompt.batch import BatchResult, resume_batch, run_batch
from autoprompt.cli import app
from autoprompt.errors import ConfigError, StoreError
from autoprompt.llm import ScriptedClient
from autoprompt.records import Message


def test_a_renamed_batch_is_shown_under_its_new_name(home: Home) -> None:
    path = home.write_batch()
    run_batch([path], runs_dir=home.runs_dir, models=scripted(), environ={}, only=["seed=0"])
    (home.runs_dir / "b").rename(home.runs_dir / "renamed")
    shown = CliRunner().invoke(app, ["runs", "show", "renamed"])
    assert "Everything is in runs/renamed;" in shown.stdout
    assert "Resume with: autoprompt resume renamed\n" in shown.stdout
    data = json.loads(CliRunner().invoke(app, ["runs", "show", "renamed", "--json"]).stdout)
    assert (data["name"], data["run_dir"]) == ("renamed", "runs/renamed")


def moved_project(home: Home, monkeypatch: pytest.MonkeyPatch, dataset: str) -> Path:
    """A project in which one of two trials of a batch is done, in another place by now."""
    old, new = home.path / "old", home.path / "new"
    old.mkdir()
    monkeypatch.chdir(old)
    (old / dataset).parent.mkdir(exist_ok=True)
    write_rows(old / dataset, range(40))
    there = Home(old)
    path = there.write_batch(defaults=there.defaults(dataset=dataset))
    run_batch([path], runs_dir=Path("runs"), models=scripted(), environ={}, only=["seed=0"])
    old.rename(new)
    monkeypatch.chdir(new)
    return new


def scripted_answer(messages: list[Message]) -> str:
    return solve(messages[0].content, messages[-1].content)


def facts(result: BatchResult) -> list[tuple[Any, ...]]:
    return [(row.status, row.original, row.best) for row in result.rows]


@pytest.mark.parametrize("dataset", ["tickets.jsonl", "data/tickets.jsonl"])
def test_a_batch_goes_on_where_its_project_was_moved_to(
    home: Home, monkeypatch: pytest.MonkeyPatch, dataset: str
) -> None:
    moved_project(home, monkeypatch, dataset)
    result = resume_batch("b", models=scripted())
    assert [row.status for row in result.rows] == ["finished", "finished"]
    assert not (home.path / "old" / dataset).exists()


def test_a_trial_that_was_cut_off_goes_on_where_it_was_moved_to(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = moved_project(home, monkeypatch, "data/tickets.jsonl")
    whole = facts(resume_batch("b", models=scripted()))
    path = Home(new).write_batch("c.yaml", defaults=Home(new).defaults(dataset="data/tickets.jsonl"))
    assert not run_batch(
        [path], runs_dir=Path("runs"), models=mortal("other"), environ={}, fail_fast=True
    ).is_complete
    new.rename(home.path / "newer")
    monkeypatch.chdir(home.path / "newer")
    again = resume_batch("c", models=Models(ScriptedClient(scripted_answer, identity="other")))
    assert facts(again) == whole


def test_other_rows_where_the_data_would_be_are_not_taken(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = moved_project(home, monkeypatch, "tickets.jsonl")
    write_rows(new / "tickets.jsonl", range(39))
    with pytest.raises((ConfigError, StoreError), match="no such file"):
        resume_batch("b", models=scripted())
