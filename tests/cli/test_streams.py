"""A reader that leaves early, `autoprompt ... | head -1`: its going changes no exit code and no file."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from run_folders import hostile_run

CHECK = ("check", "--config", str(Path(__file__).parents[2] / "configs" / "clickbait_ci.yaml"))
FAILING = (*CHECK, "--min-score", "0.99", "--junit", "junit.xml")


@contextmanager
def unread_pipe() -> Iterator[int]:
    """The end to write to of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with closing(os.fdopen(writing, "wb", buffering=0)) as file:
        yield file.fileno()


def ended(
    *arguments: str, folder: Path, options: tuple[str, ...] = (), both: bool = False
) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout nobody reads; with `both`, its stderr neither."""
    command = [sys.executable, *options, "-m", "autoprompt", *arguments]
    with unread_pipe() as pipe:
        errors = pipe if both else subprocess.PIPE
        done = subprocess.run(command, cwd=folder, stdout=pipe, stderr=errors, text=True, check=False)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("options", [(), ("-u",)])
def test_a_passed_check_ends_with_0(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert ended(*CHECK, "--quiet", folder=tmp_path, options=options) == (0, "")


def test_a_failed_check_ends_with_1_and_writes_its_files(tmp_path: Path) -> None:
    assert ended(*FAILING, folder=tmp_path, both=True)[0] == 1
    assert "<testsuites" in (tmp_path / "junit.xml").read_text(encoding="utf-8")


def test_a_check_that_could_not_be_made_keeps_its_code(tmp_path: Path) -> None:
    assert ended(*CHECK, "--repeat", "7", folder=tmp_path, both=True)[0] == 3


def test_a_list_and_a_run_that_nobody_reads_to_the_end(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "runs")
    for arguments in (
        ("runs", "list"),
        ("runs", "list", "--json"),
        ("runs", "show", run.run_id),
        ("--help",),
    ):
        assert ended(*arguments, folder=tmp_path) == (0, "")
    assert ended("runs", "show", "none-such", folder=tmp_path)[0] == 3


@pytest.mark.skipif(os.name == "nt", reason="closes streams by a shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(tmp_path: Path, closed: str) -> None:
    def code(*arguments: str) -> int:
        command = f"{shlex.join([sys.executable, '-m', 'autoprompt', *arguments])} {closed}"
        return subprocess.run(command, shell=True, cwd=tmp_path, check=False).returncode

    run = hostile_run(tmp_path / "runs")
    assert code("runs", "list") == 0
    assert code("runs", "list", "--json") == 0
    assert code("runs", "show", "none-such") == 3
    assert code("runs", "export", run.run_id, "--format", "openai", "--to", "p.json") == 0
    assert json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))  # and no other output is in it


@pytest.mark.skipif(os.name == "nt", reason="closes streams by a shell")
def test_nobody_confirms_on_a_closed_stdin(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "runs")
    command = f"{shlex.join([sys.executable, '-m', 'autoprompt', 'runs', 'rm', run.run_id])} <&-"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "add --yes to confirm" in done.stderr
    assert run.path.is_dir()


@pytest.mark.parametrize("options", [(), ("-u",)])
def test_what_is_read_comes_whole(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = hostile_run(tmp_path / "runs")
    command = [sys.executable, *options, "-m", "autoprompt", "runs", "show", run.run_id, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("}")
    assert len(done.stdout) > 200_000
