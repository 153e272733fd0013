"""Watching something at work, first of all an optimization: a live panel in a terminal, lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autoprompt.cli.output import clean, warning_text
from autoprompt.errors import Problem, Voice, tell
from autoprompt.llm.client import WeightsProgress
from autoprompt.llm.transport.address import SendsTo
from autoprompt.records import OnEvent
from autoprompt.report.numbers import duration, megabytes, money
from autoprompt.report.remaining import Remaining
from autoprompt.report.wording import PHASES, sentence
from autoprompt.runs.events import (
    AnyEvent,
    BestChanged,
    CandidateSettled,
    NodeStarted,
    RowsEvaluated,
    RunFinished,
    RunStarted,
    read_event,
)
from autoprompt.text.names import counted

_OF_MODELS = {kind.kind: kind for kind in (SendsTo, WeightsProgress)}  # of every kind of work
Place = Literal["always", "terminal", "panel", "lines"]
_PLACES: Mapping[str, tuple[Place, ...]] = {
    "quiet": ("always",),
    "panel": ("always", "terminal"),  # what must not scroll out of a panel that is gone in the end
    "lines": ("always", "terminal", "panel", "lines"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """What tells of an event.

    place: where it is shown: `always`, also when quiet; `terminal`, above a panel too; `panel`, in it;
        `lines`, where there is no terminal. Each of them is a line where there is no terminal.
    warning: the message of a warning, by which it is known again.
    """

    text: str
    place: Place = "panel"
    style: str = ""
    warning: str = ""


@dataclass
class LiveView:
    """What is known of something at work: feed it events with `add`. Subclasses say what events mean.

    is_python: warnings name settings as Python does, not flags.
    spent, caps: counters by the names of the budget's settings. lines: the newest ones, for the panel.
    """

    title: ClassVar[str] = "autoprompt"
    most_lines: ClassVar[int] = 6
    line_every_s: ClassVar[float] = 20.0

    clock: Callable[[], float] = time.monotonic
    is_python: bool = False
    run_id: str = ""
    run_dir: str = ""
    model: str = ""
    spent: Mapping[str, Any] = field(default_factory=dict)
    caps: Mapping[str, Any] = field(default_factory=dict)
    download: tuple[str, int, int] | None = None  # what, bytes that came, of how many
    sent_to: list[Mapping[str, Any]] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)  # messages of the warnings that people have seen
    lines: deque[Line] = field(default_factory=deque)
    started: float = 0.0
    line_at: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.line_at = self.clock()

    @property
    def seconds(self) -> float:
        """How long this process has watched."""
        return self.clock() - self.started

    def add(self, event: Mapping[str, Any]) -> list[Line]:
        """Take in one event; return the lines that tell of it."""
        match read_event(event, _OF_MODELS):
            case SendsTo() as found:
                # A run repeats it if a trial of a program came first.
                told = [Line(text, "always") for text in found.sentences if event["to"] != self.sent_to]
                self.sent_to = event["to"]
            case WeightsProgress() as found:
                self.download = found.what, found.done_bytes, found.total_bytes
                told = [*self._download_line()]
            case _:
                told = list(self.tell(event))
        if self.is_python:
            told = [replace(line, text=f"warning: {line.warning}") if line.warning else line for line in told]
        self.lines += (line for line in told if line.place != "lines")
        while len(self.lines) > self.most_lines:
            self.lines.popleft()
        return told

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        """Take in an event of this kind of work; yield the lines that tell of it."""
        raise NotImplementedError

    def parts(self, height: int) -> Iterator[RenderableType]:
        """Yield what the panel shows above the newest lines. height: of the terminal."""
        raise NotImplementedError

    def is_time(self, *, is_last: bool) -> bool:
        """Return whether a line of progress is due.

        One is due at the end, and at intervals, however fast events come.
        """
        if not is_last and self.clock() - self.line_at < self.line_every_s:
            return False
        self.line_at = self.clock()
        return True

    def _download_line(self) -> Iterator[Line]:
        what, done, total = self.download or ("", 0, 0)
        if self.is_time(is_last=done >= total):
            share = f" ({done / total:.0%})" if total else ""
            yield Line(f"  {what}: {megabytes(done)} of {megabytes(total)}{share}", "lines")

    @property
    def spent_text(self) -> str:
        """`15 of 100 calls, 150 tokens, $0.0120 of $0.50`."""
        calls = of_cap(self.spent.get("calls", 0), self.caps.get("max_calls"), "call")
        tokens = of_cap(self.spent.get("tokens", 0), self.caps.get("max_tokens"), "token")
        cap, cost_usd = self.caps.get("max_cost"), self.spent.get("cost_usd", 0.0)
        cost = "cost unknown" if cost_usd is None else money(cost_usd)
        cost += f" of {money(cap)}" if cap else ""
        return f"{calls}, {tokens}, {cost}"


View = TypeVar("View", bound=LiveView)


@contextmanager
def watching(console: Console, view: View, *, quiet: bool) -> Iterator[tuple[View, OnEvent]]:
    """Give the view, and what to hand to `on_event`. Events may come from several threads."""
    if quiet:
        yield view, printing(console, view, "quiet")
    elif console.is_terminal and not console.is_dumb_terminal:
        with Live(_Frame(view), console=console, refresh_per_second=4, transient=True):
            yield view, printing(console, view, "panel")
    else:
        yield view, printing(console, view, "lines")


def printing(console: Console, view: LiveView, mode: str) -> OnEvent:
    """Return what takes events into a view and prints the lines for a mode: a key of _PLACES."""
    lock = threading.Lock()

    def emit(event: dict[str, Any]) -> None:
        with lock:
            for line in view.add(event):
                if line.place in _PLACES[mode]:
                    console.print(Text(clean(line.text), line.style))
                    view.shown |= {line.warning} - {""}

    return emit


@dataclass
class _Frame:
    """Renders the panel anew each time that it is asked."""

    view: LiveView

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The last columns stay free: a `^C` that the terminal echoes there would wrap and leave half a panel.
        yield panel(self.view, width=options.max_width - 3, height=console.height)


def panel(view: LiveView, *, width: int | None = None, height: int = 40) -> RenderableType:
    """Return the live panel, at any width from about 60 columns."""
    parts = list(view.parts(height))
    if view.lines:
        parts.append(Text())
        parts += [
            Text(clean(line.text).replace("\n", " "), line.style or "dim", no_wrap=True, overflow="ellipsis")
            for line in view.lines
        ]
    return Panel(
        Group(*parts),
        title=Text(clean(f"{view.title} {view.run_id}".rstrip())),
        subtitle=Text(clean(view.model)),
        title_align="left",
        subtitle_align="right",
        width=width,
    )


def bar(done: int, total: int, label: str) -> RenderableType:
    """Return a bar with its label beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=30)
    grid.add_column(no_wrap=True)
    grid.add_row(ProgressBar(total=max(1, total), completed=done, width=30), Text(clean(label)))
    return grid


def of_cap(count: int, cap: int | None, what: str) -> str:
    """`15 of 100 calls`; `15 calls` without a cap."""
    return counted(count, what) if cap is None else f"{count:,} of {counted(cap, what)}"


def time_text(seconds: float, *left: str) -> str:
    """`0:08; 0:08 left in this step`."""
    rest = ", ".join(filter(None, left))
    return f"{duration(seconds)}{f'; {rest}' if rest else ''}"


def warning_of(warning: Problem | Mapping[str, Any] | str, place: Place = "always") -> Line:
    """Return the line of a warning of an event or a result."""
    problem = warning if isinstance(warning, Problem) else Problem.from_dict(warning)
    return Line(warning_text(problem), place, "yellow", tell(problem, Voice.PYTHON))


@dataclass
class RunView(LiveView):
    """What is known of a running optimization.

    best, original: validation scores on the same rows, in [0, 1]; None until there is one.
    what, done, total: the rows that are being asked.
    """

    max_iterations: int = 0
    iteration: int = 0
    phase: str = "starting"
    what: str = ""
    done: int = 0
    total: int = 0
    best: float | None = None
    original: float | None = None
    tried: int = 0
    accepted: int = 0
    remaining: Remaining = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.remaining = Remaining(self.clock)

    @property
    def seconds_left(self) -> float | None:
        """About how long until the run ends."""
        return self.remaining.seconds_left(self.seconds)

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        found = read_event(event)
        if isinstance(found, Problem):
            yield warning_of(found)
        elif found is not None:
            self._note(found)
            yield from self._lines(found)

    def _note(self, event: AnyEvent) -> None:
        """Keep what an event says."""
        self.remaining.note(event)
        match event:
            case RunStarted():
                self.run_id, self.run_dir, self.model = event.run_id, event.run_dir, event.model
                self.max_iterations, self.caps = event.max_iterations, event.budget
            case NodeStarted():
                self.phase, self.iteration = event.node, event.iteration
                self.what, self.done, self.total, self.download = "", 0, 0, None
            case RowsEvaluated():
                self.what, self.done, self.total = event.what, event.done, event.total
                self.spent, self.download = event.spent, None
            case CandidateSettled():
                self.tried += 1
                self.accepted += event.accepted
            case BestChanged():
                self.best, self.original = event.score, event.original_score

    def _lines(self, event: AnyEvent) -> Iterator[Line]:
        match event:
            case RunStarted():
                yield Line(sentence(event), "terminal")
                yield from map(warning_of, event.warnings)
            case NodeStarted() if event.node in ("predict", "final_predict"):
                yield Line(f"round {event.iteration}: {PHASES[event.node]}", "lines")
            case RowsEvaluated() if self.is_time(is_last=not 0 < self.done < self.total):
                calls = of_cap(self.spent.get("calls", 0), self.caps.get("max_calls"), "call")
                said = f"{self.what}: {self.done} of {counted(self.total, 'row')}; {calls}"
                yield Line("; ".join(filter(None, [f"  {said}", ", ".join(self._left())])), "lines")
            case NodeStarted() | RowsEvaluated() | RunFinished():  # what ended is shown in full
                return
            case _ if text := sentence(event):
                yield Line(text, "terminal" if isinstance(event, BestChanged) else "panel")

    def parts(self, height: int) -> Iterator[RenderableType]:
        del height  # it is always short
        numbers = Table.grid(padding=(0, 2))
        numbers.add_column(style="dim", no_wrap=True)
        numbers.add_column()
        numbers.add_row("step", Text(self._step()))
        numbers.add_row("", self._bar())
        numbers.add_row("validation", self._scores())
        numbers.add_row("candidates", Text(f"{self.tried} measured, {self.accepted} accepted"))
        numbers.add_row("spent", Text(self.spent_text))
        numbers.add_row("time", Text(time_text(self.seconds, *self._left())))
        yield numbers

    def _step(self) -> str:
        if self.download is not None:
            return clean(self.download[0])
        phase = PHASES.get(self.phase, self.phase)
        cap = f" of at most {self.max_iterations}" if self.max_iterations else ""
        return f"round {self.iteration}{cap}: {phase}" if self.iteration else phase

    def _bar(self) -> RenderableType:
        if self.download is not None:
            _, done, total = self.download
            return bar(done, total, f"{megabytes(done)} of {megabytes(total)}")
        if not self.total:
            return Text("waiting for the model", "dim")
        rate = self.remaining.rows_per_second
        pace = f", {rate:.1f}/s" if rate else ""
        return bar(self.done, self.total, f"{self.done}/{counted(self.total, 'row')}{pace}  {self.what}")

    def _scores(self) -> Text:
        if self.best is None or self.original is None:
            return Text("not measured yet", "dim")
        gain = self.best - self.original
        style = "green" if gain > 0 else ""
        said = f" best, {self.original:.3f} original ({gain:+.3f})"
        return Text.assemble((f"{self.best:.3f}", style), said)

    def _left(self) -> Iterator[str]:
        if (step := self.remaining.step_seconds) is not None and self.done < self.total:
            yield f"{duration(step)} left in this step"
        if (left := self.seconds_left) is not None:
            yield f"about {duration(left)} to the end"
