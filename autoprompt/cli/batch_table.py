"""The table of a batch for people: groups first, single trials where they can still be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from autoprompt.batch.table import BatchResult, Group, Row, columns_of, own_cells, trials_in_words
from autoprompt.cli import render
from autoprompt.cli.output import clean
from autoprompt.errors import Problem, Voice
from autoprompt.report.numbers import NONE, count, duration, money, score
from autoprompt.runs import RunFolder
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.batch import Batch, Planned

MOST_ROWS = 40  # more trials than this are not read one by one: the CSV has them
MOST_FAILURES = 10
_UNBROKEN = 10_000  # columns, which no line of a table fills
_STATUS_STYLES = {"failed": "red", "not run": "yellow", "interrupted": "yellow", "finished": ""}


def show(parts: Iterable[RenderableType], *, stderr: bool = False) -> None:
    """Print the parts; away from a terminal, where ids and numbers are searched, on whole lines."""
    console = render.console(stderr=stderr)
    if not console.is_terminal:
        console.width = _UNBROKEN
    for part in parts:
        console.print(part)


def result(found: BatchResult, *, is_at_work: bool = False) -> Iterator[RenderableType]:
    """The groups, the trials, what went wrong, what it cost, and where it lies."""
    if len(found.groups) < len(found.rows):
        yield _group_table(found.groups)
        yield Text()
    if len(found.rows) <= MOST_ROWS:
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
    numbers = ("trials", "original", "best", "gain", "95% interval", "confirmed", "calls", "cost", "time")
    made = render.table(*columns, *numbers, right=numbers)
    for group in groups:
        own = [clean(cell) for cell in own_cells(group, columns)]
        made.add_row(*map(Text, (*own, *_group_cells(group))))
    return made


def _group_cells(group: Group) -> Iterator[str]:
    yield str(group.n) if group.n == group.trials else f"{group.n} of {group.trials}"
    yield score(group.original)
    yield _with_sd(group.best, group.best_sd)
    yield _signed(group.gain)
    yield _interval(group.gain_ci95)
    yield f"{group.confirmed} of {group.n}"
    yield count(group.calls)
    yield NONE if group.calls is None else money(group.cost_usd)
    yield duration(group.seconds)


def _row_table(rows: Sequence[Row]) -> RenderableType:
    columns = columns_of(rows)
    numbers = ("original", "best", "gain", "95% interval", "calls", "sent", "cost", "time")
    made = render.table(*(columns or ["trial"]), "status", *numbers, right=numbers)
    for row in rows:
        own = [clean(cell) for cell in own_cells(row, columns)] if columns else [clean(row.trial)]
        style = _STATUS_STYLES.get(row.status, "dim")
        made.add_row(*map(Text, own), Text(_status(row), style), *map(Text, _row_cells(row)))
    return made


def _status(row: Row) -> str:
    """ "confirmed" and its like for a finished trial; how it came to that where it was not simply run."""
    verdict = (row.verdict or "").replace("_", " ")
    status = verdict if row.status == "finished" else row.status
    return f"{status} ({row.how})" if row.how not in ("", "started") else status


def _row_cells(row: Row) -> Iterator[str]:
    has_result = row.calls is not None
    yield score(row.original)
    yield score(row.best)
    yield _signed(row.gain)
    yield _interval(row.gain_ci95)
    yield count(row.calls)
    yield f"{row.sent:,}"
    yield money(row.cost_usd) if has_result else NONE
    yield duration(row.seconds)


def _failures(found: BatchResult) -> Iterator[Text]:
    wrong = [*found.failed, *found.not_run]
    for row in wrong[:MOST_FAILURES]:
        yield Text(f"{clean(row.trial)} {row.status}: {clean(row.error)}", "red")
    if len(wrong) > MOST_FAILURES:
        yield Text(f"... and {len(wrong) - MOST_FAILURES} more; table.csv names them all", "red")


def plan(batch: Batch, trials: Sequence[Planned], runs_dir: Path) -> Iterator[RenderableType]:
    """What `--dry-run` shows."""
    data = plan_to_dict(batch, trials, runs_dir)
    columns = columns_of([Row(p.trial.id, p.trial.own) for p in trials])
    numbers = ("calls at most", "tokens about", "cost about")
    made = render.table("trial", *columns, *numbers, right=numbers)
    for planned, row in zip(trials, data["trials"], strict=True):
        own = own_cells(Row(planned.trial.id, planned.trial.own), columns)
        state = _estimate_cells(row)
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


def _estimate_cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return f"{row['calls']:,}", f"{row['tokens']:,}", money(row["cost_usd"])


def plan_to_dict(batch: Batch, trials: Sequence[Planned], runs_dir: Path) -> dict[str, Any]:
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
