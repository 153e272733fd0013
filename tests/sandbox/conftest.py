"""The levels that this machine offers, and what a run could leave behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoprompt.sandbox import Level, offers, works

OFFERED = [level for level in offers().levels() if works(level)]
STRONGEST = OFFERED[0] if OFFERED else Level()


def confining() -> list[Level]:
    """What is offered, and what would be left of the strongest without Landlock or without seccomp."""
    poorer = [replace(STRONGEST, landlock=0), replace(STRONGEST, seccomp=False)]
    levels = OFFERED + [level for level in poorer if level.confines]
    return list(dict.fromkeys(levels))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, levels in (("level", confining()), ("offered", OFFERED)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, levels, ids=[str(level).split(",")[0] for level in levels])


@pytest.fixture
def strongest() -> Level:
    if not OFFERED:
        pytest.skip("nothing on this machine confines code")
    return STRONGEST


def _processes_naming(text: str) -> list[str]:
    """Command lines of all processes of the machine that contain the text."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if text in line:
                found.append(line)
    return found


def _children() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    found: list[str] = []
    for task in tasks:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += (task / "children").read_text(encoding="ascii").split()
    return found


def _state(temporary: Path) -> dict[str, object]:
    return {
        "children": _children(),
        "mounts": Path("/proc/self/mountinfo").read_text(encoding="utf-8").count("\n"),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "scratch": sorted(path.name for path in temporary.iterdir()),
    }


@pytest.fixture
def processes_naming() -> Callable[[str], list[str]]:
    return _processes_naming


@pytest.fixture
def _leaves_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No child, mount, open file or temporary folder more than before, no process that names the folder."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)  # asks the environment again
    before = _state(temporary)
    yield
    assert _processes_naming(str(tmp_path)) == []
    end = time.monotonic() + 2  # a supervisor whose parent was killed still cleans up
    while _state(temporary) != before and time.monotonic() < end:
        threading.Event().wait(0.02)
    assert _state(temporary) == before
