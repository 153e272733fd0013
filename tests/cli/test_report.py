"""`autoprompt report`: which file it writes, what it says, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_folders import hostile_run, real_run
from typer.testing import CliRunner, Result

from autoprompt.cli import app
from autoprompt.runs import RunFolder, RunStore


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return real_run(tmp_path_factory.mktemp("cli"))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str, code: int = 0, **more: Any) -> Result:
    result = CliRunner().invoke(app, ["report", *arguments], **more)
    assert result.exit_code == code, result.output
    return result


def test_a_page_lies_in_the_runs_folder_and_its_path_is_printed(made: RunFolder) -> None:
    result = call("last", "--runs-dir", str(made.path.parent))
    path = made.path / "report.html"
    assert result.stdout == f"{path}\n"
    assert result.stderr.startswith("Confirmed: 0.")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert 'http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;' in text


@pytest.mark.parametrize(
    ("name", "start"),
    [("r.md", b"### Confirmed"), ("r.json", b"{"), ("plot.svg", b"<?xml"), ("R.HTML", b"<!doctype html>")],
)
def test_the_ending_says_what_is_written(made: RunFolder, here: Path, name: str, start: bytes) -> None:
    call(str(made.path), "-o", name)
    assert (here / name).read_bytes().startswith(start)


def test_json_is_the_whole_summary(made: RunFolder, here: Path) -> None:
    call(str(made.path), "-o", "r.json")
    data = json.loads((here / "r.json").read_text(encoding="utf-8"))
    assert data["run_id"] == made.run_id
    assert len(data["rows"]) == data["best"]["n"]


def test_a_report_makes_no_folder(made: RunFolder) -> None:
    said = "error: typo/r.html: there is no folder typo. Make it, or give another path."
    assert said in call(str(made.path), "-o", "typo/r.html", code=3).stderr
    assert not Path("typo").exists()


def test_an_unknown_ending_and_an_unknown_run_are_refused(made: RunFolder) -> None:
    assert ".html, .md, .json, .svg, .png" in call(str(made.path), "-o", "r.pdf", code=2).stderr
    assert "no run 'nothing'" in call("nothing", code=3).stderr


def test_a_run_that_has_only_begun_has_a_page(here: Path) -> None:
    RunStore(here / "runs").create({"dataset": Path("x.jsonl"), "prompt": "Say 1."})
    result = call("last")
    assert "Unfinished: no race has ended yet; 0 calls" in result.stderr


def test_a_folder_of_runs_is_compared(made: RunFolder, here: Path) -> None:
    call(str(made.path.parent), "-o", "all.html")
    assert "1 trial: 1 confirmed" in (here / "all.html").read_text(encoding="utf-8")
    call(str(made.path.parent), "-o", "all.md")
    assert "a plot shows one run" in call(str(made.path.parent), "-o", "all.svg", code=2).stderr


def test_open_asks_the_browser_for_the_file(made: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: asked.append(url) or False)
    result = call(str(made.path), "--open")
    assert asked == [(made.path / "report.html").as_uri()]
    assert "open" in result.stderr


def test_hostile_texts_do_not_steer_the_terminal(here: Path) -> None:
    hostile_run(here / "runs", longest=200)
    for name in ("r.html", "r.md", "r.json", "r.svg"):
        result = call("last", "-o", name)
        assert not set(result.output) & set("\x1b\x07\x00\u202e")


def test_a_run_of_another_kind_is_refused_and_not_compared(made: RunFolder, here: Path) -> None:
    other = RunStore(here / "runs").create({"name": "flow"}, kind="workflow")
    assert "is a workflow" in call(other.run_id, code=3).stderr
    batch = RunStore(here / "runs").create({"name": "b"}, kind="batch", run_id="b")
    batch.write_result({"status": "finished", "trials": 1})
    assert "is a batch" in call("b", code=3).stderr
    said = call(str(here / "runs"), "-o", "all.html", code=3).stderr
    assert "no `optimize` run is directly in this folder" in said
    assert str(batch.path) in said
