"""configs/clickbait_ci.yaml with its baseline, and the workflow file: as a reader of the docs finds them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from pytest_socket import disable_socket, enable_socket
from typer.testing import CliRunner, Result

from autoprompt.cli import app, machine
from autoprompt.settings.records import ConfigFile
from autoprompt.settings.yaml_file import load_yaml

ROOT = Path(__file__).parent.parent
STARTER = ROOT / "autoprompt" / "cli" / "starter"


def call(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make", ROOT / "baselines" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_example_runs_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    disable_socket(allow_unix_socket=True)  # of the event loop
    try:
        result = call("check", "--config", "configs/clickbait_ci.yaml", "--json", "--quiet")
        call("check", "--config", "configs/clickbait_ci.yaml", "--min-score", "0.9", code=1)
    finally:
        enable_socket()
    data = json.loads(result.stdout)
    assert (data["passed"], data["n"], data["calls"], data["notes"]) == (True, 336, 0, [])
    assert len(data["limits"]["must_pass"]) == 1


def test_its_files_are_those_that_the_script_makes(tmp_path: Path) -> None:
    make = maker()
    make.make(tmp_path)
    assert (tmp_path / make.ANSWERS).read_bytes() == (ROOT / "baselines" / make.ANSWERS).read_bytes()
    made, kept = (
        json.loads((folder / make.BASELINE).read_text(encoding="utf-8"))
        for folder in (tmp_path, ROOT / "baselines")
    )
    assert {**made, "created": ""} == {**kept, "created": ""}


def test_init_with_ci_makes_a_check_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("init", "--ci", "new").stdout
    assert "cd new && autoprompt check --config ci.yaml --update-baseline" in said
    config = load_yaml(Path("new/ci.yaml"), ConfigFile)
    assert config.must_pass
    monkeypatch.chdir("new")
    # The prompt's answers, recorded by hand in the place of a model that costs money.
    from autoprompt import CheckConfig, Models, RunConfig, check
    from autoprompt.llm import ScriptedClient

    check(
        RunConfig(dataset=Path("datasets/tickets.jsonl")),
        CheckConfig(baseline=Path("b.json"), record=Path("a.jsonl")),
        is_update=True,
        models=Models(ScriptedClient(lambda messages: "urgent")),
    )
    call("check", "--config", "ci.yaml", "--replay", "a.jsonl", "--update-baseline")
    assert Path("baselines/tickets.json").exists()
    found = call("check", "--config", "ci.yaml", "--replay", "a.jsonl", "--junit", "j.xml", code=1).stdout
    assert found.startswith("Failed: exact_match is 0.500, below min_score=0.7\n")
    call("check", "--config", "ci.yaml", "--replay", "a.jsonl", "--min-score", "0.5")
    for command in ("run", "eval"):  # the same file
        assert "nothing was sent" in call(command, "--config", "ci.yaml", "--dry-run").stdout


def test_init_with_ci_adds_nothing_else_to_a_started_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("autoprompt.yaml").write_text("dataset: mine.jsonl\n", encoding="utf-8")
    call("init", "--ci")
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"autoprompt.yaml", "ci.yaml", ".github/workflows/prompt-check.yml"}
    assert "kept     ci.yaml (it was there)" in call("init", "--ci").stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="the runner's shell")
@pytest.mark.parametrize(
    ("step", "unset", "code", "said"),
    [
        (
            "Compare with the baseline",
            "OPENAI_API_KEY",
            3,
            "::error title=Prompt check::The secret OPENAI_API_KEY is not set, so nothing was checked. "
            "Set it in Settings > Secrets and variables > Actions.",
        ),
    ],
)
def test_the_workflow_says_what_is_not_set(step: str, unset: str, code: int, said: str) -> None:
    workflow = yaml.safe_load((STARTER / "prompt-check.yml").read_text(encoding="utf-8"))
    (script,) = (s["run"] for s in workflow["jobs"]["check"]["steps"] if s.get("name") == step)
    environment = {**os.environ, "PATH": "", unset: ""}  # nothing that it calls could be found
    bash = str(shutil.which("bash"))
    done = subprocess.run([bash, "-e", "-c", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.startswith(said)) == (code, True), done


@pytest.mark.parametrize("line", ["autoprompt-optimizer==0.2.0", None])
def test_the_workflow_installs_the_version_that_wrote_it(
    line: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "install_line", lambda: line)
    said = call("init", "--ci", "n").stdout
    written = yaml.safe_load(Path("n/.github/workflows/prompt-check.yml").read_text(encoding="utf-8"))
    assert written["env"]["PACKAGE"] == (line or "autoprompt-optimizer")
    assert ("check PACKAGE in .github/workflows/prompt-check.yml" in said) == (line is None)


def test_the_workflow_in_the_docs_is_the_one_that_init_writes() -> None:
    text = (STARTER / "prompt-check.yml").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "prompt-check.yml").read_text(encoding="utf-8") == text
    workflow = yaml.load(text, Loader=yaml.BaseLoader)  # BaseLoader: YAML 1.1 would read `on` as true
    assert set(workflow["on"]) == {"pull_request", "schedule", "workflow_dispatch"}
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["env"] == {"PACKAGE": "autoprompt-optimizer"}
    (job,) = workflow["jobs"].values()
    assert "env" not in job
    assert [step["name"] for step in job["steps"] if "OPENAI_API_KEY" in step.get("env", {})] == [
        "Compare with the baseline"
    ]
    (command,) = (step["run"] for step in job["steps"] if "autoprompt check" in step.get("run", ""))
    for flag in (word for word in command.split() if word.startswith("--")):
        assert flag in call("check", "--help").stdout
