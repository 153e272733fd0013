"""Fills templates and searches patterns that nobody has read, in processes with limits of time and memory.

A process is started when it is needed, used again, and replaced when a limit has ended it. Threads share
them, and a forked process has its own.
"""

from __future__ import annotations

import atexit
import importlib.util
import io
import marshal
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from autoprompt.errors import InputError, Problem

TIME_S = 5.0
MEMORY_BYTES = 512 << 20  # of address space; on Linux only
MAX_LENGTH = 4_000_000  # characters that one template may make
_MOST = max(2, min(8, os.cpu_count() or 2))  # processes
_CHILD = Path(__file__).with_name("evaluator_child.py")
_SCALARS = (str, bool, int, float)
_KEYS = (*_SCALARS, type(None))
_LENGTH = struct.Struct("!Q")
_TRIES = 2  # of one evaluation: a process may be ended from outside, as by a system without memory


class EvaluationError(ValueError):
    """What is wrong with a template or its values."""


class LimitError(InputError):
    """An evaluation reached a limit, of which it says the value."""


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Return the template filled with the values, by Jinja2 in its sandbox.

    Args:
        values: Plain data: text, numbers, truth values, None, and lists and dicts of these.

    Raises:
        EvaluationError: For a template that cannot be read or filled, and for values of other kinds.
        LimitError: For one that takes more time or memory than it may.
    """
    plain = {}
    for name, value in values.items():
        try:
            plain[name] = _plain(value, f"the value of {name}")
        except RecursionError:
            raise EvaluationError(f"the value of {name} is nested too deeply") from None
    return _evaluate("template", template, plain)


def has_match(pattern: str, text: str) -> bool:
    """Return whether the pattern is found in the text.

    Raises:
        LimitError: If the search does not end.
    """
    return _evaluate("search", pattern, text) != ""


def _evaluate(job: Literal["template", "search"], text: str, values: Any) -> str:
    what = "the template" if job == "template" else f"the pattern {text[:60]!r}"
    try:
        request = marshal.dumps((job, text, values))
    except ValueError as error:  # at another depth than Python itself
        raise EvaluationError("a value is nested too deeply") from error
    for _ in range(_TRIES):
        status, answer = _pool.evaluate(request)
        if status == "+":
            return answer
        if status == "-":
            raise EvaluationError(answer)
        if status == "t":
            raise LimitError(
                Problem("sandbox.too-slow", f"{what} takes longer than {TIME_S:g} s", fix="Simplify it.")
            )
        if status == "m":
            said = f"{what} needs more than {MEMORY_BYTES >> 20} MB of memory"
            raise LimitError(Problem("sandbox.too-large", said, fix="Simplify it, or give it less data."))
    said = f"{what} cannot be evaluated: its process ended by {answer}"
    raise LimitError(Problem("sandbox.evaluator-ended", said, fix="Check the memory that is free."))


def _plain(value: Any, name: str) -> Any:
    """Return the value as exact types of Python, which marshal takes.

    Raises:
        EvaluationError: For another type.
        RecursionError: For one too deep.
    """
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, _KEYS):
                raise EvaluationError(f"{name} has the key {key!r}, expected text or a number")
        return {_plain(key, name): _plain(part, name) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, name) for part in value]
    for scalar in _SCALARS:
        if isinstance(value, scalar):
            return scalar(value)
    raise EvaluationError(
        f"{name} is {type(value).__name__}, expected plain data: text, numbers, and lists and dicts of these"
    )


class _Process:
    """One process, which works for one thread at a time."""

    def __init__(self) -> None:
        own = [sys.executable, "-I", str(_CHILD), str(TIME_S), str(MEMORY_BYTES), str(MAX_LENGTH)]
        # A session of its own, since Ctrl-C is for the process that asks. Unbuffered, since a fork in the
        # middle of a request must not leave bytes of it that the forked process writes, too.
        self._child = subprocess.Popen(
            [*own, *_other_packages()],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        self._to, self._from = (cast(io.FileIO, pipe) for pipe in (self._child.stdin, self._child.stdout))

    def evaluate(self, request: bytes) -> tuple[str, str]:
        """Status and text of the answer; `t` for a process that its time ended, `x` for another end."""
        try:
            unsent = memoryview(_LENGTH.pack(len(request)) + request)
            while unsent:
                unsent = unsent[self._to.write(unsent) :]
            head = self._read(1 + _LENGTH.size)
            size = _LENGTH.unpack(head[1:])[0]
            if size > 4 * MAX_LENGTH:
                raise EOFError
            return chr(head[0]), self._read(size).decode("utf-8", "surrogatepass")
        except (BrokenPipeError, EOFError):
            self.end()
        code = self._child.returncode
        if code == -signal.SIGALRM:
            return "t", ""
        return "x", f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        unread = memoryview(found)
        while unread:
            number = self._from.readinto(unread)
            if not number:
                raise EOFError
            unread = unread[number:]
        return found

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def end(self) -> None:
        self._child.kill()
        self._child.wait()
        self.leave()

    def leave(self) -> None:
        self._to.close()
        self._from.close()


def _other_packages() -> list[str]:
    """Return where Jinja2 is, if only PYTHONPATH or the user's own packages lead to it."""
    found = importlib.util.find_spec("jinja2")
    if found is None or found.origin is None or not found.origin.endswith("__init__.py"):
        return []
    folder = Path(found.origin).resolve().parent.parent
    return [] if folder == Path.cwd() else [str(folder)]


class _Pool:
    """Lends each evaluation a process: an idle one, else a new one, and waits once there are `_MOST`."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(_MOST)
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    def evaluate(self, request: bytes) -> tuple[str, str]:
        with self._places:
            process = self._lent()
            status = ""
            try:
                status, answer = process.evaluate(request)
            finally:  # after Ctrl-C, what is still in its pipes belongs to no other evaluation
                self._take_back(process, is_whole=status in ("+", "-"))
            return status, answer

    def _lent(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    return process
                process.end()
                self._all.discard(process)
        process = _Process()
        with self._lock:
            self._all.add(process)
        return process

    def _take_back(self, process: _Process, *, is_whole: bool) -> None:
        if not is_whole:
            process.end()
        with self._lock:
            if is_whole:
                self._idle.append(process)
            else:
                self._all.discard(process)

    def close(self) -> None:
        for process in list(self._all):
            process.end()

    def leave(self) -> None:
        """Close our ends of the pipes in a forked process, so that the other one alone holds them."""
        for process in self._all:
            process.leave()


_pool = _Pool()
_left: list[_Pool] = []  # kept, since a process that goes out of reach is waited for


def _after_fork() -> None:
    global _pool
    _pool.leave()
    _left.append(_pool)
    _pool = _Pool()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _pool.close())
