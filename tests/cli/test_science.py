"""`autoprompt science` as a process over a loopback endpoint: output, exit codes, resume of any kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import KEY, Endpoint, serving

from autoprompt.cli.science import copy_results, watch
from autoprompt.errors import UsageError
from autoprompt.records import OnEvent, Usage
from autoprompt.sandbox import probe
from autoprompt.science import Investigation
from autoprompt.science.records import PassRecord

pytestmark = pytest.mark.skipif(not probe().confines, reason="nothing on this machine confines code")

CODE = "open('out.txt', 'w').write('3')\nprint(3)"
EXPERIMENT = f"<Hypothesis>\ncount\n</Hypothesis>\n<Experiment>\n{CODE}\n</Experiment>"
CONCLUSION = "<Inference>\nit is 3\n</Inference>\n<Conclusion>\n3\n</Conclusion>"


class Scientist(Endpoint):
    def answer(self, body: dict[str, Any]) -> str:
        return CONCLUSION if len(body["messages"]) > 1 else EXPERIMENT


@pytest.fixture
def scientist(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(Endpoint, "answer", Scientist.answer)
    with serving() as endpoint:
        yield endpoint


def cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from autoprompt.cli import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": KEY, "COLUMNS": "110"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def science(folder: Path, endpoint: Endpoint, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cli(folder, "science", *arguments, "--model", "m", "--base-url", endpoint.base_url, "--no-cache")


def test_the_conclusion_is_shown_and_everything_kept(scientist: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n3\n", encoding="utf-8")
    done = science(
        tmp_path, scientist, "How many rows?", "--data", "t.csv", "--max-iterations", "2", "-o", "got"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "3"
    assert "Observation: 3" in done.stderr
    names = {
        str(path.relative_to(tmp_path / "got")) for path in (tmp_path / "got").rglob("*") if path.is_file()
    }
    assert {"transcript.json", "transcript.md", "passes/pass-01.py", "files/out.txt"} <= names
    # Of a finished run `resume` shows the result, by either name, and asks nobody.
    sent = len(scientist.requests)
    for command in (("science", "resume", "last"), ("resume", "last")):
        again = cli(tmp_path, *command)
        assert (again.returncode, again.stdout.splitlines()[0]) == (0, "3"), again.stderr
    assert len(scientist.requests) == sent


def finished(run: Path, passes: int, files: tuple[str, ...]) -> Investigation:
    """An investigation whose folder is `run`, and each file that it made holds the folder's name."""
    records = tuple(PassRecord(n + 1, "", "", code="1", new_files=(file,)) for n, file in enumerate(files))
    work = run / "work"
    (run / "passes").mkdir(parents=True)
    work.mkdir()
    for number in range(1, passes + 1):
        (run / "passes" / f"pass-{number:02}.json").write_text(run.name, encoding="utf-8")
    for file in files:
        (work / file).parent.mkdir(exist_ok=True)
        (work / file).write_text(run.name, encoding="utf-8")
    found = Investigation("t", (), records, "", False, Usage(), workdir=str(work), run_dir=str(run))
    for file in ("run.json", "transcript.json", "transcript.md", "result.json"):
        (run / file).write_text(json.dumps(found.to_dict()), encoding="utf-8")
    return found


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_an_output_folder_holds_one_run_and_what_was_there_of_ones_own(tmp_path: Path) -> None:
    got = tmp_path / "got"
    copy_results(finished(tmp_path / "long", 5, ("a.txt", "b.txt")), got)
    (got / "passes" / "notes.md").touch()
    (got / "files" / "own.txt").touch()
    copy_results(finished(tmp_path / "short", 2, ("b.txt",)), got)
    assert [name for name in files_in(got) if "/" in name] == [
        "files/b.txt",
        "files/own.txt",
        "passes/notes.md",
        "passes/pass-01.json",
        "passes/pass-02.json",
    ]
    assert (got / "files" / "b.txt").read_text(encoding="utf-8") == "short"


def test_a_file_of_an_earlier_run_makes_room_for_a_folder(tmp_path: Path) -> None:
    got = tmp_path / "got"
    copy_results(finished(tmp_path / "one", 1, ("a",)), got)
    copy_results(finished(tmp_path / "two", 1, ("a/b",)), got)
    assert "files/a/b" in files_in(got)


def test_copies_that_fail_take_nothing_out(tmp_path: Path) -> None:
    got = tmp_path / "got"
    copy_results(finished(tmp_path / "long", 5, ("a.txt", "b.txt")), got)
    before = files_in(got)
    found = finished(tmp_path / "short", 2, ("b.txt",))
    (tmp_path / "short" / "transcript.md").unlink()
    with pytest.raises(FileNotFoundError):
        copy_results(found, got)
    assert files_in(got) == before
    assert "a.txt" in (got / "result.json").read_text(encoding="utf-8")


def test_what_a_result_names_outside_of_the_output_folder_stays(tmp_path: Path) -> None:
    got, outside = tmp_path / "got", tmp_path / "outside.txt"
    (got / "files").mkdir(parents=True)
    outside.touch()
    named = {"new_files": ["../../outside.txt", str(outside)]}
    (got / "result.json").write_text(json.dumps(named), encoding="utf-8")
    copy_results(finished(tmp_path / "run", 1, ()), got)
    assert outside.exists()


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_folder_of_a_run_is_no_output_folder(name: str, tmp_path: Path) -> None:
    found = finished(tmp_path / "runs" / "one", 2, ("a.txt",))
    finished(tmp_path / "runs" / "two", 3, ("b.txt",))
    before = files_in(tmp_path)
    folder = tmp_path / "runs" / name

    def begin(emit: OnEvent) -> Investigation:
        raise AssertionError("the run began")

    with pytest.raises(UsageError, match="is the folder of a run, expected a folder for copies"):
        watch(begin, output=folder, as_json=False, quiet=True)
    with pytest.raises(UsageError, match="is the folder of a run"):
        copy_results(found, folder)
    assert files_in(tmp_path) == before


def test_an_output_folder_that_cannot_be_made_is_said_before_anything_is_sent(
    scientist: Endpoint, tmp_path: Path
) -> None:
    done = science(tmp_path, scientist, "How many?", "-o", "typo/got")
    assert (done.returncode, scientist.requests) == (3, [])
    assert done.stderr.startswith("error: typo/got: there is no folder typo. Make it")


def test_json_is_alone_on_stdout_and_quiet_is_quiet(scientist: Endpoint, tmp_path: Path) -> None:
    done = science(tmp_path, scientist, "How many?", "--max-iterations", "1", "--json", "--quiet")
    found = json.loads(done.stdout)
    assert (found["conclusion"], found["stopped_early"], len(found["messages"])) == ("3", False, 2)
    assert "pass 1" not in done.stderr


def test_the_number_of_passes_from_yaml_and_from_the_flag(scientist: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("agent: {search: {max_iterations: 1}}\n", encoding="utf-8")
    for arguments, passes in (
        (("--config", "c.yaml"), 1),
        (("--config", "c.yaml", "--max-iterations", "2"), 2),
    ):
        done = science(tmp_path, scientist, "How many?", "--json", "--quiet", *arguments)
        run = Path(json.loads(done.stdout)["run_dir"])
        assert f"max_iterations: {passes}" in (tmp_path / run / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--max-iterations", "3"), 2, "no task"),
        (("What?", "--max-iterations", "0"), 2, "--max-iterations"),
        (("What?", "--data", "no.csv"), 3, "no.csv"),
        (("resume", "nothing"), 3, "no run 'nothing'"),
        (("What?", "--data", "."), 3, "a folder, expected a data file. Give each file with a --data."),
        (("@no.txt",), 2, "no.txt"),
        (("@empty.txt",), 2, "TASK: empty.txt is empty. Say in words"),
        (("",), 2, "error: TASK is empty. Say in words what is to be found out: autoprompt science"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    done = cli(tmp_path, "science", *arguments)
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_an_endpoint_that_fails_is_4_and_the_run_goes_on_later(scientist: Endpoint, tmp_path: Path) -> None:
    scientist.status = 401
    done = science(tmp_path, scientist, "How many?")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_help_says_how_many_passes_to_take(tmp_path: Path) -> None:
    done = cli(tmp_path, "science", "--help")
    assert done.returncode == 0
    assert "7-10" in " ".join(done.stdout.split())


def test_past_investigations_are_shown(scientist: Endpoint, tmp_path: Path) -> None:
    science(tmp_path, scientist, "How many rows?", "--max-iterations", "1", "--quiet")
    shown = cli(tmp_path, "runs", "show", "last")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0] == "How many rows?"
    assert "work folder:" in shown.stdout
    assert json.loads(cli(tmp_path, "runs", "show", "last", "--json").stdout)["result"]["conclusion"] == "3"
    report = cli(tmp_path, "report", "last")
    assert (report.returncode, "transcript.md" in report.stderr) == (3, True)
