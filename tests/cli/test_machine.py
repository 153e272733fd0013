"""What the machine refuses is explained; a command never calls it a bug."""

from __future__ import annotations

import codecs
import errno
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fakes import disk_full_error
from run_folders import hostile_run, real_run

from autoprompt.llm.client import Completion
from autoprompt.llm.kept import cache as cache_module
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.memory import Experience, ExperienceFile
from autoprompt.records import Change
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.session import open_checkpointer
from autoprompt.text.machine import machine_problem

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")

FULL = Path("/dev/full")


def autoprompt(
    *arguments: str, cwd: Path, before: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AUTOPROMPT_")}
    environ.update(PYTHONDONTWRITEBYTECODE="1", **environment)
    return subprocess.run(
        [sys.executable, "-m", "autoprompt", *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        timeout=120,
        preexec_fn=before,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    real_run(folder, max_iterations=1).path.rename(folder / "runs" / "run")
    rows = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(40)]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "full", "a"), "machine.no-space"),
        (OSError(errno.EDQUOT, "quota", "a"), "machine.quota"),
        (OSError(errno.EROFS, "read-only", "a"), "machine.read-only"),
        (OSError(errno.EIO, "i/o", "a"), "machine.io-error"),
        (OSError(errno.EMFILE, "files", "a"), "machine.open-files"),
        (OSError(errno.ENFILE, "files", "a"), "machine.open-files"),
        (OSError(errno.ENAMETOOLONG, "long", "a" * 5000), "machine.path-too-long"),
        (OSError(errno.ENOMEM, "memory"), "machine.no-memory"),
        (BlockingIOError(errno.EAGAIN, "fork"), "machine.no-process"),
        (InterruptedError(errno.EINTR, "interrupted"), "machine.system"),
        (PermissionError(errno.EACCES, "no", "a"), "machine.not-permitted"),
        (OSError("a text alone"), "machine.system"),
        (MemoryError(), "machine.no-memory"),
        (RuntimeError("can't start new thread"), "machine.no-process"),
        (disk_full_error(), "machine.no-space"),
    ],
    ids=lambda value: getattr(value, "strerror", None) or type(value).__name__,
)
def test_each_condition_has_its_code(error: BaseException, code: str) -> None:
    problem = machine_problem(error)
    assert problem is not None
    assert problem.code == code
    assert len(str(problem)) < 450


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("x"), KeyError("x"), sqlite3.Error("x")])
def test_a_fault_of_the_code_is_none_of_the_machine(error: BaseException) -> None:
    assert machine_problem(error) is None


def test_locked_checkpoints_are_no_file_to_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoints.sqlite"
    connect = sqlite3.connect
    with closing(connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0.1}))
        with (
            pytest.raises(Exception, match="another program has locked the database") as said,
            open_checkpointer(path),
        ):
            pass
    assert "Delete" not in str(said.value)


def test_a_locked_cache_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache_module, "_BUSY_TIMEOUT_S", 0.1)
    connects: list[object] = []
    with closing(sqlite3.connect(tmp_path / "responses.sqlite")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with closing(ResponseCache(tmp_path)) as cache:
            connect = sqlite3.connect
            monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connects.append(a) or connect(*a, **k))
            for n in range(5):
                assert cache.get(f"{n:064x}") is None
                cache.put(f"{n:064x}", Completion("x"))
    assert len(connects) == 1
    assert caplog.text.count("the response cache is not used: another program has locked") == 1


LONG = "x" * 5000
WITH_LONG_PATHS = [
    ("run", "--dataset", LONG, "--prompt", "x"),
    ("run", "--dataset", "t.jsonl", "--prompt", "x", "--runs-dir", LONG),
    ("runs", "list", "--runs-dir", LONG),
    ("runs", "show", LONG),
    ("resume", LONG),
    ("report", "run", "-o", f"{LONG}.md"),
    ("runs", "export", "run", "--to", f"{LONG}.txt"),
    ("eval", "--dataset", "t.jsonl", "--prompt", f"@{LONG}"),
]


@pytest.mark.parametrize("command", WITH_LONG_PATHS, ids=lambda command: " ".join(command)[:30])
def test_a_path_that_is_too_long_is_said(command: tuple[str, ...], project: Path) -> None:
    done = autoprompt(*command, cwd=project, AUTOPROMPT_MODEL="m", OPENAI_API_KEY="x")
    assert done.returncode == 3, done.stderr[-500:]
    assert b"too long" in done.stderr


@pytest.mark.parametrize(
    "command", [("runs", "list"), ("init", "d"), ("runs", "show", "run"), ("resume", "x")]
)
def test_a_working_folder_that_is_gone_is_no_bug(command: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = autoprompt(*command, cwd=gone, before=lambda: shutil.rmtree(gone))
    assert done.returncode in (0, 3)
    assert b"bug" not in done.stderr


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_limit_of_the_shell_is_explained(project: Path) -> None:
    done = autoprompt("report", "run", "-o", "out.html", cwd=project, before=small_files)
    assert done.returncode == 3, done.stderr[-500:]
    assert b"cannot be written" in done.stderr
    assert b"bug" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize(("is_out_full", "is_err_full"), [(False, True), (True, False), (True, True)])
def test_a_full_disk_behind_the_output_ends_no_work(
    is_out_full: bool, is_err_full: bool, project: Path
) -> None:
    target = project / f"r{is_out_full}{is_err_full}.md"
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autoprompt", "report", "run", "-o", target.name],
            cwd=project,
            stdout=full if is_out_full else subprocess.PIPE,
            stderr=full if is_err_full else subprocess.PIPE,
        )
    assert target.read_text(encoding="utf-8")
    assert done.returncode == (3 if is_out_full else 0)
    if is_out_full and not is_err_full:
        assert b"the output is not complete: stdout: no space is left on the disk" in done.stderr


@pytest.mark.parametrize("columns", ["0", "-1", "1", "text", "", "19", "٣"])
def test_a_width_that_is_none_is_ignored(columns: str, project: Path) -> None:
    shown = autoprompt("runs", "list", cwd=project, COLUMNS=columns).stdout
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "autoprompt", "runs", "list"]
    assert shown == subprocess.run(command, cwd=project, env=environ, capture_output=True).stdout
    assert b"run" in shown


CHINESE = ["判断标题是否为标题党。", "😀 yes or no?"]
ENCODINGS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"},
    {"PYTHONIOENCODING": "ascii:replace"},
]


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunFolder]:
    folder = tmp_path_factory.mktemp("chinese")
    run = hostile_run(folder / "runs", CHINESE * 2, longest=50)
    return folder, RunFolder(run.path.rename(folder / "runs" / "run"))


@pytest.mark.parametrize("environment", ENCODINGS, ids=lambda environment: "-".join(environment.values()))
def test_a_character_that_stdout_lacks_is_never_a_question_mark(
    environment: dict[str, str], chinese: tuple[Path, RunFolder]
) -> None:
    folder, run = chinese
    exported = autoprompt("runs", "export", run.run_id, cwd=folder, **environment)
    assert (exported.returncode, exported.stdout) == (3, b"")
    assert b"cannot show" in exported.stderr
    assert b"--to FILE" in exported.stderr
    shown = autoprompt("runs", "show", run.run_id, cwd=folder, **environment)
    assert shown.returncode == 0
    assert b"\\u5224" in shown.stdout + shown.stderr
    assert b"???" not in shown.stdout
    name = codecs.lookup(environment["PYTHONIOENCODING"].partition(":")[0]).name
    assert f"characters that {name} lacks are shown as escapes. Set PYTHONIOENCODING=utf-8" in str(
        shown.stderr
    )
    listed = autoprompt("runs", "show", run.run_id, "--json", cwd=folder, **environment)
    assert CHINESE[0] in json.dumps(json.loads(listed.stdout), ensure_ascii=False)


@pytest.mark.parametrize("environment", ENCODINGS, ids=lambda environment: "-".join(environment.values()))
def test_what_we_write_ourselves_has_a_form_in_every_encoding(
    environment: dict[str, str], tmp_path: Path
) -> None:
    run = RunStore(tmp_path / "runs").create({"prompt": "Say A or B to it. " * 30})
    listed = autoprompt("runs", "list", cwd=tmp_path, **environment)
    shown = autoprompt("runs", "show", run.run_id, cwd=tmp_path, **environment)
    assert (listed.returncode, listed.stderr, shown.returncode, shown.stderr) == (0, b"", 0, b"")
    assert b"\\u" not in listed.stdout + shown.stdout
    encoding = environment["PYTHONIOENCODING"].partition(":")[0]
    dash, dots = ("–", "…") if encoding == "cp1252" else ("-", "...")
    assert f"interrupted | {dash} " in listed.stdout.decode(encoding)
    assert f"  {('Say A or B to it. ' * 30)[:99]}{dots}\n" in shown.stdout.decode(encoding)


def test_a_text_for_a_program_is_not_changed(tmp_path: Path) -> None:
    known = Experience("Answer → A or B …", Change(note="told"), "better", before=0.5, after=0.7, rows=30)
    ExperienceFile(tmp_path / "memory.txt").record([known], run_id="r1", iteration=1)
    done = autoprompt(
        "memory", "export", "--memory-file", "memory.txt", cwd=tmp_path, PYTHONIOENCODING="ascii"
    )
    assert b"\\u2192" in done.stdout
    assert b"->" not in done.stdout


def test_an_export_to_a_file_needs_no_encoding_of_the_terminal(chinese: tuple[Path, RunFolder]) -> None:
    folder, run = chinese
    done = autoprompt("runs", "export", run.run_id, "--to", "p.txt", cwd=folder, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert CHINESE[0] in (folder / "p.txt").read_text(encoding="utf-8")


def test_half_a_character_is_not_exported(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "runs", ["a \ud800 b", "c"] * 2, longest=50)
    done = autoprompt("runs", "export", run.run_id, "--to", "p.txt", cwd=tmp_path)
    assert done.returncode == 3
    assert b"half of a surrogate pair" in done.stderr
    assert not (tmp_path / "p.txt").exists()
