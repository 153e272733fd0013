"""The public functions for a notebook or a web server: each runs in its own thread, and can be cancelled.

A cancelled task stops its run as Ctrl-C does: what is on its way is waited for, and the run can be resumed.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from autoprompt.errors import Interrupted
from autoprompt.evaluation.scoring import evaluate
from autoprompt.optimizer.api import check, optimize, resume

Given = ParamSpec("Given")
Found = TypeVar("Found")
_LOOK_EVERY_S = 0.1  # whether a thread that was interrupted has ended


def _awaitable(
    function: Callable[Given, Found], example: str
) -> Callable[Given, Coroutine[None, None, Found]]:
    """Return the async form of a function, with its signature. example: for its docstring."""

    @wraps(function)
    async def call(*values: Given.args, **named: Given.kwargs) -> Found:
        return await _in_thread(partial(function, *values, **named))

    name = function.__name__
    call.__name__ = call.__qualname__ = f"a{name}"
    call.__module__ = __name__
    call.__doc__ = f"""Do what `{name}` does, without blocking the event loop.

    Args:
        As in `{name}`. `on_event` is called in another thread. An async program runs on a loop of
        autoprompt's, not on yours.

    Returns:
        What `{name}` returns.

    Raises:
        AutopromptError: As `{name}`.
        CancelledError: If the task is cancelled. If the run can be resumed, its text says how.

    Examples:
{example}
    """
    return call


async def _in_thread(function: Callable[[], Found]) -> Found:
    """Run a function in a thread with this task's context. Cancelled, it gets what Ctrl-C gives a program."""
    loop, context = asyncio.get_running_loop(), copy_context()
    ended: asyncio.Future[Found] = loop.create_future()

    def tell(setting: Callable[..., None], outcome: object) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(lambda: None if ended.done() else setting(outcome))

    def work() -> None:
        try:
            outcome = context.run(function)
        except BaseException as error:  # noqa: BLE001 - raised again, where it is awaited
            stopped = Interrupted("interrupted") if isinstance(error, KeyboardInterrupt) else error
            tell(ended.set_exception, stopped)
        else:
            tell(ended.set_result, outcome)

    def serve() -> None:
        with suppress(KeyboardInterrupt):  # it may come when the work is done
            work()

    # A daemon: what is on the wire must not hold up the end of the interpreter.
    thread = threading.Thread(target=serve, name="autoprompt", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        _interrupt(thread)
        while thread.is_alive() and not ended.done():
            await asyncio.wait([ended], timeout=_LOOK_EVERY_S)
        if ended.done() and (error := ended.exception()) is not None:
            raise asyncio.CancelledError(str(error)) from error
        raise


def _interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, as the interpreter does in the main one."""
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
        )


aoptimize = _awaitable(
    optimize,
    """\
        >>> import asyncio
        >>> from autoprompt import Models, RunConfig, aoptimize
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> config = RunConfig(prompt="A or B?", max_calls=600)
        >>> asyncio.run(aoptimize(config, rows=rows, models=models)).verdict
        'not_confirmed'""",
)
aresume = _awaitable(
    resume,
    """\
        >>> import asyncio
        >>> from autoprompt import aresume
        >>> result = asyncio.run(aresume("last"))""",
)
aevaluate = _awaitable(
    evaluate,
    """\
        >>> import asyncio
        >>> from autoprompt import Models, RunConfig, aevaluate
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> asyncio.run(aevaluate(RunConfig(prompt="A or B?"), rows=rows, models=models)).score
        0.5""",
)
acheck = _awaitable(
    check,
    """\
        >>> import asyncio
        >>> from autoprompt import CheckConfig, Models, RunConfig, acheck
        >>> from autoprompt.llm import ScriptedClient
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> config = RunConfig(prompt="A or B?", dataset="items.jsonl")
        >>> limits = CheckConfig(baseline="new_baseline.json")
        >>> asyncio.run(acheck(config, limits, is_update=True, models=models)).score
        0.5""",
)
