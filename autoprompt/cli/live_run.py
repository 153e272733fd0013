"""The live view of an optimization, and of whatever else asks rows: an evaluation, a check, a download."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.cli.live import Line, LiveView, bar, of_cap, time_text, warning_of
from autoprompt.cli.output import clean
from autoprompt.cli.remaining import Remaining, Work
from autoprompt.errors import Problem
from autoprompt.report.numbers import duration, megabytes
from autoprompt.report.wording import PHASES, sentence
from autoprompt.runs.events import (
    TRIAL,
    AnyEvent,
    BestChanged,
    CandidateProposed,
    CandidateSettled,
    NodeStarted,
    RowsEvaluated,
    RunFinished,
    RunStarted,
    read_event,
)
from autoprompt.runs.result import Confirmation
from autoprompt.text.names import counted


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
        """About how long until the run ends, by its own cap on time at the latest."""
        left, most = self.remaining.run_seconds, self.caps.get("max_seconds")
        if left is None or most is None:
            return left
        return min(left, max(0.0, float(most) - self.seconds))

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        found = read_event(event)
        if isinstance(found, Problem):
            yield warning_of(found)
        elif found is not None:
            self._note(found)
            yield from self._lines(found)

    def _note(self, event: AnyEvent) -> None:
        """Keep what an event says."""
        match event:
            case RunStarted():
                self.run_id, self.run_dir, self.model = event.run_id, event.run_dir, event.model
                self.max_iterations, self.caps = event.max_iterations, event.budget
                self.remaining.concurrency, self.remaining.work = event.concurrency, Work.of(event)
            case NodeStarted():
                self.phase, self.iteration = event.node, event.iteration
                self.what, self.done, self.total, self.download = "", 0, 0, None
                self.remaining.begin_node(event.node, event.iteration)
            case RowsEvaluated():
                if event.what != TRIAL:  # one row at a time, of no run: it tells nothing of what is to come
                    calls = event.spent.get("calls", 0)
                    self.remaining.add_row(event.what, event.done, event.total, calls)
                self.what, self.done, self.total = event.what, event.done, event.total
                self.spent, self.download = event.spent, None
            case CandidateProposed():
                self.remaining.add_candidate()
            case CandidateSettled():
                self.tried += 1
                self.accepted += event.accepted
            case BestChanged():
                self.best, self.original = event.score, event.original_score
                self.remaining.add_gain(event.score)
            case Confirmation():
                self.remaining.is_confirmed = event.confirmed

    def _lines(self, event: AnyEvent) -> Iterator[Line]:
        match event:
            case RunStarted():
                yield Line(sentence(event), "terminal")
                yield from (warning_of(warning, "terminal") for warning in event.warnings)
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
