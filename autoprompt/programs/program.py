"""A program with what its user says where no default fits, and the modules that it is made of."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.llm.portal import LoopThread
from autoprompt.programs.places import is_own
from autoprompt.text.files import file_sha256
from autoprompt.text.python_source import parse_code

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
        """Set the program up, unless that was done. Rows that come meanwhile wait for it.

        Args:
            wait: Waits for an async `setup`.

        Raises:
            ConfigError: The setup failed.
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
# A client that is made at import works on one loop only, so all rows of async programs share this one.
LOOP = LoopThread()

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
        with _lock:
            if not _users:  # what clients keep open belongs to that loop: used on another one it would fail
                LOOP.end_connections()


def parts_of(address: str, program: Any) -> dict[str, str]:
    """Return the parts of a program: its own modules with a sha256, installed packages with a version.

    Imports inside of functions count, whether they have run or not. What it imports by a name that is put
    together at run time is not seen, nor are data files.
    """
    files, imported = own_modules(address, program)
    return {name: file_sha256(path) for name, path in sorted(files.items())} | _versions(imported)


def own_modules(address: str, program: Any) -> tuple[dict[str, Path], set[str]]:
    """Return the files of the program's own modules by name, and the installed modules that they import."""
    files: dict[str, Path] = {}
    imported: set[str] = set()
    options = as_program(program)
    made_of = (options.run, options.inputs, options.output, options.setup)
    waiting = [found for part in made_of if part is not None for found in _modules_of(address, part)]
    while waiting:
        name, file = waiting.pop()
        if name in files:
            continue
        files[name] = path = Path(file)
        for other in _imports(path.read_bytes(), name, is_package=path.name == "__init__.py"):
            if _is_installed(top := other.partition(".")[0]):
                imported.add(top)
            elif (found := _own_file(other)) is not None:
                waiting.append((other, found))
    return files, imported


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ, in order."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _modules_of(address: str, program: Any) -> Iterator[tuple[str, str]]:
    """Name and file of the module that the address names, that of the code, and those of a graph's nodes."""
    named = sys.modules.get(address.partition(":")[0])
    codes = [program, getattr(program, "func", None), getattr(program, "afunc", None), type(program)]
    for module in (named, *(inspect.getmodule(code) for code in codes if code is not None)):
        if (file := _file_of(module)) is not None:
            yield getattr(module, "__name__", file), file
    nodes = getattr(getattr(program, "builder", None), "nodes", {})
    for node in nodes.values():
        yield from _modules_of("", getattr(node, "runnable", None))


def _file_of(module: ModuleType | None) -> str | None:
    file = getattr(module, "__file__", None)
    return file if file and file.endswith(".py") and is_own(file) else None


def _is_installed(top: str) -> bool:
    """Return whether a top-level module is not the program's own.

    To look for its submodules would import it.
    """
    if top in sys.stdlib_module_names or (spec := _spec(top)) is None:
        return True
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return not any(place and is_own(place) for place in places)


def _own_file(name: str) -> str | None:
    """Return the file of a module by its name, if it is the program's own."""
    if (module := sys.modules.get(name)) is not None:
        return _file_of(module)
    spec = _spec(name)
    file = None if spec is None else spec.origin
    return file if file and file.endswith(".py") and is_own(file) else None


def _spec(name: str) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):  # no such module, or its parent is no package
        return importlib.util.find_spec(name)
    return None


def _imports(text: bytes, name: str, *, is_package: bool) -> Iterator[str]:
    """Full names that a module imports: of `from a import b` both `a` and `a.b`, and the packages above."""
    try:
        tree = parse_code(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = name.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
                base = ".".join([*above, *filter(None, [base])])
            if base:
                yield from _with_parents(base)
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _versions(names: set[str]) -> dict[str, str]:
    """Version of each installed package that has one of these top-level modules."""
    wanted = {name for name in names if name not in sys.stdlib_module_names}
    if not wanted:
        return {}
    holding = packages_distributions()
    found: dict[str, str] = {}
    for package in sorted({package for name in wanted for package in holding.get(name, ())}):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
