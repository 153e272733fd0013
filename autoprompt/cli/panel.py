"""Watching a run: a live panel in a terminal, lines elsewhere, nothing but warnings when quiet."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autoprompt.cli import clean
from autoprompt.cli.progress import PHASES, Progress
from autoprompt.errors import Problem, Voice, tell
from autoprompt.llm.endpoints import SENDS_TO
from autoprompt.records import OnEvent
from autoprompt.report.numbers import duration, megabytes, money
from autoprompt.text.names import counted

_LINE_EVERY_S = 20.0


@contextmanager
def watching(console: Console, *, quiet: bool) -> Iterator[tuple[Progress, OnEvent]]:
    """What to give to `on_event`, and the progress that it keeps. Events may come from several threads.

    quiet: what is known of the data beforehand is left to the result, which says it too.
    """
    progress = Progress()
    if quiet:
        yield progress, _emit(progress, Lines(progress, console, only=("warning",)).show)
    elif console.is_terminal and not console.is_dumb_terminal:
        view = _View(progress)
        with Live(view, console=console, refresh_per_second=4, transient=True):
            # Warnings must not scroll out of a panel that is gone in the end.
            lines = Lines(progress, console, only=("run_started", "warning", "best_changed"))
            yield progress, _emit(progress, lines.show)
    else:
        yield progress, _emit(progress, Lines(progress, console).show)


def _emit(progress: Progress, show: Callable[[Mapping[str, Any], str | None], None]) -> OnEvent:
    lock = threading.Lock()

    def emit(event: dict[str, Any]) -> None:
        with lock:
            show(event, progress.add(event))

    return emit


def warning_line(warning: Problem | Mapping[str, Any] | str) -> Text:
    """Return a warning, of an event or a result, as people see it.

    Files of the working folder are named from there, as they were given: a resumed run knows their whole
    paths only.
    """
    message = tell(warning if isinstance(warning, Problem) else Problem.from_dict(warning), Voice.CLI)
    here = Path.cwd()
    if here != Path(here.anchor):
        message = re.sub(rf"(?<![\w./-]){re.escape(str(here / '_')[:-1])}", "", message)
    return Text(clean(f"warning: {message}"), "yellow")


class Lines:
    """One line for each step. Rows and downloads are told at intervals, however fast they come."""

    def __init__(
        self,
        progress: Progress,
        console: Console,
        *,
        only: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._console, self._only, self._clock = progress, console, only, clock
        self._told_at = clock()

    def show(self, event: Mapping[str, Any], line: str | None) -> None:
        kind = event["event"]
        if self._only and kind not in (*self._only, SENDS_TO):
            return
        self._tell(kind, event, line)
        if kind == "run_started":
            for warning in event.get("warnings", ()):
                self._console.print(warning_line(warning))
                self._progress.shown.add(warning["message"])
        elif kind == "warning":
            self._progress.shown.add(event["message"])

    def _tell(self, kind: str, event: Mapping[str, Any], line: str | None) -> None:
        if line is None and kind == "node_started" and event["node"] in ("predict", "final_predict"):
            line = f"round {event['iteration']}: {PHASES[event['node']]}"
        elif line is None and kind == "rows_evaluated":
            line = self._rows()
        elif line is None and kind == "weights_progress":
            line = self._download()
        if line is not None:
            self._console.print(warning_line(event) if kind == "warning" else Text(clean(line)))

    def _rows(self) -> str | None:
        progress = self._progress
        if progress.done < progress.total and not self._is_time():
            return None
        self._told_at = self._clock()
        calls = _of(progress.spent.get("calls", 0), progress.budget.get("max_calls"), "call")
        done = f"{progress.done} of {counted(progress.total, 'row')}"
        return f"  {progress.what}: {done}; {calls}{_left(progress)}"

    def _download(self) -> str | None:
        done, total = self._progress.download or (0, 0)
        if done < total and not self._is_time():
            return None
        self._told_at = self._clock()
        share = f" ({done / total:.0%})" if total else ""
        return f"  {self._progress.what}: {megabytes(done)} of {megabytes(total)}{share}"

    def _is_time(self) -> bool:
        return self._clock() - self._told_at >= _LINE_EVERY_S


class _View:
    """Renders the panel anew each time that it is asked."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The last columns stay free: a `^C` that the terminal echoes there would wrap and leave half a panel.
        yield panel(self._progress, width=options.max_width - 3)


def panel(progress: Progress, *, width: int | None = None) -> RenderableType:
    """The live panel, at any width from about 60 columns."""
    numbers = Table.grid(padding=(0, 2))
    numbers.add_column(style="dim", no_wrap=True)
    numbers.add_column()
    numbers.add_row("step", Text(_step(progress)))
    numbers.add_row("", _bar(progress))
    numbers.add_row("validation", _scores(progress))
    numbers.add_row("candidates", Text(f"{progress.tried} measured, {progress.accepted} accepted"))
    numbers.add_row("spent", Text(_spent(progress)))
    numbers.add_row("time", Text(f"{duration(progress.seconds)}{_left(progress)}"))
    parts: list[RenderableType] = [numbers]
    if progress.recent:
        parts.append(Text())
        parts += [
            Text(clean(line).replace("\n", " "), "dim", no_wrap=True, overflow="ellipsis")
            for line in progress.recent
        ]
    title = Text(clean(f"autoprompt {progress.run_id}".rstrip()))
    subtitle = Text(clean(progress.model))
    return Panel(
        Group(*parts), title=title, subtitle=subtitle, title_align="left", subtitle_align="right", width=width
    )


def _step(progress: Progress) -> str:
    if progress.download is not None:
        return clean(progress.what)
    phase = PHASES.get(progress.phase, progress.phase)
    cap = f" of at most {progress.max_iterations}" if progress.max_iterations else ""
    return f"round {progress.iteration}{cap}: {phase}" if progress.iteration else phase


def _bar(progress: Progress) -> RenderableType:
    done, total = progress.download or (progress.done, progress.total)
    if not total:
        return Text("waiting for the model", "dim")
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=30)
    grid.add_column(no_wrap=True)
    label = f"{megabytes(done)} of {megabytes(total)}"
    if progress.download is None:
        rate = progress.remaining.rows_per_second
        label = (
            f"{done}/{counted(total, 'row')}"
            + (f", {rate:.1f}/s" if rate else "")
            + f"  {clean(progress.what)}"
        )
    grid.add_row(ProgressBar(total=total, completed=done, width=30), Text(label))
    return grid


def _scores(progress: Progress) -> Text:
    if progress.best is None or progress.original is None:
        return Text("not measured yet", "dim")
    gain = progress.best - progress.original
    style = "green" if gain > 0 else ""
    return Text.assemble(
        (f"{progress.best:.3f}", style), f" best, {progress.original:.3f} original ({gain:+.3f})"
    )


def _spent(progress: Progress) -> str:
    spent, caps = progress.spent, progress.budget
    calls = _of(spent.get("calls", 0), caps.get("max_calls"), "call")
    tokens = _of(spent.get("tokens", 0), caps.get("max_tokens"), "token")
    cost = money(spent.get("cost_usd", 0.0))
    cap = caps.get("max_cost")
    return f"{calls}, {tokens}, {cost}" + (f" of {money(cap)}" if cap else "")


def _of(count: int, cap: int | None, what: str) -> str:
    return counted(count, what) if cap is None else f"{count:,} of {counted(cap, what)}"


def _left(progress: Progress) -> str:
    parts = []
    if (step := progress.remaining.step_seconds) is not None and progress.done < progress.total:
        parts.append(f"{duration(step)} left in this step")
    if (left := progress.seconds_left) is not None:
        parts.append(f"about {duration(left)} to the end")
    return f"; {', '.join(parts)}" if parts else ""
