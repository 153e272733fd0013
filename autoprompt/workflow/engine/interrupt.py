"""Ctrl-C while nodes are at work in LangGraph's threads, for which it waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from autoprompt.measure.rows import GRACE_S
from autoprompt.workflow.engine.context import RunContext

# The command line takes the others for Ctrl-C, too; not every system has all of them.
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def stoppable(run: RunContext) -> Iterator[None]:
    """Inside, no node begins once Ctrl-C was pressed, and what is on the wire has `GRACE_S` to come in.

    LangGraph hands an interrupt on when the nodes at work have ended, and an iteration over a thousand items
    is one node: it went on to its last request. In another thread than the main one, and where somebody else
    has taken the signal, nothing is changed.
    """
    taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.default_int_handler]
    if threading.current_thread() is not threading.main_thread() or not taken:
        yield
        return
    hanging_up: list[threading.Timer] = []

    def stop(number: int, frame: FrameType | None) -> None:
        run.stopping.set()
        if not hanging_up:
            hanging_up.append(threading.Timer(GRACE_S, run.models.close))
            hanging_up[0].daemon = True
            hanging_up[0].start()
        signal.default_int_handler(number, frame)

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.default_int_handler)
        for timer in hanging_up:
            timer.cancel()
