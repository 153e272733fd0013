"""`autoprompt batch`: many trials as one experiment, watched, into one table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.batch.table import Row, trials_in_words
from autoprompt.cli import batch_table, options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import Line, LiveView, bar, warning_of, watching
from autoprompt.cli.output import clean, print_json
from autoprompt.errors import Problem, Voice, tell
from autoprompt.records import OnEvent
from autoprompt.report.numbers import duration, score
from autoprompt.report.wording import PHASES
from autoprompt.runs.events import AnyEvent, BestChanged, NodeStarted, RowsEvaluated, read_event
from autoprompt.settings.kinds import Panel
from autoprompt.settings.records import Budget
from autoprompt.settings.resolve import resolve_budget
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.batch import BatchResult

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(tuple(Budget.model_fields), Budget.model_fields)
def batch(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Batch file, or config files of several runs."),
    ],
    *,
    flags: dict[str, Any],
    dry_run: options.DryRun = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PATTERN",
            help="Trials to run: `seed=0`, `model=gpt*` or the beginning of an id; repeatable.",
            rich_help_panel=Panel.START,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", min=1, help="Trials to run at once.", rich_help_panel=Panel.START
        ),
    ] = None,
    fail_fast: Annotated[
        bool,
        typer.Option("--fail-fast", help="Stop at the first trial that fails.", rich_help_panel=Panel.START),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the batch's folder. [default: names of the files]",
            rich_help_panel=Panel.OUTPUT,
        ),
    ] = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Run the trials of a batch file: a matrix of settings, side by side, on one budget, into one table.

    The limits hold for all trials together, beside those that each trial has. If you run a batch again, it
    skips finished trials and resumes the others. Exit code 1: a trial has no result.
    """
    read_environment(is_trusted=trust)
    budget = resolve_budget(flags)
    from autoprompt.batch import plan_batch, run_batch

    chosen: dict[str, Any] = {"name": name, "runs_dir": runs_dir, "only": only or (), "budget": budget}
    if dry_run:
        planned, trials = plan_batch(files, **chosen)
        if as_json:
            print_json(batch_table.plan_to_dict(planned, trials, runs_dir))
            return
        batch_table.show(batch_table.plan(planned, trials, runs_dir))
        return
    watch_batch(
        lambda emit: run_batch(files, jobs=jobs, fail_fast=fail_fast, on_event=emit, **chosen),
        as_json=as_json,
        quiet=quiet,
    )


def watch_batch(start: Callable[[OnEvent], BatchResult], *, as_json: bool, quiet: bool) -> None:
    """Runs `start` under the live view and shows its table. Exits with 1 if a trial has no result."""
    # Ray prints what it has lost on stdout, which is the result's.
    console = render.console(stderr=True)
    with watching(console, BatchView(), quiet=quiet) as (view, emit), redirect_stdout(sys.stderr):
        result = start(emit)
    batch_table.show(batch_table.result(result), stderr=as_json)
    if as_json:
        print_json({**result.to_dict(), "sent_to": view.sent_to})
    if result.failed or result.not_run:
        raise typer.Exit(1)


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
        scores = f"{score(row.original)} -> {score(row.best)}"
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
            scores = f"{score(trial.original)} -> {score(trial.best)}"
            made.add_row(
                Text(clean(name)),
                Text(f"round {trial.iteration}: {step}" if trial.iteration else step, "dim"),
                Text(f"{trial.done}/{trial.total}" if trial.total else ""),
                Text("" if trial.best is None else scores),
                Text(duration(self.clock() - trial.since)),
            )
        return made
