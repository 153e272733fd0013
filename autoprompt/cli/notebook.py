"""Progress and warnings in the cell of a notebook: what `autoprompt run` shows in a terminal.

The panel is text with the colours of a terminal, which every notebook shows, light or dark, without a widget
or a network. `autoprompt` gives its functions this view if it is imported in IPython.
"""

from __future__ import annotations

import inspect
import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from rich.console import Console, RenderableType

from autoprompt.cli import render
from autoprompt.cli.live import LiveView, RunView, panel, printing, time_text, watching
from autoprompt.records import Event, OnEvent

_EVERY_S = 0.25
_WIDTH = 96


def with_progress(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a public function that shows its progress where it is called without `on_event`."""

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        if named.get("on_event") is not None:
            return function(*values, **named)
        with in_cell(_view_of(function)) as emit:
            return function(*values, **{**named, "on_event": emit})

    @wraps(function)
    async def call_async(*values: Any, **named: Any) -> Any:
        if named.get("on_event") is not None:
            return await function(*values, **named)
        with in_cell(_view_of(function)) as emit:
            return await function(*values, **{**named, "on_event": emit})

    return call_async if inspect.iscoroutinefunction(function) else call


def _view_of(function: Callable[..., Any]) -> LiveView:
    if function.__name__ == "investigate":
        from autoprompt.cli.science import ScienceView

        return ScienceView(is_python=True)
    if function.__name__ == "run_batch":
        from autoprompt.cli.batch import BatchView

        return BatchView(is_python=True)
    return RunView(is_python=True)


@contextmanager
def in_cell(view: LiveView) -> Iterator[OnEvent]:
    """Show a view while the block runs: in the cell of a notebook, or in the terminal of IPython."""
    from IPython import get_ipython

    if not hasattr(get_ipython(), "kernel"):
        with watching(render.console(stderr=True), view, quiet=False) as (_, emit):
            yield emit
        return
    cell = _Cell(view)
    yield cell.emit
    cell.end()


class _Cell:
    """The output of a cell: the panel, drawn anew a few times a second, and under it what must be kept."""

    def __init__(self, view: LiveView) -> None:
        from IPython.display import display

        self._view, self._lock, self._drawn = view, threading.Lock(), 0.0
        out = Console(file=sys.stdout, force_terminal=True, force_jupyter=False, soft_wrap=True, markup=False)
        self._print = printing(out, view, "panel")
        show: Any = display  # untyped in IPython, and unknown where that is not installed
        self._handle = show(self._data(), raw=True, display_id=True)

    def emit(self, event: Event) -> None:
        self._print(event)
        with self._lock:
            if time.monotonic() - self._drawn >= _EVERY_S:
                self._drawn = time.monotonic()
                self._handle.update(self._data(), raw=True)

    def end(self) -> None:
        """Replace the panel by a line: the result is the cell's own output."""
        view = self._view
        name = f"{view.title} {view.run_id}".rstrip()
        self._handle.update({"text/plain": f"{name}: {view.spent_text}, {time_text(view.seconds)}"}, raw=True)

    def _data(self) -> dict[str, str]:
        return {"text/plain": _drawn(panel(self._view, width=_WIDTH))}


def _drawn(part: RenderableType) -> str:
    """Return text with the colours of a terminal."""
    console = Console(
        file=io.StringIO(), force_terminal=True, force_jupyter=False, color_system="standard", width=_WIDTH
    )
    with console.capture() as captured:
        console.print(part)
    return captured.get().rstrip("\n")
