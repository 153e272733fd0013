"""Wrong arguments of the public functions are told before anything is done, as settings are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoprompt import (
    AutopromptError,
    Budget,
    CheckConfig,
    Models,
    Run,
    RunConfig,
    ScienceConfig,
    check,
    evaluate,
    inspect_program,
    investigate,
    optimize,
    resume,
    run_batch,
)
from autoprompt.llm import ScriptedClient

NUMBER: Any = 5
CONFIG = RunConfig(prompt="A or B?", max_calls=600, no_memory=True)
ROWS = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(60)]
LIMITS = CheckConfig(baseline=Path("b.json"))
MODELS = Models(ScriptedClient(lambda _: "A"))
LISTENED = "on_event: expected a function that takes an event, which is a dict, found 5."
NO_MODELS = "models is 5, expected Models."
NO_FOLDER = "runs_dir: expected a path, found 5."


def batch(**named: Any) -> object:
    Path("b.yaml").write_text("defaults: {dataset: rows.csv, prompt: A or B?, max_calls: 600}\n")
    return run_batch("b.yaml", **{"models": MODELS, **named})


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "optimize on_event": (lambda: optimize(CONFIG, rows=ROWS, models=MODELS, on_event=NUMBER), LISTENED),
    "evaluate on_event": (lambda: evaluate(CONFIG, rows=ROWS, models=MODELS, on_event=NUMBER), LISTENED),
    "check on_event": (
        lambda: check(CONFIG, LIMITS, rows=ROWS, is_update=True, models=MODELS, on_event=NUMBER),
        LISTENED,
    ),
    "investigate on_event": (
        lambda: investigate(ScienceConfig(task="Why?"), models=MODELS, on_event=NUMBER),
        LISTENED,
    ),
    "inspect_program on_event": (
        lambda: inspect_program(RunConfig(), rows=ROWS, program=len, on_event=NUMBER),
        LISTENED,
    ),
    "resume on_event": (lambda: resume("last", on_event=NUMBER), LISTENED),
    "run_batch on_event": (lambda: batch(on_event=NUMBER), LISTENED),
    "evaluate models": (lambda: evaluate(CONFIG, rows=ROWS, models=NUMBER), NO_MODELS),
    "check models": (lambda: check(CONFIG, LIMITS, rows=ROWS, models=NUMBER), NO_MODELS),
    "resume models": (lambda: resume("last", models=NUMBER), NO_MODELS),
    "run_batch models": (lambda: batch(models=NUMBER), NO_MODELS),
    "check limits": (
        lambda: check(CONFIG, NUMBER, rows=ROWS, models=MODELS),
        "limits: expected CheckConfig, found 5.",
    ),
    "resume budget": (lambda: resume("last", budget=NUMBER), "budget: expected Budget, found 5."),
    "resume runs_dir": (lambda: resume("last", runs_dir=NUMBER), NO_FOLDER),
    "Run.open runs_dir": (lambda: Run.open("last", runs_dir=NUMBER), NO_FOLDER),
    "run_batch runs_dir": (lambda: batch(runs_dir=NUMBER), NO_FOLDER),
    "run_batch files": (lambda: run_batch(NUMBER), "files: expected a file, or a list of files, found 5."),
    "run_batch name": (lambda: batch(name=NUMBER), "name: expected a text, found 5."),
    "run_batch only": (lambda: batch(only=NUMBER), "only: expected a list of patterns, found 5."),
    "run_batch jobs": (lambda: batch(jobs=0), "jobs: expected a number above 0, found 0."),
    "optimize program": (
        lambda: optimize(RunConfig(max_calls=600), rows=ROWS, models=MODELS, program=str),
        "program: str does not say which arguments it takes.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_told_before_anything_is_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"{row['input']},{row['target']}\n" for row in ROWS)
    Path("rows.csv").write_text(f"input,target\n{lines}", encoding="utf-8")
    asked, said = WRONG[name]
    with pytest.raises(AutopromptError) as caught:
        asked()
    assert str(caught.value).startswith(said)
    assert not Path("b.json").exists()
    assert not list(Path().glob("runs/*/run.json"))


def test_the_folder_of_the_runs_may_be_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    optimize(CONFIG, rows=ROWS, models=MODELS)
    found = Run.open("last", runs_dir="runs")
    assert resume("last", runs_dir="runs").run_id == found.folder.run_id
    assert resume("last", runs_dir="runs", budget=Budget(max_calls=600)).run_id == found.folder.run_id
