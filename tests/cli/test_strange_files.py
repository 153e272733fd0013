"""Pipes, sockets and devices in somebody else's run folder: no command waits for them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import real_run
from typer.testing import CliRunner

from autoprompt.cli import app

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_terminal(path: Path) -> None:
    path.symlink_to("/dev/ptmx")


def listening_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # an address of a socket may have only 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


KINDS = [pipe, link_to_a_pipe, link_to_a_device, link_to_a_terminal, listening_socket]
FILES = [
    *("run.json", "config.yaml", "result.json", "candidates.jsonl", "events.jsonl", "labels.json"),
    *("journal.jsonl", "checkpoints.sqlite", "original_prompt.txt", "fields.json", "models", "run.lock"),
    *("predictions/test-best.jsonl", "spending.json", "progress.json", "traits.json"),
]
COMMANDS = [
    ("runs", "list"),
    ("runs", "show", "run"),
    ("report", "run", "-o", "out.html"),
    ("runs", "export", "run"),
    ("runs", "diff", "run", "run"),
    ("resume", "run"),
    ("eval", "--from", "run", "--dataset", "rows.jsonl", "--dry-run", "--model", "m"),
]


def ended(command: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and messages; 20 seconds are for ever."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"{command} hangs")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    try:
        done = CliRunner().invoke(app, list(command))
    finally:
        signal.alarm(0)
    return done.exit_code, done.stderr + repr(done.exception)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished run; without its result it is one that was cut off."""
    folder = tmp_path_factory.mktemp("runs")
    real_run(folder, max_iterations=1).path.rename(folder / "runs" / "run")
    rows = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(20)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "cut off"])
def test_every_command_ends(
    kind: Callable[[Path], None],
    is_finished: bool,
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each file of the folder in turn; a command that needs it names it, the others do not care."""
    monkeypatch.setenv("AUTOPROMPT_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    for number, name in enumerate(FILES):
        if name == "result.json" and not is_finished:
            continue
        here = tmp_path / str(number)
        shutil.copytree(runs, here)
        monkeypatch.chdir(here)
        run = here / "runs" / "run"
        if not is_finished:
            (run / "result.json").unlink()
        (run / name).unlink(missing_ok=True)
        kind(run / name)
        for command in COMMANDS[(number + KINDS.index(kind)) % 2 :: 2]:
            code, said = ended(command)
            assert code in (0, 3, 4), (name, command, code, said)
            assert "this is a bug" not in said
