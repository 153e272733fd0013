"""The public functions for a notebook or a web server: each runs in its own thread, and can be cancelled.

A cancelled task stops its run as Ctrl-C does: what is on its way is waited for, and the run can be resumed.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from autoprompt.dataset.python_rows import Rows
from autoprompt.errors import Interrupted
from autoprompt.evaluation.scoring import EvaluationReport, evaluate
from autoprompt.llm.adapter import Models
from autoprompt.optimizer.api import check, optimize, resume
from autoprompt.records import Candidate, OnEvent
from autoprompt.settings.records import CheckConfig, RunConfig

if TYPE_CHECKING:
    from autoprompt.evaluation.exported import Exported
    from autoprompt.gate import CheckReport
    from autoprompt.optimizer.result import RunResult
    from autoprompt.science import Investigation

Found = TypeVar("Found")
_LOOK_EVERY_S = 0.1  # whether a thread that was interrupted has ended


async def aoptimize(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    program: object | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Search as `optimize` does, without blocking the event loop.

    Args:
        config: As in `optimize`, like all that follow.
        rows: As there.
        program: As there. If it is async, it runs on a loop of autoprompt's, not on yours.
        models: As there.
        on_event: As there. It is called in another thread.

    Raises:
        AutopromptError: As `optimize`.
        CancelledError: If the task is cancelled. Its text says how to resume the run.

    Example:
        >>> import asyncio
        >>> from autoprompt import Models, RunConfig, aoptimize
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> config = RunConfig(prompt="A or B?", max_calls=600)
        >>> asyncio.run(aoptimize(config, rows=rows, models=models)).verdict
        'not_confirmed'
    """
    return await _in_thread(
        partial(optimize, config, rows=rows, program=program, models=models, on_event=on_event)
    )


async def aresume(
    run: str | Path,
    *,
    runs_dir: Path = Path("runs"),
    program: object | None = None,
    program_changed_ok: bool = False,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> RunResult | Investigation:
    """Resume as `resume` does, without blocking the event loop.

    Args:
        run: As in `resume`, like all that follow.
        runs_dir: As there.
        program: As there.
        program_changed_ok: As there.
        models: As there.
        on_event: As there. It is called in another thread.

    Raises:
        AutopromptError: As `resume`.
        CancelledError: If the task is cancelled. The run can be resumed again.

    Example:
        >>> import asyncio
        >>> from autoprompt import aresume
        >>> result = asyncio.run(aresume("last"))
    """
    found = partial(
        resume,
        run,
        runs_dir=runs_dir,
        program=program,
        program_changed_ok=program_changed_ok,
        models=models,
        on_event=on_event,
    )
    return await _in_thread(found)


async def aevaluate(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    candidate: Candidate | Exported | str | None = None,
    against: Candidate | Exported | str | None = None,
    program: object | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> EvaluationReport:
    """Score as `evaluate` does, without blocking the event loop.

    Args:
        config: As in `evaluate`, like all that follow.
        rows: As there.
        candidate: As there.
        against: As there.
        program: As there.
        models: As there.
        on_event: As there. It is called in another thread.

    Raises:
        AutopromptError: As `evaluate`.
        CancelledError: If the task is cancelled.

    Example:
        >>> import asyncio
        >>> from autoprompt import Models, RunConfig, aevaluate
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> asyncio.run(aevaluate(RunConfig(prompt="A or B?"), rows=rows, models=models)).score
        0.5
    """
    found = partial(
        evaluate,
        config,
        rows=rows,
        candidate=candidate,
        against=against,
        program=program,
        models=models,
        on_event=on_event,
    )
    return await _in_thread(found)


async def acheck(
    config: RunConfig,
    limits: CheckConfig,
    *,
    is_update: bool = False,
    program: object | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> CheckReport:
    """Compare with a baseline as `check` does, without blocking the event loop.

    Args:
        config: As in `check`, like all that follow.
        limits: As there.
        is_update: As there.
        program: As there.
        models: As there.
        on_event: As there. It is called in another thread.

    Raises:
        AutopromptError: As `check`.
        CancelledError: If the task is cancelled.

    Example:
        >>> import asyncio
        >>> from autoprompt import CheckConfig, Models, RunConfig, acheck
        >>> from autoprompt.llm import ScriptedClient
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> config = RunConfig(prompt="A or B?", dataset="items.jsonl")
        >>> limits = CheckConfig(baseline="new_baseline.json")
        >>> asyncio.run(acheck(config, limits, is_update=True, models=models)).score
        0.5
    """
    found = partial(
        check, config, limits, is_update=is_update, program=program, models=models, on_event=on_event
    )
    return await _in_thread(found)


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
