"""One run: starts the supervising child, reads what it prints, waits until nothing is left."""

from __future__ import annotations

import contextlib
import marshal
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autoprompt.errors import Problem
from autoprompt.text.names import counted

from . import folders
from .child import untrusted
from .child.settings import Settings
from .records import Level, Limits, SandboxError

_CHILD = Path(__file__).parent / "child"
_READ_BYTES = 1 << 18
# The child keeps the time, and cleans up after; this is for a child that hangs.
_GRACE_S = 10.0
# 0x70000000 to 0x7ffdffff belong to nobody by systemd's table of ids.
_FIRST_FREE_UID, _FREE_UIDS = 0x70000000, 1 << 22
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    stdout: str
    stderr: str
    exit_code: int
    killed_by: Any
    duration_s: float


def execute(
    argv: Sequence[str], workdir: Path, level: Level, limits: Limits, python: str, *, tree: bool | None = None
) -> Outcome:
    """Run argv in the folder and return when all of its processes are gone.

    workdir: exists, absolute, without links. python: absolute; its libraries are shown.
    tree: a process namespace around unconfined code, which makes ending all of it certain; None for where it
    works.

    Raises:
        SandboxError: If the code could not be started.
    """
    if tree is None:
        tree = not level.confines and _has_process_namespaces()
    # The child makes it: it outlives a parent that is killed, and removes it.
    own = Path(tempfile.gettempdir()).resolve() / f"autoprompt-sandbox-{secrets.token_hex(8)}"
    scratch = "/tmp" if level.namespaces else str(own)
    try:
        return _run(_settings(argv, workdir, level, limits, python, scratch, tree), limits)
    finally:
        if not level.namespaces:
            with contextlib.suppress(OSError):
                untrusted.remove_tree(Path(scratch))


def _settings(
    argv: Sequence[str], workdir: Path, level: Level, limits: Limits, python: str, scratch: str, tree: bool
) -> Settings:
    launcher = [sys.executable, "-I", "-S", str(_CHILD)]
    shown = [folders.shown(python)]
    own_files = []
    if level.namespaces == "bubblewrap":  # starts the launcher again, inside
        shown.append(folders.shown(folders.absolute(sys.executable)))
        own_files.append((str(_CHILD), str(_CHILD)))
    read_only = [pair for each in shown for pair in each.folders] + own_files
    links = [
        (path, target)
        for each in shown
        for path, target in each.links
        if not any(Path(path).is_relative_to(folder) for _, folder in read_only)  # of the other interpreter
    ]
    limited = {name: value for name, value in vars(limits).items() if name != "output_bytes"}
    return Settings(
        {
            "argv": list(argv),
            "env": _environment(python, scratch),
            "workdir": str(workdir),
            "scratch": scratch,
            "owns_scratch": not level.namespaces,
            "read_only": list(dict.fromkeys(read_only)) if level.confines else [],
            "links": list(dict.fromkeys(links)),
            "namespaces": level.namespaces,
            "tree": tree,
            "landlock": level.landlock,
            "seccomp": level.seccomp,
            "seatbelt": level.seatbelt,
            "uid": _uid_for_code() if level.confines and os.geteuid() == 0 else None,
            "parent_pid": os.getpid(),
            "launcher": launcher,
            "bubblewrap": shutil.which("bwrap") or "",
            **limited,
        }
    )


@cache
def _has_process_namespaces() -> bool:
    if sys.platform != "linux":
        return False
    command = [sys.executable, "-I", "-S", "-c", ""]
    with tempfile.TemporaryDirectory(prefix="autoprompt-probe-") as folder:
        work = Path(folder).resolve()
        try:
            tried = execute(command, work, Level(), Limits(wall_s=10), sys.executable, tree=True)
        except SandboxError:
            return False
    return tried.exit_code == 0


def _environment(python: str, scratch: str) -> dict[str, str]:
    """All that the code gets. Nothing of the caller's: keys live there."""
    threads = str(min(4, os.cpu_count() or 1))  # a library may start a thread for each of a hundred cores
    return {
        "PATH": f"{Path(python).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",  # no __pycache__ among the new files
        "PYTHONHASHSEED": "0",  # the same experiment prints its sets in the same order
        "PYTHONUTF8": "1",
        **dict.fromkeys(_THREADS, threads),
    }


def _uid_for_code() -> int:
    """Return an id that nobody else has, so that the kernel counts and ends this run's processes alone."""
    mapped = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    offset = (os.getpid() * 64 + next(_runs)) % _FREE_UIDS
    inside, size = int(mapped[-3]), int(mapped[-1])
    if inside <= _FIRST_FREE_UID and inside + size >= _FIRST_FREE_UID + _FREE_UIDS:
        return _FIRST_FREE_UID + offset
    # A container with few ids: its upper half, where packages create no users.
    return inside + size // 2 + offset % max(1, size // 2 - 2)


def _count() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


_runs = _count()


def _run(settings: Settings, limits: Limits) -> Outcome:
    life_end, lifeline = os.pipe()
    status, status_end = os.pipe()
    command = [*settings.launcher, "run", str(life_end), str(status_end)]
    started = time.monotonic()
    with contextlib.ExitStack() as open_files:
        open_files.callback(os.close, status)
        close_lifeline = open_files.enter_context(contextlib.ExitStack())
        close_lifeline.callback(os.close, lifeline)
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                start_new_session=True,
                pass_fds=(life_end, status_end),
            )
        finally:
            os.close(life_end)
            os.close(status_end)
        report = b""
        with child:
            try:
                _send(lifeline, settings.packed())
                outputs, report = _collect(child, status, started + settings.wall_s + _GRACE_S, limits)
                duration = time.monotonic() - started
            finally:
                close_lifeline.close()  # the child ends the run, if it has not ended
                _wait(child, has_ended=bool(report))
    stdout, stderr = (output.text() for output in outputs)
    if not report:
        said = f"the sandbox ended before the code did: {stderr[-2000:].strip() or 'killed from outside'}"
        raise SandboxError(Problem("sandbox.ended", said, fix="Run it again."))
    result = marshal.loads(report)
    if result["error"]:
        said = f"the code could not be started: {result['error']}"
        fix = "`autoprompt doctor` shows what this machine can confine."
        raise SandboxError(Problem("sandbox.not-started", said, fix=fix))
    if result["killed_by"] == "parent":
        said = "something outside stopped the sandbox"
        raise SandboxError(Problem("sandbox.stopped", said, fix="Run it again."))
    return Outcome(stdout, stderr, result["exit_code"], result["killed_by"], duration)


def _send(lifeline: int, content: bytes) -> None:
    try:
        while content:
            content = content[os.write(lifeline, content) :]
    except BrokenPipeError:  # the child has ended: the caller notices the missing report
        return


def _wait(child: subprocess.Popen[bytes], *, has_ended: bool) -> None:
    """has_ended: the code has, and the child tidies up after it, which takes as long as it takes."""
    try:
        child.wait(timeout=None if has_ended else _GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _collect(
    child: subprocess.Popen[bytes], status: int, end: float, limits: Limits
) -> tuple[list[HeadAndTail], bytes]:
    """Read both outputs until the child reports, and then what is left in them."""
    assert child.stdout is not None
    assert child.stderr is not None
    outputs = [HeadAndTail(limits.output_bytes), HeadAndTail(limits.output_bytes)]
    report = b""
    with selectors.DefaultSelector() as selector:
        for stream, output in zip((child.stdout, child.stderr), outputs, strict=True):
            selector.register(stream, selectors.EVENT_READ, output)
        selector.register(status, selectors.EVENT_READ, None)
        while selector.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                part = os.read(key.fd, _READ_BYTES)
                if not part:
                    selector.unregister(key.fileobj)
                elif key.data is None:
                    report += part
                else:
                    key.data.add(part)
    return outputs, report


class HeadAndTail:
    """Takes bytes; keeps at most `limit` of them (and one read more while reading)."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def add(self, part: bytes) -> None:
        self._seen += len(part)
        room = self._half - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        if len(self._tail) > self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """Return the text; a character cut in two at the gap becomes a replacement character."""
        dropped = self._seen - len(self._head) - len(self._tail)
        if not dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[... {counted(dropped, 'byte')} left out ...]\n{tail}"
