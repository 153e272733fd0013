"""Where a call of a program comes from: the graph's node, the function, the file and line."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from contextlib import suppress
from contextvars import Context, ContextVar
from pathlib import Path
from types import FrameType
from typing import Literal

from autoprompt.errors import Place

NOWHERE = Place()
_PACKAGE = str(Path(__file__).parents[1])
_TRANSPORT = str(Path(_PACKAGE) / "llm" / "transport")
_CALLING = str(Path(__file__).with_name("calling.py"))


def site_name() -> str:
    """Return the graph's node that is at work, subgraphs before it, else the function that made the call."""
    if node := _node():
        return node
    frame = _own_frame()
    if frame is None:
        return "program"
    # A comprehension is the work of its function, in which newer versions of Python run it.
    named = re.sub(r"(\.<locals>)?\.?<(?!locals)\w+>", "", frame.f_code.co_qualname)
    return named.rpartition("<locals>.")[2] or "program"


# Own code that started the thread or task at work, in which only a package's code may run: LangChain awaits
# its models in tasks of their own.
_started_at: ContextVar[Place] = ContextVar("autoprompt_started_at", default=NOWHERE)


def place_of_call() -> Place:
    """Return the file and line of the program's own code that is at work; an empty place if none is.

    In a thread or task of a package, those of the code that started it.
    """
    frame = _own_frame()
    return _started_at.get() if frame is None else Place(Path(frame.f_code.co_filename), frame.f_lineno)


def note_start(context: Context) -> None:
    """Note the code at work for a thread or task that starts in this context."""
    place = place_of_call()
    with suppress(RuntimeError):  # a context that is entered already is this one
        context.run(_started_at.set, place)


def place_of_error(error: BaseException) -> Place:
    """Return the file and line of the program's own code that an error comes from; an empty place if none is.

    Of a file that cannot be read as Python, the line of its fault.
    """
    if isinstance(error, SyntaxError) and error.filename and is_own(error.filename):
        return Place(Path(error.filename), error.lineno)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
    return Place(Path(own[-1].filename), own[-1].lineno) if own else Place()


def is_in_langchain() -> bool:
    """Return whether LangChain makes the call that is at work."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("langchain_core."):
            return True
        frame = frame.f_back
    return False


_LIBRARIES = ("requests", "urllib3", "urllib")


def library_of_call() -> str:
    """Return the library through which code sends a request on `http.client`."""
    names = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        names.add(frame.f_globals.get("__name__", "").partition(".")[0])
        frame = frame.f_back
    return next((name for name in _LIBRARIES if name in names), "http.client")


def caller_of_process() -> Literal["program", "package", ""]:
    """Return whose code starts the subprocess that is about to start; "" for a question about the machine.

    SDKs ask `platform` for the processor, which runs `uname`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_globals.get("__name__") == "platform":
            return ""
        if is_own(file):
            return "program"
        if "site-packages" in file:
            return "package"
        frame = frame.f_back
    return "package"


def place_of_code(function: object) -> Place:
    """Return where a function is defined; an empty place for what has no source."""
    plain = inspect.unwrap(function) if callable(function) else function
    code = getattr(getattr(plain, "__func__", plain), "__code__", None)
    return Place() if code is None else Place(Path(code.co_filename), code.co_firstlineno)


def place_of_tool(name: str) -> Place:
    """Return where the program's modules define a tool of this name; an empty place if none of them does."""
    for module in list(sys.modules.values()):
        if (file := getattr(module, "__file__", None)) and is_own(file):
            tool = vars(module).get(name)
            function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool
            if (place := place_of_code(function)).file is not None and is_own(str(place.file)):
                return place
    return Place()


def place_of_program(address: str, program: object) -> Place:
    """Return where a program is defined: its function, else the line of the module that names it.

    address: `module:object`, if it has one.
    """
    place = place_of_code(program if inspect.isroutine(program) else vars(type(program)).get("__call__"))
    if place.file is not None and "site-packages" not in str(place.file):
        return place
    module_name, _, name = address.removesuffix("()").partition(":")
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if file is None:
        return Place()
    line = next(
        (
            n
            for n, text in enumerate(Path(file).read_text("utf-8").splitlines(), 1)
            if re.match(rf"(?:async def |def |class )?{re.escape(name)}\b", text)
        ),
        None,
    )
    return Place(Path(file), line)


def is_ours() -> bool:
    """Return whether a request is one of our own transports'."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_TRANSPORT):
            return True
        frame = frame.f_back
    return False


def _node() -> str:
    if "langchain_core" not in sys.modules:
        return ""
    from langchain_core.runnables.config import var_child_runnable_config

    config = var_child_runnable_config.get()
    metadata = (config or {}).get("metadata") or {}
    place = metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns") or ""
    names = [part.partition(":")[0] for part in str(place).split("|") if part]
    node = metadata.get("langgraph_node")
    if not node:
        return ""
    return ".".join(names) if names and names[-1] == node else str(node)


def is_own(file: str) -> bool:
    """Return whether a file is neither ours, the standard library's nor an installed package's."""
    return not file.startswith((_PACKAGE, "<", sys.prefix, sys.base_prefix)) and "site-packages" not in file


def _own_frame() -> FrameType | None:
    """Return the innermost frame that is neither ours nor an installed package's.

    Not of who calls `optimize`: the trial runs in that thread, and rows run in others.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _CALLING:
        if is_own(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None
