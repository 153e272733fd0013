"""Finished runs on a disk that cannot be written: everything that only reads them works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import World, writer
from run_folders import real_run

from autoprompt import Models, ScienceConfig
from autoprompt.batch import run_batch
from autoprompt.llm import ScriptedClient
from autoprompt.optimizer import api
from autoprompt.runs import RunFolder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no read-only folders")

FLOW = """\
name: greet
nodes:
  - id: start
    data: {type: start, variables: [{variable: q, type: text-input}]}
  - id: end
    data: {type: end, outputs: [{variable: a, value_selector: [start, q]}]}
edges: [{source: start, target: end}]
"""
BATCH = """\
name: both
defaults: {dataset: data.jsonl, prompt: A or B?, max_calls: 300, max_iterations: 1}
matrix: {seed: [0, 1]}
"""
READ_ONLY = 'mount --bind . . && mount -o remount,ro,bind . && cd . && exec "$@"'


def autoprompt(*arguments: str, cwd: Path, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTOPROMPT")}
    environment["XDG_CONFIG_HOME"] = str(cwd / ".config")  # the runs of the project are this user's
    command = [*before, sys.executable, "-m", "autoprompt", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each kind."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as user:
        user.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
        make_runs(folder)
    return folder


def make_runs(folder: Path) -> None:
    real_run(folder).path.rename(folder / "runs" / "prompt")
    science = ScienceConfig(task="What is it?", runs_dir=folder / "runs", max_iterations=1, sandbox="none")
    answer = ScriptedClient(["<Inference>\nIt is 42.\n</Inference>"] * 9)
    found = api.investigate(science, models=Models(answer))
    (folder / "runs" / found.run_id).rename(folder / "runs" / "question")
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    done = autoprompt("flow", "run", "flow.yaml", "--input", "q=hello", cwd=folder)
    assert done.returncode == 0, done.stderr
    (flow,) = (folder / "runs").glob("*greet*")
    flow.rename(folder / "runs" / "flow")
    rows = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(60)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "batch.yaml").write_text(BATCH, encoding="utf-8")
    models = Models(ScriptedClient(World().student), ScriptedClient(writer))
    made = run_batch(folder / "batch.yaml", runs_dir=folder / "runs", models=models)
    assert not made.failed, made.to_dict()


@pytest.fixture
def sealed(project: Path) -> Iterator[tuple[str, ...]]:
    """What a command begins with so that it cannot write into the project."""
    if os.geteuid() != 0:
        folders = [project, *(path for path in project.rglob("*") if path.is_dir())]
        for path in folders:
            path.chmod(0o555)
        yield ()
        for path in folders:
            path.chmod(0o755)
        return
    shell = ("unshare", "-m", "sh", "-c", READ_ONLY, "sh")
    if not shutil.which("unshare"):
        pytest.skip("root writes whatever the mode says, and there is no `unshare` to mount read-only")
    if subprocess.run([*shell, "true"], cwd=project, capture_output=True).returncode:
        pytest.skip("root writes whatever the mode says, and nothing can be mounted here")
    yield shell


@pytest.mark.parametrize("run", ["prompt", "question", "flow", "both"])
def test_a_finished_run_is_shown_by_resume(run: str, project: Path, sealed: tuple[str, ...]) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    shown = autoprompt("resume", run, "--json", cwd=project, before=sealed)
    assert shown.returncode == 0, shown.stderr
    kept = RunFolder(project / "runs" / run).read_result()
    told = json.loads(shown.stdout)
    if kept is not None and run in ("prompt", "question"):
        assert told["run_id"] == kept["run_id"]
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "list"),
        ("runs", "show", "prompt"),
        ("runs", "show", "question"),
        ("runs", "show", "flow"),
        ("runs", "show", "both"),
        ("runs", "export", "prompt"),
        ("runs", "diff", "prompt", "prompt"),
        ("report", "prompt", "-o", "../out.md"),
        ("report", "both", "-o", "../out.md"),
        ("eval", "--from", "prompt", "--dataset", "data.jsonl", "--model", "m", "--dry-run", "--no-cache"),
    ],
    ids=" ".join,
)
def test_what_only_reads_works(command: tuple[str, ...], project: Path, sealed: tuple[str, ...]) -> None:
    done = autoprompt(*command, cwd=project, before=sealed)
    assert done.returncode == 0, done.stderr
    assert done.stdout or "-o" in command


def test_what_has_to_write_says_why_it_cannot(project: Path, sealed: tuple[str, ...]) -> None:
    done = autoprompt("report", "prompt", cwd=project, before=sealed)
    assert done.returncode == 3
    assert "report.html: cannot be written" in done.stderr
