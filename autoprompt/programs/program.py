"""A program with what its user says where a default does not fit; set up before use, and shut down after."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autoprompt.errors import ConfigError, Place, Problem

Hook = Callable[[], object]  # sync or async
Wait = Callable[[Awaitable[Any]], Any]  # for an awaitable, on the event loop of all rows


class Program:
    """Your own program, where a default does not fit. Give it as `program`, or name it as `module:object`.

    Args:
        run: A function (sync or async), a LangChain Runnable, a compiled LangGraph graph, a `Workflow`, or an
            object with `__call__`.
        inputs: Makes what the program is called with from a row's fields, the target's left out: a dict of
            arguments for a function, and the input of a Runnable or a graph.
        output: Makes the answer from what the program returns, or names the key that has it.
        setup: Called once before the first row, sync or async: opens what all rows share.
        shutdown: Called once after the last row, sync or async.
        max_calls_per_row: Calls to models after which a row is ended. Default: ten times what the trial saw.
        row_seconds: Seconds after which a row is ended, as a wrong one. Default: no limit.
        name: For messages. Default: the name of `run`.

    Examples:
        >>> from autoprompt import Program
        >>> def desk(ticket: dict) -> dict:
        ...     return {"queue": "tech", "why": "it crashes"}
        >>> program = Program(desk, inputs=lambda row: {"ticket": row}, output="queue")
    """

    def __init__(
        self,
        run: Any,
        *,
        inputs: Callable[[Mapping[str, Any]], Any] | None = None,
        output: Callable[[Any], Any] | str | None = None,
        setup: Hook | None = None,
        shutdown: Hook | None = None,
        max_calls_per_row: int | None = None,
        row_seconds: float | None = None,
        name: str | None = None,
    ) -> None:
        for setting, value in (("max_calls_per_row", max_calls_per_row), ("row_seconds", row_seconds)):
            if value is not None and not value > 0:
                said = f"expected a number above 0, found {value}"
                raise ConfigError(Problem("program.option", said, Place(setting=setting)))
        self.run: Any = run.run if isinstance(run, Program) else run
        self.inputs, self.output = inputs, output
        self.setup, self.shutdown = setup, shutdown
        self.max_calls_per_row, self.row_seconds = max_calls_per_row, row_seconds
        named = getattr(run, "name", None) or getattr(run, "__name__", None) or type(run).__name__
        self.name = str(name or named)
        self._wait: Wait | None = None  # once it is set up
        self._lock = threading.Lock()

    def start(self, wait: Wait) -> None:
        """Set the program up, unless it is. Rows that come meanwhile wait for it.

        Raises:
            ConfigError: If that fails: no row would fare better.
        """
        with self._lock:
            if self._wait is not None:
                return
            try:
                _call(self.setup, wait)
            except Exception as error:
                said = f"setting up {self.name} failed: {type(error).__name__}: {error}"
                raise ConfigError(Problem("program.setup", said, fix="Fix `setup`.")) from error
            self._wait = wait
        _note_started(self)

    def stop(self) -> None:
        """Shut the program down. A failure is a warning: what was measured stays."""
        with self._lock:
            wait, self._wait = self._wait, None
        if wait is None:
            return
        try:
            _call(self.shutdown, wait)
        except Exception as error:  # noqa: BLE001 - a hook may raise anything
            said = f"shutting down {self.name} failed: {type(error).__name__}: {error}"
            warnings.warn(said, RuntimeWarning, stacklevel=2)


def as_program(given: Any) -> Program:
    """Return a program with its options; for what is given alone, every default holds."""
    return given if isinstance(given, Program) else Program(given)


def _call(hook: Hook | None, wait: Wait) -> None:
    found = None if hook is None else hook()
    if inspect.isawaitable(found):
        wait(found)


_lock = threading.Lock()
_users = 0
_started: list[Program] = []


def _note_started(program: Program) -> None:
    with _lock:
        _started.append(program)


@contextmanager
def programs_in_use() -> Iterator[None]:
    """Keep programs set up while the block runs; when the last such block ends, they are shut down."""
    global _users
    with _lock:
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            ending = [] if _users else _started[:]
            if not _users:
                _started.clear()
        for program in reversed(ending):
            program.stop()
