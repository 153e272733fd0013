"""A link in a folder that somebody else has filled leads nowhere: nothing is read or written through it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attacked import SECRET, attacked, sent_texts
from called import call
from fake_endpoint import FakeEndpoint

from autoprompt.runs.marks import first_link

RUN = (
    "run",
    "--dataset",
    "rows.jsonl",
    "--prompt",
    "Say 1 or 0.",
    "--max-calls",
    "120",
    "--set",
    "no_test=true",
    "-q",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mine"
    attacked(folder)
    monkeypatch.chdir(folder)
    return folder


def run_of(endpoint: FakeEndpoint, *flags: str) -> Path:
    call(*RUN, "--model", "m", "--base-url", endpoint.base_url, *flags)
    (run,) = (path for path in Path("runs").iterdir() if (path / "run.json").is_file())
    return run


@pytest.mark.parametrize(
    "name",
    [
        "report.html",
        "events.jsonl",
        "journal.jsonl",
        "best_prompt.txt",
        "predictions",
        "checkpoints.sqlite",
        "analysis/train-1/passes/1.json",
    ],
)
@pytest.mark.parametrize("command", ["resume", "report", "runs show", "runs export", "eval --from"])
def test_no_command_opens_a_run_with_a_link(
    folder: Path, endpoint: FakeEndpoint, name: str, command: str
) -> None:
    run = run_of(endpoint, "--no-memory")
    endpoint.requests.clear()
    secret = folder.parent / "secret.txt"
    path = run / name
    path.rename(folder / "moved") if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(secret)
    more = ["--dataset", "rows.jsonl"] if command == "eval --from" else []
    assert f"{path}: this is a link" in call(*command.split(), str(run), *more, code=3).stderr
    assert secret.read_text(encoding="utf-8") == SECRET
    assert not endpoint.requests


def test_a_link_that_code_in_the_sandbox_made_is_no_matter(tmp_path: Path) -> None:
    work = tmp_path / "analysis" / "train-1" / "work"
    work.mkdir(parents=True)
    (work / "data").symlink_to("/etc")
    assert first_link(tmp_path) is None
    (work.parent / "table.csv").symlink_to("/etc/hosts")
    assert first_link(tmp_path) == "analysis/train-1/table.csv"


def test_the_report_of_many_runs_is_not_written_through_a_link(folder: Path, endpoint: FakeEndpoint) -> None:
    run_of(endpoint, "--no-memory")
    secret = folder.parent / "secret.txt"
    Path("runs/report.html").symlink_to(secret)
    call("report", "runs")
    assert secret.read_text(encoding="utf-8") == SECRET
    assert Path("runs/report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_that_the_user_names_may_be_a_link(folder: Path, endpoint: FakeEndpoint) -> None:
    run = run_of(endpoint, "--no-memory")
    Path("there.html").symlink_to(folder.parent / "page.html")
    call("report", str(run), "-o", "there.html")
    assert Path("there.html").is_symlink()
    assert (folder.parent / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("kind", ["file", "folder", "missing"])
def test_the_usual_memory_is_no_link_to_elsewhere(folder: Path, endpoint: FakeEndpoint, kind: str) -> None:
    secret = folder.parent / "secret.txt"
    if kind == "folder":
        secret = folder.parent / "memory_experiences.txt"
        secret.write_text(SECRET, encoding="utf-8")
        Path("memory").symlink_to(folder.parent)
    else:
        Path("memory").mkdir()
        leads = secret if kind == "file" else folder.parent / "new.txt"
        Path("memory/memory_experiences.txt").symlink_to(leads)
    where = ["--model", "m", "--base-url", endpoint.base_url]
    for more in ([], ["--dry-run"]):
        error = json.loads(call(*RUN, *where, *more, "--json", code=3).stdout)["error"]
        assert error["code"] == "trust.link"
        assert error["file"] == "memory/memory_experiences.txt"
    Path("b.yaml").write_text(
        f"defaults: {{dataset: rows.jsonl, prompt: Say 1., model: m, base_url: '{endpoint.base_url}', "
        "max_calls: 120, no_test: true}\nmatrix: {seed: [0]}\n",
        encoding="utf-8",
    )
    assert "outside of the working folder" in call("batch", "b.yaml", code=3).stderr
    assert secret.read_text(encoding="utf-8") == SECRET
    assert not (folder.parent / "new.txt").exists()
    assert SECRET not in sent_texts(endpoint.requests)
    assert not endpoint.requests
    call(*RUN, *where, "--set", "memory_file=memory/memory_experiences.txt")  # the user's own word


def test_a_link_inside_of_the_working_folder_is_followed(folder: Path, endpoint: FakeEndpoint) -> None:
    Path("memory").mkdir()
    Path("memory/memory_experiences.txt").symlink_to(folder / "lessons.txt")
    call(*RUN, "--model", "m", "--base-url", endpoint.base_url)
    assert Path("memory/memory_experiences.txt").is_symlink()
    assert "operator:" in Path("lessons.txt").read_text(encoding="utf-8")
