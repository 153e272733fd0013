"""Nothing is executed or sent for a run folder that this user did not make; reading it needs no trust."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from attacked import FLOW, attacked
from called import call
from fake_endpoint import FakeEndpoint

import autoprompt
from autoprompt.errors import StoreError
from autoprompt.runs.marks import MARKED, MARKS

METRIC = "from pathlib import Path\nPath('called').touch()\ndef f(answer, target):\n    return 1.0\n"
LIMITS = ("--max-calls", "120", "--no-memory", "--set=no_test=true")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mine"
    attacked(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    return folder


def somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From here on it is another user who calls."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config of another"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")


def the_run() -> Path:
    (run,) = (path for path in Path("runs").iterdir() if path.is_dir() and not path.name.startswith("."))
    return run


def optimization(endpoint: FakeEndpoint, *flags: str) -> Path:
    """A run that was cut off just before its end."""
    where = ["--model", "m", "--base-url", endpoint.base_url, *LIMITS]
    call("run", "--dataset", "rows.jsonl", "--prompt", "Say 1 or 0.", *where, *flags)
    return cut_off(the_run(), endpoint)


def cut_off(run: Path, endpoint: FakeEndpoint) -> Path:
    (run / "result.json").unlink()
    endpoint.requests.clear()
    endpoint.listed = 0
    return run


def batch(endpoint: FakeEndpoint) -> Path:
    text = (
        f"defaults: {{dataset: rows.jsonl, prompt: Say 1 or 0., model: m, base_url: '{endpoint.base_url}', "
    )
    text += "max_calls: 120, no_memory: true, no_test: true}\nmatrix: {seed: [0]}\n"
    Path("b.yaml").write_text(text, encoding="utf-8")
    call("batch", "b.yaml", "-q")
    run = the_run()
    (trial,) = (path for path in run.iterdir() if (path / "run.json").is_file())
    cut_off(trial, endpoint)
    return run


def flow(endpoint: FakeEndpoint) -> Path:
    Path("f.yaml").write_text(FLOW, encoding="utf-8")
    call("flow", "run", "f.yaml", "--model", "m", "--base-url", endpoint.base_url, "-q")
    return cut_off(the_run(), endpoint)


def science(endpoint: FakeEndpoint) -> Path:
    where = ["--model", "m", "--base-url", endpoint.base_url, "--max-iterations", "1", "-q"]
    call("science", "What is it?", *where, "--sandbox", "none")
    return cut_off(the_run(), endpoint)


KINDS: dict[str, Callable[[FakeEndpoint], Path]] = {
    "optimize": optimization,
    "batch": batch,
    "flow": flow,
    "science": science,
}


@pytest.mark.parametrize("kind", KINDS)
def test_own_runs_go_on_without_a_question_and_others_need_trust(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint, kind: str
) -> None:
    run = KINDS[kind](endpoint)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    call("resume", str(run), "-q")  # the user's own
    somebody_else(monkeypatch, tmp_path)
    endpoint.requests.clear()
    endpoint.listed = 0
    before = sorted(copy.rglob("*"))
    said = call("resume", str(copy), "--json", code=3)
    assert json.loads(said.stdout)["error"]["code"] == "trust.run"
    assert f"{copy}: you did not make this run on this machine" in said.stderr
    assert f"autoprompt trust {copy}" in said.stderr
    assert not endpoint.requests
    assert not endpoint.listed
    assert sorted(copy.rglob("*")) == before
    call("resume", str(copy), "-q", "--trust")


def test_a_batch_is_not_gone_on_with_by_its_file_either(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> None:
    batch(endpoint)
    somebody_else(monkeypatch, tmp_path)
    for flags in ([], ["--dry-run"]):
        assert "you did not make this run" in call("batch", "b.yaml", *flags, code=3).stderr
    assert not endpoint.requests
    call("trust", str(folder / "runs"))
    call("batch", "b.yaml", "-q")


def test_a_run_whose_metric_is_code_is_not_scored_for_another_user(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> None:
    (folder / "scorer.py").write_text(METRIC, encoding="utf-8")
    where = ["--model", "m", "--base-url", endpoint.base_url, *LIMITS]
    own = ["--prompt", "Say 1 or 0.", "--metric", "python:scorer:f"]
    call("run", "--dataset", "rows.jsonl", *own, *where)
    run = the_run()
    call("eval", "--from", str(run), "--dataset", "rows.jsonl")
    somebody_else(monkeypatch, tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "scorer")
    (folder / "called").unlink()
    endpoint.requests.clear()
    asked = (
        ("eval", "--from", str(run)),
        ("eval", "--from", str(run), "--dry-run"),
        ("eval", "--from", f"{run}:original"),
        ("eval", "--prompt", "Say 1 or 0.", "--against", str(run), "--dry-run", *where[:4]),
        ("run", "--from", f"{run}:original", "--dry-run", *where),
    )
    for command in asked:
        assert "you did not make this run" in call(*command, "--dataset", "rows.jsonl", code=3).stderr
    assert not endpoint.requests
    assert not (folder / "called").exists()
    for command in (["runs", "show"], ["runs", "export"], ["report"], ["resume"]):  # reading needs no trust
        call(*command, str(run))
    call("runs", "list")
    assert autoprompt.Run.open(run).best.prompt
    assert not (folder / "called").exists()
    call("eval", "--from", str(run), "--dataset", "rows.jsonl", "--trust")
    assert (folder / "called").exists()


def edited(path: Path, **changes: Any) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    data.update(changes)
    text = json.dumps(data, indent=2) if path.suffix == ".json" else yaml.safe_dump(data)
    path.write_text(text, encoding="utf-8")


def test_a_moved_run_and_one_with_another_budget_stay_own(folder: Path, endpoint: FakeEndpoint) -> None:
    run = optimization(endpoint)
    edited(run / "config.yaml", max_calls=121, concurrency=2)
    moved = run.rename(folder / "elsewhere")
    call("resume", str(moved), "-q")


def _settings(run: Path) -> None:
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    edited(run / "run.json", settings={**info["settings"], "metric": "python:os:system"})
    edited(run / "config.yaml", metric="python:os:system")


def _marks_of_another_run(run: Path) -> None:
    marks = json.loads((run / MARKS).read_text(encoding="utf-8"))
    (run / MARKS).write_text(json.dumps(dict.fromkeys(MARKED, marks["run.json"])), encoding="utf-8")


def _forgotten_data(run: Path) -> None:
    (run / "inputs.json").unlink()
    (run / "checkpoints.sqlite").unlink()
    edited(run / "config.yaml", dataset="../secret.txt")


TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "settings": (_settings, "you did not make this run"),
    "no marks": (lambda run: (run / MARKS).unlink(), "you did not make this run"),
    "broken marks": (
        lambda run: edited(run / MARKS, **{"run.json": 5, "x": ["\ud800"]}),
        "you did not make this run",
    ),
    "marks swapped": (_marks_of_another_run, "inputs.json, original_prompt.txt changed since"),
    "inputs": (lambda run: edited(run / "inputs.json", metric={}), "inputs.json changed since"),
    "prompt": (lambda run: (run / "original_prompt.txt").write_text("x"), "original_prompt.txt changed"),
    "tools": (lambda run: edited(run / "config.yaml", tools="evil.py"), "tools was None when the run began"),
    "workflow": (lambda run: edited(run / "config.yaml", workflow="e.yaml"), "workflow was None when"),
    "memory": (
        lambda run: edited(run / "config.yaml", memory_file="../secret.txt"),
        "and is now ../secret.txt",
    ),
    "cache": (lambda run: edited(run / "config.yaml", cache_dir="/tmp/x"), "cache_dir was None when"),
    "another data file": (
        lambda run: edited(run / "config.yaml", test="../secret.txt"),
        "test was None when the run began",
    ),
    "data that nobody knows": (_forgotten_data, "rows.jsonl when the run began, and is now ../secret.txt"),
    "address": (
        lambda run: edited(run / "config.yaml", base_url="http://evil/v1"),
        "config.yaml: edited since",
    ),
}


def test_a_question_gets_no_other_data(folder: Path, endpoint: FakeEndpoint) -> None:
    run = science(endpoint)
    edited(run / "config.yaml", data=["../secret.txt"])
    for more in ((), ("--trust",)):
        assert (
            "config.yaml: edited since the run began (data:" in call("resume", str(run), *more, code=3).stderr
        )
    assert not endpoint.requests


@pytest.mark.parametrize("how", TAMPERED)
def test_a_run_that_somebody_changed_is_refused(folder: Path, endpoint: FakeEndpoint, how: str) -> None:
    run = optimization(endpoint)
    change, said = TAMPERED[how]
    change(run)
    for command in (["resume", str(run)], ["eval", "--from", str(run), "--dataset", "rows.jsonl"]):
        if command[0] == "eval":
            (run / "result.json").write_text("{}", encoding="utf-8")
            command[2] += ":original"
        assert said in call(*command, code=3).stderr
    assert not endpoint.requests
    assert not (folder / "executed").exists()


def test_trust_for_once_makes_no_foreign_run_one_s_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> None:
    from autoprompt.settings import trust

    run = optimization(endpoint)
    somebody_else(monkeypatch, tmp_path)
    call("resume", str(run), "-q", "--trust")
    monkeypatch.setattr(trust, "_decided", trust._Decided())
    (run / "result.json").unlink()
    assert "you did not make this run" in call("resume", str(run), code=3).stderr


def test_without_a_writable_folder_runs_work_and_resume_says_why_it_needs_trust(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> None:
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no folder"))
    run = optimization(endpoint)
    said = call("resume", str(run), code=3).stderr
    assert "autoprompt cannot tell whether you made this run, because it cannot use the secret in" in said
    assert str(tmp_path / "no folder") in said
    assert "--trust" in said
    call("resume", str(run), "-q", "--trust")


def test_a_trial_has_a_mark_of_its_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> None:
    run = batch(endpoint)
    call("batch", "b.yaml", "-q")
    (trial,) = (path for path in run.iterdir() if (path / "run.json").is_file())
    call("eval", "--from", str(trial), "--dataset", "rows.jsonl")
    endpoint.requests.clear()
    _settings(trial)  # by who can write to the batch's folder
    assert "you did not make" in call("eval", "--from", str(trial), "--dataset", "rows.jsonl", code=3).stderr
    shutil.copytree(trial, run / "planted")
    (run / "planted" / MARKS).unlink()
    planted = str(run / "planted")
    assert "you did not make" in call("eval", "--from", planted, "--dataset", "rows.jsonl", code=3).stderr
    somebody_else(monkeypatch, tmp_path)
    assert "you did not make" in call("eval", "--from", str(trial), "--dataset", "rows.jsonl", code=3).stderr
    assert not endpoint.requests


def test_in_python_the_same_holds(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> None:
    run = optimization(endpoint)
    somebody_else(monkeypatch, tmp_path)
    with pytest.raises(StoreError, match="you did not make this run") as caught:
        autoprompt.resume(run)
    assert f"call autoprompt.trust('{run.absolute()}')" in str(caught.value)
    autoprompt.trust(run)
    assert autoprompt.resume(run).run_id == run.name
