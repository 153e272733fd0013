"""Waiting for what another thread or process does, and ending what takes too long: never for ever."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def wait_until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    """Looks often. An AssertionError where it is not so by then."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not so after {seconds:g} s"
        time.sleep(0.01)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails what computes for longer, a search by a pattern included: for time that grows with a square.

    seconds: of the processor, so that a busy machine fails nothing.
    """

    def end(*_: Any) -> None:
        raise AssertionError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
