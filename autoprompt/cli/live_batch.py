"""The live view of a batch: all trials in a terminal, a line for each beginning and end elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.batch.table import Row, trials_in_words
from autoprompt.cli import clean, render
from autoprompt.cli.live import Line, LiveView, bar, warning_of
from autoprompt.errors import Problem, Voice, tell
from autoprompt.report.numbers import duration
from autoprompt.report.wording import PHASES
from autoprompt.runs.events import AnyEvent, BestChanged, NodeStarted, RowsEvaluated, read_event
from autoprompt.text.names import counted

_FRAME_LINES = 12  # of the panel besides its running trials


@dataclass(slots=True)
class _Trial:
    """A trial that runs."""

    since: float
    phase: str = "starting"
    iteration: int = 0
    done: int = 0
    total: int = 0
    best: float | None = None
    original: float | None = None

    def add(self, event: AnyEvent | None) -> None:
        match event:
            case NodeStarted():
                self.phase, self.iteration = event.node, event.iteration
                self.done = self.total = 0
            case RowsEvaluated():
                self.done, self.total = event.done, event.total
            case BestChanged():
                self.best, self.original = event.score, event.original_score


@dataclass
class BatchView(LiveView):
    """What is known of a batch that runs. to_run, ended, failed: trials of this go."""

    title = "autoprompt batch"
    line_every_s = 30.0

    to_run: int = 0
    ended: int = 0
    failed: int = 0
    running: dict[str, _Trial] = field(default_factory=dict)

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        match event["event"]:
            case "batch_started":
                yield from self._started(event)
            case "trial_started":
                self.running[event["trial"]] = _Trial(self.clock())
                yield Line(f"{event['trial']}: started", "lines")
            case "trial_event":
                yield from self._trial(event["trial"], event["what"])
            case "trial_lost":
                self.running.pop(event["trial"], None)
                yield warning_of(event["message"])
            case "trial_ended":
                yield self._ended(event["row"])
            case "batch_spent":
                self.spent = event
                if self.is_time(is_last=False):
                    yield Line(self._totals(), "lines")

    @property
    def seconds_left(self) -> float | None:
        """By the trials that ended so far."""
        return self.seconds / self.ended * (self.to_run - self.ended) if self.ended else None

    def _started(self, event: Mapping[str, Any]) -> Iterator[Line]:
        self.run_id, self.caps, self.to_run = event["name"], event["caps"], event["to_run"]
        self.started = self.clock()
        yield from map(warning_of, event["warnings"])
        rows = event["result"].rows
        done = sum(row.status == "finished" for row in rows)
        yield Line(
            f"batch {self.run_id}: {trials_in_words(len(rows))}, {done} finished already, "
            f"{self.to_run} to run; {event['run_dir']}",
            "lines",
        )

    def _trial(self, name: str, event: Mapping[str, Any]) -> Iterator[Line]:
        found = read_event(event)
        if isinstance(found, Problem):
            yield Line(f"{name}: warning: {tell(found, Voice.CLI)}", "always", "yellow")
        elif name in self.running:
            self.running[name].add(found)

    def _ended(self, row: Row) -> Line:
        self.running.pop(row.trial, None)
        self.ended += 1
        self.failed += row.status == "failed"
        how = f" ({row.how})" if row.how not in ("", "started") else ""
        if row.status != "finished":
            return Line(f"{row.trial}: {row.status}{how}: {row.error}")
        verdict = (row.verdict or "").replace("_", " ")
        scores = f"{render.score(row.original)} -> {render.score(row.best)}"
        return Line(f"{row.trial}: {verdict}{how}: {scores}, {counted(row.calls or 0, 'call')}")

    def _totals(self) -> str:
        running = len(self.running)
        return f"{self.spent_text} sent; {running} running, {self.ended} of {self.to_run} ended"

    def parts(self, height: int) -> Iterator[RenderableType]:
        failed = f", {self.failed} failed" if self.failed else ""
        left = self.seconds_left
        time_left = "" if left is None or self.ended == self.to_run else f"; about {duration(left)} left"
        label = f"{self.ended} of {trials_in_words(self.to_run)}{failed}{time_left}"
        yield bar(self.ended, self.to_run, label)
        yield Text(self._totals(), "dim")
        yield Text()
        room = max(1, height - _FRAME_LINES - len(self.lines))
        yield self._table(room)
        if len(self.running) > room:
            yield Text(f"... and {len(self.running) - room} more", "dim")

    def _table(self, room: int) -> Table:
        made = Table.grid(padding=(0, 2))
        made.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
        made.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
        for _ in range(3):
            made.add_column(no_wrap=True, justify="right")
        for name, trial in list(self.running.items())[:room]:
            step = PHASES.get(trial.phase, trial.phase)
            scores = f"{render.score(trial.original)} -> {render.score(trial.best)}"
            made.add_row(
                Text(clean(name)),
                Text(f"round {trial.iteration}: {step}" if trial.iteration else step, "dim"),
                Text(f"{trial.done}/{trial.total}" if trial.total else ""),
                Text("" if trial.best is None else scores),
                Text(duration(self.clock() - trial.since)),
            )
        return made
