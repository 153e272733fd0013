"""The command of a page does the run again."""

from __future__ import annotations

import shlex
from pathlib import Path

from run_folders import real_run
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.report import read_summary
from autoprompt.report.summary import rerun_command


def test_defaults_are_left_out_and_lists_are_joined() -> None:
    config = {
        "dataset": "/data/a b.csv",
        "prompt": "Say 'yes'.",
        "labels": ["a", "b"],
        "seed": 0,
        "temperature": 0.0,
        "max_calls": 500,
        "no_cache": True,
        "metric_options": {"pattern": "x=y"},
        "locked": ["one", "two"],
        "runs_dir": "/elsewhere",
    }
    words = shlex.split(rerun_command(config, Path("runs/x")))
    assert words == [
        *("autoprompt", "run", "--dataset", "/data/a b.csv", "--prompt", "Say 'yes'."),
        *("--labels", "a,b", "--max-calls", "500", "--no-cache", "--metric-option", "pattern=x=y"),
        *("--locked", "one", "--locked", "two", "--runs-dir", "/elsewhere"),
    ]


def test_the_usual_folder_of_runs_is_left_out() -> None:
    for usual in (Path("runs"), Path("runs").absolute()):
        assert "--runs-dir" not in rerun_command({"prompt": "p", "runs_dir": str(usual)}, Path("runs/x"))


def test_a_prompt_of_several_lines_is_named_by_its_file() -> None:
    made = rerun_command({"prompt": "one\ntwo"}, Path("runs/x"))
    assert shlex.split(made)[-1] == "@runs/x/original_prompt.txt"


def test_the_command_is_taken_by_the_program(tmp_path: Path) -> None:
    folder = real_run(tmp_path)
    (folder.path / "models").unlink()  # as if the command line had begun it
    said = read_summary(folder).command
    words = [
        *shlex.split(said)[1:],
        "--dry-run",
        "--json",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert '"sizes"' in result.stdout


def test_what_a_program_handed_over_no_command_has(tmp_path: Path) -> None:
    folder = real_run(tmp_path)
    assert read_summary(folder).command == "optimize(config, models=models), in the program that began it"
    given = {"dataset": "runs/.datasets/rows-0123456789ab.jsonl"}
    assert rerun_command(given, folder.path).startswith("optimize(config, rows=rows, models=models), in")
    assert rerun_command(given, tmp_path) == "optimize(config, rows=rows), in the program that began it"
