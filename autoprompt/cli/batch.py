"""`autoprompt batch`: many trials as one experiment, watched, into one table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.batch.events import (
    BatchSpent,
    BatchStarted,
    TrialEnded,
    TrialEvent,
    TrialLost,
    TrialStarted,
    read_batch_event,
)
from autoprompt.batch.table import (
    BatchResult,
    Group,
    Row,
    columns_of,
    cost_cell,
    own_cells,
    trials_in_words,
)
from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import Line, LiveView, bar, warning_of, watching
from autoprompt.cli.output import clean, print_json
from autoprompt.errors import Problem, Voice, tell
from autoprompt.records import OnEvent
from autoprompt.report.numbers import NONE, count, duration, money, score
from autoprompt.report.wording import PHASES
from autoprompt.runs import RunFolder
from autoprompt.runs.events import AnyEvent, BestChanged, NodeStarted, RowsEvaluated, read_event
from autoprompt.settings.kinds import Panel
from autoprompt.settings.records import Budget
from autoprompt.settings.resolve import resolve
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.batch import Batch, BatchResult, Planned


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
    budget = resolve(Budget, flags)  # AUTOPROMPT_MAX_... are each trial's own
    from autoprompt.batch import plan_batch, run_batch

    chosen: dict[str, Any] = {"name": name, "runs_dir": runs_dir, "only": only or (), "budget": budget}
    if dry_run:
        planned, trials = plan_batch(files, **chosen)
        if as_json:
            print_json(_plan_to_dict(planned, trials, runs_dir))
            return
        print_parts(_plan(planned, trials, runs_dir))
        return
    watch_batch(
        lambda emit: run_batch(files, jobs=jobs, fail_fast=fail_fast, on_event=emit, **chosen),
        as_json=as_json,
        quiet=quiet,
    )


def watch_batch(start: Callable[[OnEvent], BatchResult], *, as_json: bool, quiet: bool) -> None:
    """Run `start` under the live view and show its table. Exit with 1 if a trial has no result."""
    # Ray prints what it has lost on stdout, which is the result's.
    console = render.console(stderr=True)
    with watching(console, BatchView(), quiet=quiet) as (view, emit), redirect_stdout(sys.stderr):
        result = start(emit)
    print_parts(result_table(result), stderr=as_json)
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
        match read_batch_event(event):
            case BatchStarted() as found:
                yield from self._started(found)
            case TrialStarted() as found:
                self.running[found.trial] = _Trial(self.clock())
                yield Line(f"{found.trial}: started", "lines")
            case TrialEvent() as found:
                yield from self._trial(found.trial, found.what)
            case TrialLost() as found:
                self.running.pop(found.trial, None)
                yield warning_of(found.message)
            case TrialEnded() as found:
                yield self._ended(found.row)
            case BatchSpent() as found:
                self.spent = asdict(found)
                if self.is_time(is_last=False):
                    yield Line(self._totals(), "lines")

    @property
    def seconds_left(self) -> float | None:
        """By the trials that ended so far."""
        return self.seconds / self.ended * (self.to_run - self.ended) if self.ended else None

    def _started(self, event: BatchStarted) -> Iterator[Line]:
        self.run_id, self.caps, self.to_run = event.name, event.caps, event.to_run
        self.started = self.clock()
        yield from map(warning_of, event.warnings)
        yield Line(
            f"batch {self.run_id}: {trials_in_words(event.trials)}, {event.finished} finished already, "
            f"{self.to_run} to run; {event.run_dir}",
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


# --- the table: groups first, single trials while they can still be read ---

_MOST_ROWS = 40  # more trials than this are not read one by one: the CSV has them
_MOST_FAILURES = 10
_UNBROKEN = 10_000  # columns, which no line of a table fills
_STATUS_STYLES = {"failed": "red", "not run": "yellow", "interrupted": "yellow", "finished": ""}


def print_parts(parts: Iterable[RenderableType], *, stderr: bool = False) -> None:
    """Print the parts; away from a terminal, where ids and numbers are searched, on whole lines."""
    console = render.console(stderr=stderr)
    if not console.is_terminal:
        console.width = _UNBROKEN
    for part in parts:
        console.print(part)


def result_table(found: BatchResult, *, is_at_work: bool = False) -> Iterator[RenderableType]:
    """Yield the groups, the trials, what went wrong, what it cost, and where it lies."""
    if len(found.groups) < len(found.rows):
        yield _group_table(found.groups)
        yield Text()
    if len(found.rows) <= _MOST_ROWS:
        yield _row_table(found.rows)
        yield Text()
    yield from _failures(found)
    count = found.to_dict()["trials"]
    said = ", ".join(f"{number} {status}" for status, number in count.items() if number)
    yield Text(f"{trials_in_words(len(found.rows))}: {said}", "bold" if found.is_complete else "bold yellow")
    paid = "cost unknown" if found.paid_usd is None else f"{money(found.paid_usd)} paid"
    yield Text(
        f"{counted(found.sent, 'call')} sent, {counted(found.tokens, 'token')}, {paid}, "
        f"{duration(found.seconds)} in all"
    )
    yield from (Text(f"warning: {clean(warning)}", "yellow") for warning in found.warnings)
    yield Text()
    yield Text(f"Everything is in {clean(found.run_dir)}; a line for each trial is in table.csv")
    if found.is_complete or is_at_work:
        return
    if {row.status for row in found.rows} - {"finished"} == {"not run"}:  # a resume would have the old cap
        yield Text("Resume: raise the limit where you gave it, and run the same command again")
    else:
        yield Text(f"Resume with: autoprompt resume {clean(RunFolder(Path(found.run_dir)).reference)}")


def _group_table(groups: Sequence[Group]) -> RenderableType:
    columns = columns_of(groups)
    scores = ("trials", "original", "best", "gain", "95% interval", "confirmed")
    numbers = (*scores, _COST, "calls", "cost", "time")
    made = render.table(*columns, *numbers, right=numbers)
    for group in groups:
        own = [clean(cell) for cell in own_cells(group, columns)]
        made.add_row(*map(Text, (*own, *_group_cells(group))))
    return render.Fitting(made, _DROPPED_FIRST, (_COST,))


_COST = "1,000 calls"
_DROPPED_FIRST = ("sent", "time", "calls")  # all of them are in table.csv


def _group_cells(group: Group) -> Iterator[str]:
    yield str(group.n) if group.n == group.trials else f"{group.n} of {group.trials}"
    yield score(group.original)
    yield _with_sd(group.best, group.best_sd)
    yield _signed(group.gain)
    yield _interval(group.gain_ci95)
    yield f"{group.confirmed} of {group.n}"
    yield cost_cell(group) or NONE
    yield count(group.calls)
    yield NONE if group.calls is None else money(group.cost_usd)
    yield duration(group.seconds)


def _row_table(rows: Sequence[Row]) -> RenderableType:
    columns = columns_of(rows)
    numbers = ("original", "best", "gain", "95% interval", _COST, "calls", "sent", "cost", "time")
    made = render.table(*(columns or ["trial"]), "status", *numbers, right=numbers)
    for row in rows:
        own = [clean(cell) for cell in own_cells(row, columns)] if columns else [clean(row.trial)]
        style = _STATUS_STYLES.get(row.status, "dim")
        made.add_row(*map(Text, own), Text(_status(row), style), *map(Text, _row_cells(row)))
    return render.Fitting(made, _DROPPED_FIRST, (_COST,))


def _status(row: Row) -> str:
    """Return "confirmed" and its like for a finished trial, with how it ended if it was not simply run."""
    verdict = (row.verdict or "").replace("_", " ")
    status = verdict if row.status == "finished" else row.status
    return f"{status} ({row.how})" if row.how not in ("", "started") else status


def _row_cells(row: Row) -> Iterator[str]:
    has_result = row.calls is not None
    yield score(row.original)
    yield score(row.best)
    yield _signed(row.gain)
    yield _interval(row.gain_ci95)
    yield cost_cell(row) or NONE
    yield count(row.calls)
    yield f"{row.sent:,}"
    yield money(row.cost_usd) if has_result else NONE
    yield duration(row.seconds)


def _failures(found: BatchResult) -> Iterator[Text]:
    wrong = [*found.failed, *found.not_run]
    for row in wrong[:_MOST_FAILURES]:
        yield Text(f"{clean(row.trial)} {row.status}: {clean(row.error)}", "red")
    if len(wrong) > _MOST_FAILURES:
        yield Text(f"... and {len(wrong) - _MOST_FAILURES} more; table.csv names them all", "red")


def _plan(batch: Batch, trials: Sequence[Planned], runs_dir: Path) -> Iterator[RenderableType]:
    """Yield what `--dry-run` shows."""
    data = _plan_to_dict(batch, trials, runs_dir)
    columns = columns_of([Row(p.trial.id, p.trial.own) for p in trials])
    numbers = ("calls at most", "tokens about", "cost about")
    made = render.table("trial", *columns, *numbers, right=numbers)
    for planned, row in zip(trials, data["trials"], strict=True):
        own = own_cells(Row(planned.trial.id, planned.trial.own), columns)
        state = f"{row['calls']:,}", f"{row['tokens']:,}", money(row["cost_usd"])
        if planned.is_done or not planned.has_room:
            state = ("done" if planned.is_done else "no room", "", "")
        made.add_row(*(Text(clean(cell)) for cell in (planned.trial.id, *own, *state)))
    yield made
    yield Text()
    total = data["total"]
    no_room = f", {total['no_room']} without room" if total["no_room"] else ""
    is_shared = not all(planned.trial.config.no_cache for planned in trials)
    yield Text(
        f"{trials_in_words(total['trials'])} to run, {total['done']} done{no_room}; "
        f"at most {counted(total['calls'], 'call')}, about {counted(total['tokens'], 'token')}; "
        f"cost: {money(total['cost_usd'])}"
        + (". Requests that trials share are sent once" if is_shared else "")
    )
    yield from map(render.warning_line, data["warnings"])
    place = clean(data["run_dir"])
    yield Text(f"executor: {batch.executor.kind}; results would be in {place}; nothing was sent")


def _plan_to_dict(batch: Batch, trials: Sequence[Planned], runs_dir: Path) -> dict[str, Any]:
    """Plain data: each trial with its estimate, and all that are to run together."""
    rows: list[dict[str, Any]] = []
    for planned in trials:
        found = planned.estimate
        calls = found.calls
        rows.append(
            {
                "trial": planned.trial.id,
                "own": dict(planned.trial.own),
                "where": planned.trial.where,
                "is_done": planned.is_done,
                "has_room": planned.has_room,
                "calls": calls,
                "fewest_calls": found.fewest_calls,
                "tokens": found.tokens,
                "cost_usd": found.cost_usd,
            }
        )
    open_rows = [row for row in rows if not row["is_done"]]
    to_run = [row for row in open_rows if row["has_room"]]
    costs = [row["cost_usd"] for row in to_run]
    total = {
        "trials": len(to_run),
        "done": len(rows) - len(open_rows),
        "no_room": len(open_rows) - len(to_run),
        "calls": sum(row["calls"] for row in to_run),
        "tokens": sum(row["tokens"] for row in to_run),
        "cost_usd": None if None in costs else sum(costs),
    }
    of_trials = [warning.to_dict(Voice.CLI) for warning in _warnings_of_trials(trials)]
    warnings: list[Any] = [*batch.warnings, *of_trials, *_too_small(batch, total)]
    if total["no_room"]:
        many = trials_in_words(total["no_room"])
        warnings.append(f"{many} would not run: the batch's budget ({_caps(batch)}) is too small")
    place = str(runs_dir / batch.name)
    return {"name": batch.name, "run_dir": place, "trials": rows, "total": total, "warnings": warnings}


def _warnings_of_trials(trials: Sequence[Planned]) -> list[Problem]:
    """Return the warnings of the trials, each once."""
    return list(dict.fromkeys(warning for planned in trials for warning in planned.estimate.warnings))


def _caps(batch: Batch) -> str:
    named = asdict(batch.caps).items()
    return ", ".join(f"{name}={value:g}" for name, value in named if value is not None)


def _too_small(batch: Batch, total: Mapping[str, Any]) -> list[str]:
    """Caps of the batch under what its trials may use."""
    caps = (
        ("max_calls", batch.caps.max_calls, total["calls"]),
        ("max_tokens", batch.caps.max_tokens, total["tokens"]),
        ("max_cost", batch.caps.max_cost, total["cost_usd"]),
    )
    return [
        f"{name}={cap:g} of the batch is less than the {most:g} that its trials may use together: some may "
        "search less, or not run"
        for name, cap, most in caps
        if cap is not None and most is not None and cap < most
    ]


def _with_sd(mean: float | None, sd: float | None) -> str:
    return score(mean) if sd is None else f"{score(mean)} ± {sd:.3f}"


def _signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.3f}"


def _interval(bounds: Sequence[float] | None) -> str:
    return NONE if bounds is None else f"{bounds[0]:+.3f}..{bounds[1]:+.3f}"
