"""What a batch found: a row for each trial, and trials that differ only in their seeds taken together."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from autoprompt.batch.spec import SEEDS
from autoprompt.batch.trials import shown
from autoprompt.brief import brief
from autoprompt.dataset.python_rows import to_frame
from autoprompt.llm.prices import Cost, Unit
from autoprompt.records import Count, Difference, Seconds, Share
from autoprompt.runs.result import Result, Verdict
from autoprompt.stats import Interval, student_interval
from autoprompt.text.names import counted

if TYPE_CHECKING:
    import pandas

Status = Literal["waiting", "running", "finished", "failed", "interrupted", "not run"]


@dataclass(frozen=True, slots=True)
class Row:
    """One trial. A value is null if there is none yet.

    Calls, tokens and costs of the search include answers that another trial paid for, so that trials can be
    compared.
    """

    trial: str
    """Name of the trial."""
    own: Mapping[str, Any]
    """Settings that distinguish it."""
    status: Status = "waiting"
    """How far it is."""
    how: str = ""
    """Whether it was started, resumed or started again."""
    attempts: Count = 0
    """How often it was started."""
    model: str | None = None
    """Name of the task model."""
    metric: str | None = None
    """Name of the metric."""
    original: Share | None = None
    """Score of the original on the sealed test."""
    best: Share | None = None
    """Score of the best on the sealed test."""
    best_ci95: tuple[float, float] | None = None
    """95% interval of `best`."""
    gain: Difference | None = None
    """Best minus original."""
    gain_ci95: tuple[float, float] | None = None
    """95% interval of the gain over the rows."""
    p_value: float | None = None
    """Two-sided and paired."""
    call_cost: float | None = None
    """What a call with the best prompt costs, in `call_unit`."""
    call_unit: Unit | None = None
    """Unit of `call_cost` and `highest_call_cost`."""
    highest: Share | None = None
    """Score of the prompt with the highest score; null if that is the best, or none was tested."""
    highest_call_cost: float | None = None
    """What a call with that prompt costs."""
    verdict: Verdict | None = None
    """What the sealed test says."""
    test_rows: int | None = None
    """Rows of the sealed test."""
    stop_reason: str | None = None
    """Why the search ended."""
    cut_by: tuple[str, ...] = ()
    """Limits of the batch that cut the search short."""
    calls: int | None = None
    """Requests that its search counts, answers that another trial paid for included."""
    tokens: int | None = None
    """Tokens that its search counts."""
    cost_usd: float | None = None
    """US dollars that its search counts; null if a price is not known."""
    sent: Count = 0
    """Requests that were sent for it, in all attempts."""
    paid_usd: float | None = 0.0
    """US dollars that were paid for it, in all attempts; null if a price is not known."""
    seconds: Seconds | None = None
    """Duration of the run in seconds."""
    error: str = ""
    """Why it failed."""
    run_dir: str = ""
    """Path of its run folder."""

    __repr__ = brief


def scores_of(result: Result) -> dict[str, Any]:
    """Return what a row takes out of the result of its run."""
    cost, other = result.best.cost, result.ends.other
    return {
        "model": result.model or None,
        "metric": result.metric,
        "original": result.original.score,
        "best": result.best.score,
        "best_ci95": result.best.ci95,
        "gain": None if result.gain is None else result.gain.value,
        "gain_ci95": None if result.gain is None else result.gain.ci95,
        "p_value": result.p_value,
        "call_cost": None if cost is None else cost.amount,
        "call_unit": None if cost is None else cost.unit,
        "highest": None if other is None else other.score,
        "highest_call_cost": None if other is None or other.cost is None else other.cost.amount,
        "verdict": result.verdict,
        "test_rows": result.best.n,
        "stop_reason": result.stop_reason,
        "cut_by": result.cut_by,
        "calls": result.calls,
        "tokens": sum(result.tokens.values()),
        "cost_usd": result.cost_usd,
        "seconds": result.seconds,
    }


@dataclass(frozen=True, slots=True)
class Group:
    """Trials that differ only in their seeds: means over those that were tested.

    The seeds share their test rows. So the interval over seeds tells how much the search varies, and each
    trial's own interval how much the rows do.
    """

    own: Mapping[str, Any]
    """Settings that distinguish the group."""
    trials: Count
    """All trials of the group."""
    n: Count = 0
    """Trials that were tested."""
    failed: Count = 0
    """Trials that ended with an error."""
    confirmed: Count = 0
    """Trials with the verdict `confirmed`."""
    original: Share | None = None
    """Mean score of the originals."""
    best: Share | None = None
    """Mean score of the best prompts."""
    best_sd: float | None = None
    """Standard deviation of `best` over the seeds."""
    gain: Difference | None = None
    """Mean gain."""
    gain_sd: float | None = None
    """Standard deviation of the gain over the seeds."""
    gain_ci95: tuple[float, float] | None = None
    """95% interval of the gain over the seeds; of a single trial, over its rows."""
    call_cost: float | None = None
    """Mean cost of a call with the best prompt, in `call_unit`; null if the units differ."""
    call_unit: Unit | None = None
    """Unit of `call_cost`."""
    calls: float | None = None
    """Mean requests of a trial."""
    tokens: float | None = None
    """Mean tokens of a trial."""
    cost_usd: float | None = None
    """Mean US dollars of a trial; null if a price is not known."""
    seconds: Seconds | None = None
    """Mean duration of a trial in seconds."""

    __repr__ = brief


def group_rows(rows: Sequence[Row]) -> list[Group]:
    """In the order in which their first trials stand."""
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        key = tuple((name, repr(value)) for name, value in row.own.items() if name not in SEEDS)
        groups.setdefault(key, []).append(row)
    return [_group(members) for members in groups.values()]


def _group(rows: Sequence[Row]) -> Group:
    own = {name: value for name, value in rows[0].own.items() if name not in SEEDS}
    tested = [row for row in rows if row.best is not None]
    ended = [row for row in rows if row.status == "finished"]
    gains = [row.gain for row in tested if row.gain is not None]
    interval: Interval | tuple[float, float] | None = student_interval(gains)
    if interval is not None:  # of two or three seeds it may reach beyond what a gain can be
        interval = (max(-1.0, interval[0]), min(1.0, interval[1]))
    elif len(gains) == 1:
        interval = next(row.gain_ci95 for row in tested if row.gain is not None)
    costs = [row.cost_usd for row in ended]
    units = {row.call_unit for row in tested}
    unit = next(iter(units)) if len(units) == 1 else None
    return Group(
        own=own,
        trials=len(rows),
        n=len(tested),
        failed=sum(row.status == "failed" for row in rows),
        confirmed=sum(row.verdict == "confirmed" for row in rows),
        original=_mean(row.original for row in tested),
        best=_mean(row.best for row in tested),
        best_sd=_sd([row.best for row in tested if row.best is not None]),
        gain=_mean(gains),
        gain_sd=_sd(gains),
        gain_ci95=None if interval is None else (interval[0], interval[1]),
        call_cost=None if unit is None else _mean(row.call_cost for row in tested),
        call_unit=unit,
        calls=_mean(row.calls for row in ended),
        tokens=_mean(row.tokens for row in ended),
        cost_usd=None if None in costs else _mean(costs),
        seconds=_mean(row.seconds for row in ended),
    )


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch came to. `to_dict()` is `table.json`.

    Attributes:
        name: Name of the batch.
        run_dir: Its folder.
        rows: Each trial.
        sent: Requests of all trials, in all attempts.
        tokens: Tokens of all trials, in all attempts.
        paid_usd: US dollars of all trials, in all attempts; None if a price is not known.
        seconds: Time that drivers were at work.
        warnings: What has to be known, in sentences.
        groups: Trials that differ only in their seeds, taken together.

    Examples:
        >>> from pathlib import Path
        >>> from autoprompt import Models, run_batch
        >>> from autoprompt.llm import ScriptedClient
        >>> text = "defaults: {dataset: items.jsonl, prompt: 'A or B?', max_calls: 600}"
        >>> _ = Path("one.yaml").write_text(text + "\\nmatrix: {seed: [0]}")
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> batch = run_batch("one.yaml", runs_dir=Path("batches"), models=models)
        >>> batch.is_complete, batch.rows[0].verdict
        (True, 'not_confirmed')
    """

    name: str
    run_dir: str
    rows: tuple[Row, ...]
    sent: int = 0
    tokens: int = 0
    paid_usd: float | None = 0.0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    groups: tuple[Group, ...] = field(default=())

    __repr__ = brief

    @property
    def failed(self) -> tuple[Row, ...]:
        """Trials that ended with an error."""
        return tuple(row for row in self.rows if row.status == "failed")

    @property
    def not_run(self) -> tuple[Row, ...]:
        """Trials for which the batch's budget had no room."""
        return tuple(row for row in self.rows if row.status == "not run")

    @property
    def is_complete(self) -> bool:
        """Whether every trial has a result."""
        return all(row.status == "finished" for row in self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each trial: what distinguishes it, and the fields of `Row`.

        Raises:
            ConfigError: pandas is not installed.
        """
        rows = (asdict(row) for row in self.rows)
        return to_frame({**row.pop("own"), **row} for row in rows)

    def to_dict(self) -> dict[str, Any]:
        """Return what `batch --json` prints and `table.json` holds."""
        count = {status: sum(row.status == status for row in self.rows) for status in _STATUSES}
        return {
            "name": self.name,
            "run_dir": self.run_dir,
            "trials": count,
            "sent": self.sent,
            "tokens": self.tokens,
            "paid_usd": self.paid_usd,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "groups": [asdict(group) for group in self.groups],
            "rows": [asdict(row) for row in self.rows],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BatchResult:
        """Return what `to_dict` gave, read from `table.json`.

        Args:
            data: The object of the file.
        """
        rows = tuple(Row(**{**row, **_pairs(row), "cut_by": tuple(row["cut_by"])}) for row in data["rows"])
        facts = {name: data[name] for name in ("name", "run_dir", "sent", "tokens", "paid_usd", "seconds")}
        return cls(rows=rows, warnings=tuple(data["warnings"]), groups=tuple(group_rows(rows)), **facts)

    def to_csv(self) -> str:
        """Return a line for each trial: what distinguishes it in columns of its own, then its row."""
        names = dict.fromkeys(name for row in self.rows for name in row.own)
        facts = [name for name in Row.__slots__ if name not in ("trial", "own")]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        # A setting may be called as a fact of the row is: its column then says which it is.
        writer.writerow(["trial", *(f"set_{n}" if n in facts else n for n in names), *facts])
        for row in self.rows:
            own = ["" if name not in row.own else _cell(row.own[name]) for name in names]
            writer.writerow([row.trial, *own, *(_cell(getattr(row, name)) for name in facts)])
        return out.getvalue()


_STATUSES: tuple[Status, ...] = ("finished", "failed", "interrupted", "running", "waiting", "not run")


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return ";".join(map(str, value))
    return " ".join(value.split()) if isinstance(value, str) else value


def columns_of(rows: Sequence[Row | Group]) -> list[str]:
    """Return the settings that distinguish them, but for those that are the same in all."""
    names = dict.fromkeys(name for row in rows for name in row.own)
    if len(rows) < 2:
        return list(names)
    return [name for name in names if len({repr(row.own.get(name)) for row in rows}) > 1]


def own_cells(row: Row | Group, columns: Sequence[str]) -> list[str]:
    return ["" if name not in row.own else shown(name, row.own[name]) for name in columns]


def cost_cell(row: Row | Group) -> str:
    """Return what 1,000 calls with the best prompt cost, for people; "" if it is not known."""
    if row.call_cost is None or row.call_unit is None:
        return ""
    return Cost(row.call_cost, row.call_unit).shown(1000)


def trials_in_words(count: int) -> str:
    return counted(count, "trial")


def _pairs(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _pair(row[name]) for name in ("best_ci95", "gain_ci95")}


def _pair(values: Sequence[float] | None) -> tuple[float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _sd(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
