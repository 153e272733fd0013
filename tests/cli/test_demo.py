"""`demo`: a recorded run played again, written like any other run, without a model or a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.cli.demo import FLEETING, Recording, play
from autoprompt.runs import RunStore


def call(*arguments: str) -> Any:
    found = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "140"})
    assert found.exit_code == 0, found.output
    return found


def test_the_demo_leaves_a_run_that_other_commands_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("demo", "--seconds", "0", "--no-open")
    assert "No model is asked." in said.stderr
    assert "race: 6 candidates: " in said.stderr  # the live view
    assert "Confirmed: 0.50 -> 0.90 on 50 unseen rows" in said.stdout
    folder = RunStore(Path("runs")).open("last")
    assert said.stdout.splitlines()[-1] == f"runs/{folder.run_id}/report.html"
    assert "0.50 → 0.90" in (folder.path / "report.html").read_text(encoding="utf-8")
    assert "Airport Hacks" in call("runs", "export", "last", "--format", "yaml").stdout
    assert "24 rows fixed, 4 broken" in call("runs", "show", "last").stdout
    listed = json.loads(call("runs", "list", "--json").stdout)["runs"][0]
    assert (listed["status"], listed["verdict"], listed["calls"]) == ("finished", "confirmed", 479)


def test_the_replay_takes_as_long_as_it_should_and_logs_what_a_run_logs(tmp_path: Path) -> None:
    folder = RunStore(tmp_path).create({}, name="demo")
    recording, waits = Recording.read(folder), []
    told: list[dict[str, Any]] = []
    play(recording, folder, told.append, 25.0, waits.append)
    assert sum(waits) == pytest.approx(25.0)
    assert max(waits) < 1.0
    kinds = [event["event"] for event in told]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert kinds.count(FLEETING) > 300
    assert [event["event"] for event in folder.read_events()] == [kind for kind in kinds if kind != FLEETING]


def test_the_demo_runs_in_a_folder_of_any_name(tmp_path: Path) -> None:
    runs = tmp_path / 'a "b" é'
    call("demo", "--seconds", "0", "--no-open", "--quiet", "--runs-dir", str(runs))
    (line,) = RunStore(runs).list()
    assert line.status == "finished"
    assert json.loads((line.path / "result.json").read_text(encoding="utf-8"))["run_dir"] == str(line.path)


def test_the_recording_names_its_own_run_and_no_machine(tmp_path: Path) -> None:
    recording = Recording.read(RunStore(tmp_path).create({}, run_id="mine"))
    text = json.dumps([recording.settings, recording.files, list(recording.events)])
    assert json.loads(recording.files["result.json"])["run_id"] == "mine"
    assert "@RUN" not in text
    assert text.count("/tmp/") == text.count(str(tmp_path)) == text.count(f"{tmp_path}/mine") > 0
    assert "/root" not in text
