"""How a row gets into a program: functions, Runnables, compiled graphs."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.llm import portal
from autoprompt.programs.places import place_of_error
from autoprompt.programs.program import LOOP, Program, as_program
from autoprompt.records import Example, content_of

_MOST_NAMED = 12
# What parts of LangChain are, by the module of their class.
_PARTS = {
    "langchain_core.language_models.": "a model",
    "langchain_core.prompts.": "a prompt template",
    "langchain_core.output_parsers.": "an output parser",
}
# How SDKs name the variable of a key that they lack, and what those say that name none.
_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN|SECRET|CREDENTIALS)\b")
_NO_KEY = re.compile(r"(?i)credentials|api[_ ]key|authentication method")


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
        raise _import_failed(f"importing {module_name} failed", error) from error
    for name in path.split("."):
        if not hasattr(found, name):
            names = _programs_in(found)
            close = get_close_matches(name, names)
            has = ", ".join([*close, *(other for other in names if other not in close)][:_MOST_NAMED])
            said = f"{module_name} has no {name!r}"
            raise _import_problem(said, f"It has: {has}." if has else "It has nothing that can be a program.")
        found = getattr(found, name)
    if is_factory:
        try:
            found = found()
        except Exception as error:
            raise _import_failed(f"{address} failed", error) from error
    return found


def _import_problem(said: str, fix: str) -> ConfigError:
    return ConfigError(Problem("program.import", said, Place(setting="program"), fix))


def _import_failed(said: str, error: Exception) -> ConfigError:
    place = place_of_error(error)
    place = place if place.file is not None else Place(setting="program")
    if isinstance(error, SyntaxError):  # its text repeats the place, without the folder
        return ConfigError(Problem("program.import", f"{said}: {type(error).__name__}: {error.msg}", place))
    fix = key_advice(error)
    if not fix and isinstance(error, ImportError):
        fix = "Run from the project's folder, and install what the program needs."
    return ConfigError(Problem("program.import", f"{said}: {type(error).__name__}: {error}", place, fix))


def key_advice(error: Exception) -> str:
    """Return what to do about an error of a client that has no key; "" for any other error."""
    said = str(error)
    missing = [name for name in dict.fromkeys(_KEY_VARIABLE.findall(said)) if not os.environ.get(name)]
    if not missing and not _NO_KEY.search(said):
        return ""
    name = missing[0] if missing else "the variable that its client reads"
    return f"Set {name}: the program reads its own keys, and gets none from autoprompt's settings."


def _programs_in(module: object) -> list[str]:
    """Return the names of what can be a program in a module, apart from what it imports to make one."""
    found = vars(module).items()
    return sorted(
        name for name, value in found if not name.startswith("_") and _can_be_program(value, module)
    )


def _can_be_program(value: object, module: object) -> bool:
    if inspect.isclass(value) or _part_of_program(value):
        return False
    if inspect.isroutine(value):
        return getattr(value, "__module__", None) == getattr(module, "__name__", None)
    return isinstance(value, Program) or _is_runnable(value) or callable(value)


def _part_of_program(value: object) -> str:
    """Return what an object of LangChain is that makes no program alone; "" for any other object."""
    while type(value).__module__.startswith("langchain_core.") and hasattr(value, "bound"):
        value = value.bound  # a model with options or tools
    modules = [f"{kind.__module__}." for kind in type(value).__mro__]
    parts = (what for start, what in _PARTS.items() if any(module.startswith(start) for module in modules))
    return next(parts, "")


def _is_runnable(value: object) -> bool:
    return hasattr(value, "get_input_jsonschema") and (hasattr(value, "ainvoke") or hasattr(value, "invoke"))


@dataclass(frozen=True)
class Caller:
    """A program as a function of a row.

    inputs_of: what it is called with for a row. invoke: calls it. parameters: names of fields that it takes;
    None: whatever the row has.
    """

    program: Program
    inputs_of: Callable[[Example], Any]
    invoke: Callable[[Any], Any]
    parameters: tuple[str, ...] | None
    output: Callable[[Any], Answer]

    def run(self, example: Example) -> Any:
        """Return what the program returns for a row.

        Raises what the program raises, and TimeoutError for a row that takes too long.
        """
        self.program.start(_awaited)
        given, seconds = self.inputs_of(example), self.program.row_seconds
        try:
            return self.invoke(given) if seconds is None else _within(seconds, partial(self.invoke, given))
        except asyncio.CancelledError as error:  # nothing of ours cancels a row, and this would end the run
            raise CancelledError(*error.args) from error


def caller_of(given: Any, *, input_field: str, target_field: str, takes_objects: bool = False) -> Caller:
    """Return how a program is called: by what it is, and what its `Program` says.

    takes_objects: whether an object can be scored as a whole, as by a metric of JSON.

    Raises:
        ConfigError: For what cannot be called.
    """
    program = as_program(given)
    run = program.run
    if part := _part_of_program(run):
        said = f"the program is {part} ({type(run).__name__}) alone"
        raise _import_problem(said, "Give the function, the chain or the graph that it is a part of.")
    if _is_runnable(run):
        made, invoke, parameters = _runnable(run, input_field, target_field)
    elif callable(run):
        made, invoke, parameters = _function(run, input_field, target_field, inputs=program.inputs)
    else:
        said = f"the program is {type(run).__name__}, which cannot be called"
        raise _import_problem(said, "Give a function, a LangChain Runnable or a compiled LangGraph graph.")
    if (inputs := program.inputs) is not None:
        made = lambda example: inputs(_fields(example, input_field, target_field))  # noqa: E731
        parameters = None
    answer = partial(
        _answer_of, output=program.output, target_field=target_field, takes_objects=takes_objects
    )
    return Caller(program, made, invoke, parameters, answer)


_Parts = tuple[Callable[[Example], Any], Callable[[Any], Any], tuple[str, ...] | None]


def _function(function: Any, input_field: str, target_field: str, *, inputs: object) -> _Parts:
    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function)
    except ValueError as error:  # some that are built into Python have none
        said = f"{name} does not say which arguments it takes"
        raise _import_problem(said, "Give a function with a parameter for the input.") from error
    kinds = [p for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in kinds)
    names = [p.name for p in kinds if p.kind is not p.VAR_KEYWORD]
    needed = [p.name for p in kinds if p.kind is not p.VAR_KEYWORD and p.default is p.empty]
    if not signature.parameters:
        said = f"{name} takes no argument, so a row cannot be given to it"
        raise _import_problem(said, f"If it makes the program, add `()` to its address: `{name}()`.")
    positional = [p.name for p in kinds if p.kind is p.POSITIONAL_ONLY]

    def inputs_of(example: Example) -> Mapping[str, Any]:
        fields = _fields(example, input_field, target_field)
        if len(needed) == 1 and needed[0] not in fields:  # one parameter: the row's input, whatever its name
            return {needed[0]: fields[input_field]}
        return dict(fields) if takes_all else {name: fields[name] for name in names if name in fields}

    def invoke(arguments: Any) -> Any:
        if inputs is not None and not isinstance(arguments, Mapping):
            found = function(arguments)
        else:
            named = dict(arguments)
            found = function(*(named.pop(name) for name in positional if name in named), **named)
        return _awaited(found) if inspect.isawaitable(found) else found

    return inputs_of, invoke, tuple(needed) if len(needed) > 1 else None


def _runnable(runnable: Any, input_field: str, target_field: str) -> _Parts:
    names, is_text = _fields_taken(runnable)

    def inputs_of(example: Example) -> Any:
        fields = _fields(example, input_field, target_field)
        if is_text:
            return fields[input_field]
        if "messages" in names and "messages" not in fields:
            return {"messages": [("user", str(fields[input_field]))]}
        return {name: fields[name] for name in names if name in fields} or fields

    def invoke(value: Any) -> Any:
        import uuid

        config = (
            {"configurable": {"thread_id": uuid.uuid4().hex}} if hasattr(runnable, "checkpointer") else {}
        )
        if _needs_async(runnable):
            return _awaited(runnable.ainvoke(value, config))
        return runnable.invoke(value, config)

    return inputs_of, invoke, None


def _fields_taken(runnable: Any) -> tuple[tuple[str, ...], bool]:
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
    """Return whether a node of a graph has only an async form."""
    nodes = getattr(runnable, "nodes", None) or {}
    for node in nodes.values() if isinstance(nodes, Mapping) else ():
        bound = getattr(node, "bound", None)
        if getattr(bound, "afunc", None) is not None and getattr(bound, "func", None) is None:
            return True
    return False


def _fields(example: Example, input_field: str, target_field: str) -> dict[str, Any]:
    fields = {name: value for name, value in example.fields.items() if name != target_field}
    return {input_field: example.input, **fields}


def _within(seconds: float, invoke: Callable[[], Any]) -> Any:
    """Return what a call returns, in a thread of its own.

    The thread cannot be ended: its row is over, so its next call to a model ends it.

    Raises:
        TimeoutError: If it takes too long.
    """
    ended: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            ended.put((invoke(), None))
        except BaseException as error:  # noqa: BLE001 - raised again, in the row's thread
            ended.put((None, error))

    threading.Thread(target=copy_context().run, args=(work,), name="autoprompt-row", daemon=True).start()
    try:
        value, error = portal.next_item(ended, timeout_s=seconds)
    except Empty:
        raise TimeoutError(f"the row took more than {seconds:g} s") from None
    if error is not None:
        raise error
    return value


def _awaited(awaitable: Any) -> Any:
    """Wait for an awaitable on the loop of all rows, with this row's context."""

    async def waited() -> Any:
        return await awaitable

    coroutine = awaitable if inspect.iscoroutine(awaitable) else waited()
    future = asyncio.run_coroutine_threadsafe(coroutine, LOOP.get())
    ended: SimpleQueue[Future[Any]] = SimpleQueue()
    future.add_done_callback(ended.put)
    try:
        return portal.next_item(ended).result()
    except BaseException:
        with suppress(Exception):
            future.cancel()
        raise


# --- the answer in what a program returns: a text, a message, a graph's state, a record ---


class Answer(NamedTuple):
    """What a program answered.

    output: the answer, if it is more than a text. returned: all that the program returned, as JSON data, if
        that is more than the text.
    """

    text: str
    output: object = None
    returned: object = None


def _answer_of(
    value: Any, *, output: Callable[[Any], Any] | str | None, target_field: str, takes_objects: bool
) -> Answer:
    """Return an answer out of what a program returned.

    Raises:
        ConfigError: If there is none, or if it is not clear what is compared.
    """
    returned = _plain(value)
    if returned is None and output is None:
        said = "the program returned None, which is no answer"
        raise ConfigError(Problem("program.output", said, fix="Return the answer."))
    if output is None:
        text, found = _text(returned, target_field, takes_objects=takes_objects)
    else:
        text, found = _text(_picked(value, returned, output), target_field, takes_objects=True)
    return Answer(text, found, None if isinstance(returned, str) else returned)


def _picked(value: Any, returned: Any, output: Callable[[Any], Any] | str) -> Any:
    """Return what `Program.output` makes of a returned value. A text names its key."""
    if not isinstance(output, str):
        return _plain(output(value))
    if isinstance(returned, Mapping) and output in returned:
        return returned[output]
    keys = ", ".join(map(str, returned)) if isinstance(returned, Mapping) else type(value).__name__
    said = f"the program returned {keys}, and its output is {output!r}"
    raise ConfigError(Problem("program.output", said, fix="Name one of the keys as `output`."))


def _text(value: Any, target_field: str, *, takes_objects: bool) -> tuple[str, Any]:
    """Return the text that is compared, and its value if it is more than a text. value: as JSON data."""
    if isinstance(value, str):
        return value, None
    if isinstance(value, Mapping):
        if target_field in value:
            inner = value[target_field]
            if isinstance(inner, str):
                return inner, None
            return (_content(inner), None) if _is_message(inner) else (content_of(inner), inner)
        if _is_message(value):
            return _content(value), None
        messages = value.get("messages")
        if isinstance(messages, list) and messages and _is_message(messages[-1]):
            return _content(messages[-1]), None
        if takes_objects:
            return content_of(value), value
        keys = ", ".join(map(str, value))
        said = f"the program returned an object with the keys {keys}, and none is {target_field!r}"
        fix = (
            f"Return the answer under {target_field!r}, or name its key as the `output` of an "
            "`autoprompt.Program`. Or score the whole object, as with {metric}."
        )
        settings = {"metric": "json_match"}
        raise ConfigError(Problem("program.output", said, fix=fix, settings=settings))
    return content_of(value), value


def _plain(value: Any) -> Any:
    """Return a value of a program as JSON data: models and dataclasses as dicts, messages with their role."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "content") and hasattr(value, "type"):  # a message of LangChain's
        asked = getattr(value, "tool_calls", None) or ()
        calls = [{"name": call["name"], "arguments": call["args"]} for call in asked]
        return {"role": value.type, "content": _plain(value.content)} | (
            {"tool_calls": calls} if calls else {}
        )
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str) and "content" in value


def _content(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if not isinstance(content, list):
        return str(content)
    return "".join(p if isinstance(p, str) else p.get("text", "") for p in content)
