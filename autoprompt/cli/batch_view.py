"""Watching a batch: all trials live in a terminal, a line for each beginning and end elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autoprompt.batch.table import Row, trials_in_words
from autoprompt.cli import clean, render
from autoprompt.cli.progress import PHASES
from autoprompt.errors import Problem, Voice, tell
from autoprompt.llm.endpoints import SENDS_TO, sentences
from autoprompt.records import OnEvent
from autoprompt.report.numbers import duration, money
from autoprompt.text.names import counted

_RECENT = 6
_FRAME_LINES = 12  # of the panel besides its running trials
_LINE_EVERY_S = 30.0


@dataclass(slots=True)
class _Live:
    """A trial that runs."""

    phase: str = "starting"
    iteration: int = 0
    done: int = 0
    total: int = 0
    best: float | None = None
    original: float | None = None
    since: float = field(default_factory=time.monotonic)

    def add(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "node_started":
                self.phase, self.iteration = event["node"], event["iteration"]
                self.done = self.total = 0
            case "rows_evaluated":
                self.done, self.total = event["done"], event["total"]
            case "best_changed":
                self.best, self.original = event["score"], event["original_score"]


@dataclass(slots=True)
class BatchProgress:
    """What is known of a batch that runs. to_run, ended, failed: trials of this go."""

    clock: Callable[[], float] = time.monotonic
    name: str = ""
    caps: Mapping[str, Any] = field(default_factory=dict)
    spent: Mapping[str, Any] = field(default_factory=dict)
    to_run: int = 0
    ended: int = 0
    failed: int = 0
    sent_to: list[Mapping[str, Any]] = field(default_factory=list)
    running: dict[str, _Live] = field(default_factory=dict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_RECENT))
    started: float = 0.0

    def add(self, event: Mapping[str, Any]) -> str | None:
        """Take in one event; the line that tells of it, None where it needs none."""
        match event["event"]:
            case kind if kind == SENDS_TO:
                self.sent_to = event["to"]
                return "\n".join(sentences(event))
            case "batch_started":
                return self._started(event)
            case "trial_started":
                self.running[event["trial"]] = _Live(since=self.clock())
                return f"{event['trial']}: started"
            case "trial_event":
                return self._trial(event["trial"], event["what"])
            case "trial_lost":
                self.running.pop(event["trial"], None)
                return f"warning: {event['message']}"
            case "trial_ended":
                return self._ended(event["row"])
            case "batch_spent":
                self.spent = event
        return None

    @property
    def seconds_left(self) -> float | None:
        """By the trials that ended so far."""
        if not self.ended:
            return None
        return (self.clock() - self.started) / self.ended * (self.to_run - self.ended)

    def _started(self, event: Mapping[str, Any]) -> str:
        self.name, self.caps, self.to_run = event["name"], event["caps"], event["to_run"]
        self.started = self.clock()
        rows = event["result"].rows
        done = sum(row.status == "finished" for row in rows)
        return (
            f"batch {self.name}: {trials_in_words(len(rows))}, {done} finished already, "
            f"{self.to_run} to run; {event['run_dir']}"
        )

    def _trial(self, name: str, event: Mapping[str, Any]) -> str | None:
        if name in self.running:
            self.running[name].add(event)
        if event["event"] == "warning":
            return f"{name}: warning: {tell(Problem.from_dict(event), Voice.CLI)}"
        return None

    def _ended(self, row: Row) -> str:
        self.running.pop(row.trial, None)
        self.ended += 1
        self.failed += row.status == "failed"
        line = f"{row.trial}: {_told(row)}"
        self.recent.append(line)
        return line


def _told(row: Row) -> str:
    how = f" ({row.how})" if row.how not in ("", "started") else ""
    if row.status != "finished":
        return f"{row.status}{how}: {row.error}"
    verdict = (row.verdict or "").replace("_", " ")
    scores = f"{render.score(row.original)} -> {render.score(row.best)}"
    return f"{verdict}{how}: {scores}, {counted(row.calls or 0, 'call')}"


@contextmanager
def watching(console: Console, *, quiet: bool) -> Iterator[tuple[BatchProgress, OnEvent]]:
    """What is known of the batch, and what to give to `on_event`. Events may come from several threads."""
    progress = BatchProgress()
    if quiet or not console.is_terminal or console.is_dumb_terminal:
        yield progress, _lines(progress, console, quiet=quiet)
        return
    with Live(_View(progress), console=console, refresh_per_second=4, transient=True):
        yield progress, _lines(progress, console, quiet=True)


def _lines(progress: BatchProgress, console: Console, *, quiet: bool) -> OnEvent:
    lock = threading.Lock()
    told_at = progress.clock()

    def emit(event: dict[str, Any]) -> None:
        nonlocal told_at
        with lock:
            line = progress.add(event)
            if event["event"] == "batch_started":
                for warning in event["warnings"]:
                    console.print(Text(clean(f"warning: {warning}"), "yellow"))
            if line is None and event["event"] == "batch_spent" and not quiet:
                now = progress.clock()
                if now - told_at >= _LINE_EVERY_S:
                    line = _spent(progress)
            if line is None:
                return
            told_at = progress.clock()
            is_warning = "warning: " in line
            if is_warning or not quiet or event["event"] == SENDS_TO:
                console.print(Text(clean(line), "yellow" if is_warning else ""))

    return emit


class _View:
    """Renders the panel anew each time that it is asked."""

    def __init__(self, progress: BatchProgress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The last columns stay free for what the terminal echoes of a Ctrl-C.
        yield panel(self._progress, width=options.max_width - 3, height=console.height)


def panel(progress: BatchProgress, *, width: int | None = None, height: int = 40) -> RenderableType:
    """The live view, at any width from about 60 columns; at most `height` lines."""
    ended = progress.ended
    head = Table.grid(padding=(0, 1))
    head.add_column(width=30)
    head.add_column(no_wrap=True)
    left = progress.seconds_left
    time_left = "" if left is None or ended == progress.to_run else f"; about {duration(left)} left"
    bar = ProgressBar(total=max(1, progress.to_run), completed=ended, width=30)
    head.add_row(bar, Text(f"{ended} of {trials_in_words(progress.to_run)}{_failed(progress)}{time_left}"))
    parts: list[RenderableType] = [head, Text(_spent(progress), "dim"), Text()]
    room = max(1, height - _FRAME_LINES - len(progress.recent))
    parts.append(_running_table(progress, room))
    if len(progress.running) > room:
        parts.append(Text(f"... and {len(progress.running) - room} more", "dim"))
    if progress.recent:
        parts.append(Text())
        parts += [
            Text(clean(line).replace("\n", " "), "dim", no_wrap=True, overflow="ellipsis")
            for line in progress.recent
        ]
    title = Text(clean(f"autoprompt batch {progress.name}".rstrip()))
    return Panel(Group(*parts), title=title, title_align="left", width=width)


def _failed(progress: BatchProgress) -> str:
    return f", {progress.failed} failed" if progress.failed else ""


def _running_table(progress: BatchProgress, room: int) -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
    made.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
    for _ in range(3):
        made.add_column(no_wrap=True, justify="right")
    for name, live in list(progress.running.items())[:room]:
        step = PHASES.get(live.phase, live.phase)
        made.add_row(
            Text(clean(name)),
            Text(f"round {live.iteration}: {step}" if live.iteration else step, "dim"),
            Text(f"{live.done}/{live.total}" if live.total else ""),
            Text("" if live.best is None else f"{render.score(live.original)} -> {render.score(live.best)}"),
            Text(duration(progress.clock() - live.since)),
        )
    return made


def _spent(progress: BatchProgress) -> str:
    spent, caps = progress.spent, progress.caps
    parts = [
        _of(f"{spent.get('calls', 0):,}", caps.get("max_calls"), "{:,}") + " calls sent",
        _of(f"{spent.get('tokens', 0):,}", caps.get("max_tokens"), "{:,}") + " tokens",
        _of(money(spent.get("cost_usd", 0.0)), caps.get("max_cost"), "${:g}"),
    ]
    running = len(progress.running)
    return f"{', '.join(parts)}; {running} running, {progress.ended} of {progress.to_run} ended"


def _of(value: str, cap: float | None, form: str) -> str:
    return value if cap is None else f"{value} of {form.format(cap)}"
