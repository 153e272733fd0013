"""A batch whose folders were renamed or moved since it began."""

from __future__ import annotations

import json

from batches import Home, scripted
from typer.testing import CliRunner

from autoprompt.batch import run_batch
from autoprompt.cli import app


def test_a_renamed_batch_is_shown_under_its_new_name(home: Home) -> None:
    path = home.write_batch()
    run_batch([path], runs_dir=home.runs_dir, clients=scripted(), environ={}, only=["seed=0"])
    (home.runs_dir / "b").rename(home.runs_dir / "renamed")
    shown = CliRunner().invoke(app, ["runs", "show", "renamed"])
    assert "Everything lies in runs/renamed;" in shown.stdout
    assert "Go on with: autoprompt resume renamed\n" in shown.stdout
    data = json.loads(CliRunner().invoke(app, ["runs", "show", "renamed", "--json"]).stdout)
    assert (data["name"], data["run_dir"]) == ("renamed", "runs/renamed")
