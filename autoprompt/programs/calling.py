"""How a row gets into a program, and an answer out of it: functions, Runnables, compiled graphs."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.records import Example, content_of


def import_program(address: str) -> object:
    """Return what `module:object` names; `module:object()` calls a factory.

    Raises ConfigError with the file and line of an import that fails.
    """
    module_name, _, path = address.partition(":")
    is_factory = path.endswith("()")
    path = path.removesuffix("()")
    if not module_name or not path:
        said = f"{address!r} is no address of a program"
        raise _import_problem(said, "Write `module:object`, such as `app.graph:graph`.")
    if module_name.endswith(".py"):
        meant = ".".join(Path(module_name).with_suffix("").parts)
        said = f"{module_name} is a file, expected the name of a module"
        raise _import_problem(said, f"Write `{meant}:{path}{'()' * is_factory}`.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        place = _last_place(error)
        said = f"importing {module_name} failed: {type(error).__name__}: {error}{place}"
        raise _import_problem(
            said, "Run from the project's folder, and install what the program needs."
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            names = sorted(n for n, v in vars(found).items() if not n.startswith("_") and callable(v))
            raise _import_problem(
                f"{module_name} has no {name!r}", f"It has: {', '.join(names[:12]) or 'nothing'}."
            )
        found = getattr(found, name)
    if is_factory:
        try:
            found = found()
        except Exception as error:
            said = f"{address} failed: {type(error).__name__}: {error}{_last_place(error)}"
            raise _import_problem(said, "") from error
    return found


def _import_problem(said: str, fix: str) -> ConfigError:
    return ConfigError(Problem("program.import", said, Place(setting="program"), fix))


def _last_place(error: BaseException) -> str:
    import traceback

    if isinstance(error, SyntaxError):  # its message has the file and the line
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    return f" ({theirs[-1].filename} line {theirs[-1].lineno})" if theirs else ""


@dataclass(frozen=True)
class Caller:
    """A program as a function of a row.

    run: takes the row's fields. parameters: names of fields that it takes; None: whatever the row has.
    """

    run: Callable[[Example], Any]
    parameters: tuple[str, ...] | None
    output: Callable[[Any], tuple[str, Any]]


def caller_of(program: Any, *, input_field: str, target_field: str) -> Caller:
    """Return how a program is called: by what it is.

    Raises ConfigError for what cannot be called.
    """
    if hasattr(program, "get_input_jsonschema") and (
        hasattr(program, "ainvoke") or hasattr(program, "invoke")
    ):
        return _runnable(program, input_field, target_field)
    if callable(program):
        return _function(program, input_field, target_field)
    said = f"the program is {type(program).__name__}, which cannot be called"
    raise _import_problem(said, "Give a function, a LangChain Runnable or a compiled LangGraph graph.")


def _function(function: Any, input_field: str, target_field: str) -> Caller:
    target = function if inspect.isroutine(function) or isinstance(function, type) else function.__call__
    signature = inspect.signature(target)
    kinds = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL,)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in kinds)
    names = [p.name for p in kinds if p.kind is not p.VAR_KEYWORD]
    needed = [p.name for p in kinds if p.kind is not p.VAR_KEYWORD and p.default is p.empty]
    if not signature.parameters:
        name = getattr(function, "__name__", type(function).__name__)
        said = f"{name} takes no argument, so a row cannot be given to it"
        raise _import_problem(said, f"If it makes the program, add `()` to its address: `{name}()`.")
    is_async = inspect.iscoroutinefunction(target)

    def run(example: Example) -> Any:
        fields = _fields(example, input_field, target_field)
        if len(needed) == 1 and needed[0] not in fields:  # one parameter: the row's input, whatever its name
            given = {needed[0]: fields[input_field]}
        else:
            given = dict(fields) if takes_all else {name: fields[name] for name in names if name in fields}
        return _awaited(function(**given)) if is_async else function(**given)

    return Caller(run, tuple(needed) if len(needed) > 1 else None, lambda value: _text(value, target_field))


def _runnable(runnable: Any, input_field: str, target_field: str) -> Caller:
    names, is_text = _taken(runnable)

    def given(example: Example) -> Any:
        fields = _fields(example, input_field, target_field)
        if is_text:
            return fields[input_field]
        if "messages" in names and "messages" not in fields:
            return {"messages": [("user", str(fields[input_field]))]}
        return {name: fields[name] for name in names if name in fields} or fields

    def run(example: Example) -> Any:
        import uuid

        config = (
            {"configurable": {"thread_id": uuid.uuid4().hex}} if hasattr(runnable, "checkpointer") else {}
        )
        if _needs_async(runnable):
            return _awaited(runnable.ainvoke(given(example), config))
        return runnable.invoke(given(example), config)

    return Caller(run, None, lambda value: _text(value, target_field))


def _taken(runnable: Any) -> tuple[tuple[str, ...], bool]:
    """Names of the fields that a Runnable takes, and whether it takes a text instead."""
    builder = getattr(runnable, "builder", None)
    state = getattr(builder, "input_schema", None)
    if state is not None:  # the JSON schema of a `typing.TypedDict` needs Python 3.12
        return tuple(getattr(state, "model_fields", None) or getattr(state, "__annotations__", {})), False
    try:
        schema = runnable.get_input_jsonschema()
    except Exception:  # noqa: BLE001 - pydantic knows no schema for the types that it takes
        return (), False
    return tuple(schema.get("properties") or ()), schema.get("type") == "string"


def _needs_async(runnable: Any) -> bool:
    """Whether a node of a graph has only an async form."""
    nodes = getattr(runnable, "nodes", None) or {}
    for node in nodes.values() if isinstance(nodes, Mapping) else ():
        bound = getattr(node, "bound", None)
        if getattr(bound, "afunc", None) is not None and getattr(bound, "func", None) is None:
            return True
    return False


def _fields(example: Example, input_field: str, target_field: str) -> dict[str, Any]:
    fields = {name: value for name, value in example.fields.items() if name != target_field}
    return {input_field: example.input, **fields}


def _text(value: Any, target_field: str) -> tuple[str, Any]:
    """An answer's text, and the answer itself if it is more than a text.

    Raises ConfigError for an answer of which it is not clear what is compared.
    """
    if isinstance(value, str):
        return value, None
    if hasattr(value, "model_dump") and not hasattr(value, "content"):
        value = value.model_dump(mode="json")
    if hasattr(value, "content"):
        return _content(value.content), None
    if isinstance(value, Mapping):
        if target_field in value:
            inner = value[target_field]
            if isinstance(inner, str):
                return inner, None
            return _text(inner, target_field) if hasattr(inner, "content") else (content_of(inner), inner)
        messages = value.get("messages")
        if isinstance(messages, list) and messages:
            return _text(messages[-1], target_field)
        keys = ", ".join(map(str, value))
        said = f"the program returned an object with the keys {keys}, and none is {target_field!r}"
        raise ConfigError(
            Problem(
                "program.output",
                said,
                fix="Name the key with {target_field}.",
                settings={"target_field": None},
            )
        )
    return content_of(value), value


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(p if isinstance(p, str) else p.get("text", "") for p in content)


# --- one event loop for all rows ---


class _Loop:
    """An event loop in a thread of its own: a client that is made at import works on one loop only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="autoprompt-loop", daemon=True).start()
            return self._loop


_loop = _Loop()


def _awaited(coroutine: Any) -> Any:
    """Run a coroutine on the loop of all rows, with this row's context, and wait for it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop.get())
    try:
        return future.result()
    except BaseException:
        with suppress(Exception):
            future.cancel()
        raise
