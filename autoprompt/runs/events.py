"""What happens in a run: a record for each kind of event, and the file with the latest progress."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from autoprompt.errors import Problem
from autoprompt.llm.client import WeightsProgress
from autoprompt.llm.prices import Cost
from autoprompt.llm.transport.address import SendsTo
from autoprompt.records import RunEvent, validated
from autoprompt.runs.result import CallCost, Confirmation
from autoprompt.text.files import read_bytes, to_json

# --- an optimization ---


@dataclass(frozen=True, slots=True)
class RunStarted(RunEvent):
    """A run began or was resumed. sizes: rows of each part. plan: what the search may do. budget: caps.

    lessons_read: what earlier runs tell this one's writers; None if it resumes from a checkpoint.
    """

    kind: ClassVar[str] = "run_started"
    run_id: str = ""
    run_dir: str = ""
    resumed: bool = False
    model: str = ""
    optimizer_model: str = ""
    concurrency: int = 1
    max_iterations: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None
    budget: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Mapping[str, Any] | str, ...] = ()
    lessons_read: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        data = RunEvent.to_dict(self)
        if self.lessons_read is None:  # who merges the events of all goes keeps what the first one read
            del data["lessons_read"]
        return data


@dataclass(frozen=True, slots=True)
class LimitsChanged(RunEvent):
    """A resumed run got other limits."""

    kind: ClassVar[str] = "limits_changed"
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunContinued(RunEvent):
    """A finished run goes on."""

    kind: ClassVar[str] = "run_continued"


@dataclass(frozen=True, slots=True)
class NodeStarted(RunEvent):
    """A node of the graph began, in this round."""

    kind: ClassVar[str] = "node_started"
    node: str
    iteration: int = 0


TRIAL = "trial"  # what the rows are that a program is tried on before a run has begun


@dataclass(frozen=True, slots=True)
class RowsEvaluated(RunEvent):
    """Rows were answered. what: the rows that are asked together; spent: of the whole run."""

    kind: ClassVar[str] = "rows_evaluated"
    what: str
    done: int
    total: int
    spent: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CandidateProposed(RunEvent):
    """A candidate joined the race to come."""

    kind: ClassVar[str] = "candidate_proposed"
    id: str
    operator: str
    change: str
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateRefused(RunEvent):
    """A proposal was refused before any call. id: "" for one that never became a candidate."""

    kind: ClassVar[str] = "candidate_refused"
    operator: str
    reason: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class RungEnded(RunEvent):
    """A stage of the race ended: of `ran` candidates `kept` go on. best_score: the best so far, on `rows`."""

    kind: ClassVar[str] = "rung_ended"
    rows: int
    ran: int
    kept: int
    is_last: bool
    leader: str
    is_ahead: bool
    score: float
    best_score: float
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class CandidateSettled(RunEvent):
    """A candidate's race ended. refused: requests of it that the endpoint refused."""

    kind: ClassVar[str] = "candidate_settled"
    id: str
    accepted: bool
    score: float
    rows: int
    parent_score: float | None = None
    p_value: float | None = None
    refused: int = 0
    calls: int | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class BestChanged(RunEvent):
    """Another candidate is the best so far, on `rows` validation rows."""

    kind: ClassVar[str] = "best_changed"
    id: str
    score: float
    rows: int = 0
    original_score: float | None = None
    calls: int | None = None
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class WinnerChosen(RunEvent):
    """Another candidate than the best of the race goes to the confirmation."""

    kind: ClassVar[str] = "winner_chosen"
    id: str
    instead_of: str
    reason: str = ""
    score: float = 0.0
    score_of_best: float = 0.0
    fresh_rows: int = 0
    fresh_rows_of_best: int = 0


@dataclass(frozen=True, slots=True)
class PickChosen(RunEvent):
    """Which of the two tested ends the run returns. cheapest: "" if there is one end; reason: why."""

    kind: ClassVar[str] = "pick_chosen"
    highest: str
    cheapest: str
    returned: str
    reason: str
    cost_of_highest: CallCost
    cost_of_cheapest: CallCost | None = None


@dataclass(frozen=True, slots=True)
class Analysis(RunEvent):
    """The errors of a round were read.

    candidate: the best so far. suggestions: of the analyst. blame: of a workflow, its steps.
    predictions: file of the rows.
    """

    kind: ClassVar[str] = "analysis"
    error_count: int
    total_count: int
    iteration: int = 0
    candidate: str = ""
    suggestions: str = ""
    blame: Mapping[str, Any] | None = None
    calls: int = 0
    predictions: str = ""


@dataclass(frozen=True, slots=True)
class Experiment(RunEvent):
    """The scientific analyst ran code."""

    kind: ClassVar[str] = "experiment"
    number: int
    exit_code: int | None
    observation: str


@dataclass(frozen=True, slots=True)
class Lesson(RunEvent):
    """A lesson was noted. text: all of it, in words. gain: the difference of the scores on `rows` rows."""

    kind: ClassVar[str] = "lesson"
    text: str
    change: str = ""
    verdict: str = ""
    gain: float | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TestOpened(RunEvent):
    """The sealed test was opened. runs, rows_before: as in `autoprompt.runs.listing.Opening`."""

    kind: ClassVar[str] = "test_opened"
    runs: int
    rows_before: int = 0


@dataclass(frozen=True, slots=True)
class RunFinished(RunEvent):
    """The run ended. result: what `result.json` has."""

    kind: ClassVar[str] = "run_finished"
    result: Mapping[str, Any] = field(default_factory=dict)


# --- an investigation ---


@dataclass(frozen=True, slots=True)
class InvestigationStarted(RunEvent):
    """An investigation began or was resumed. sandbox: its level. budget: caps."""

    kind: ClassVar[str] = "investigation_started"
    run_id: str
    run_dir: str
    resumed: bool
    model: str
    task: str
    sandbox: str
    workdir: str
    max_iterations: int
    budget: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassEvent(RunEvent):
    """Something in pass `number` of at most `of`. spent: of the whole run."""

    number: int
    of: int
    spent: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PassStarted(PassEvent):
    """The model is asked for its next experiment."""

    kind: ClassVar[str] = "pass_started"


@dataclass(frozen=True, slots=True)
class ConclusionStarted(PassEvent):
    """The model is asked for its conclusion."""

    kind: ClassVar[str] = "conclusion_started"


@dataclass(frozen=True, slots=True)
class PassAnswered(PassEvent):
    """The model answered. text: without what it made up as an observation (`has_own_observation`)."""

    kind: ClassVar[str] = "pass_answered"
    text: str
    has_own_observation: bool


@dataclass(frozen=True, slots=True)
class ExperimentStarted(PassEvent):
    """The code of a pass runs."""

    kind: ClassVar[str] = "experiment_started"


@dataclass(frozen=True, slots=True)
class Observed(PassEvent):
    """An experiment ended; `observation` is what the model reads of it."""

    kind: ClassVar[str] = "observation"
    observation: str | None
    exit_code: int | None
    duration_s: float
    new_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Concluded(RunEvent):
    """The model concluded."""

    kind: ClassVar[str] = "concluded"
    conclusion: str
    spent: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvestigationFinished(RunEvent):
    """The investigation ended; without a conclusion if a limit was reached before."""

    kind: ClassVar[str] = "investigation_finished"
    conclusion: str
    spent: Mapping[str, Any]


KINDS: dict[str, type[RunEvent]] = {
    kind.kind: kind
    for kind in (
        RunStarted,
        LimitsChanged,
        RunContinued,
        NodeStarted,
        SendsTo,
        WeightsProgress,
        RowsEvaluated,
        CandidateProposed,
        CandidateRefused,
        RungEnded,
        CandidateSettled,
        BestChanged,
        WinnerChosen,
        Confirmation,
        PickChosen,
        Analysis,
        Experiment,
        Lesson,
        TestOpened,
        RunFinished,
        InvestigationStarted,
        PassStarted,
        ConclusionStarted,
        PassAnswered,
        ExperimentStarted,
        Observed,
        Concluded,
        InvestigationFinished,
    )
}
AnyEvent = RunEvent | Problem


def read_event(data: Mapping[str, Any], kinds: Mapping[str, type[RunEvent]] = KINDS) -> AnyEvent | None:
    """Return the event of a log's line; a warning as its problem; None for a kind that is not in `kinds`.

    Raises:
        ValueError: It lacks what its kind has, or has a value of another type.
    """
    kind = str(data.get("event"))
    if kind == "warning":
        try:
            return Problem.from_dict(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("a warning that autoprompt did not write") from error
    return validated(kinds[kind], data) if kind in kinds else None


# Often enough to look alive: a write took 1.5 ms on two busy cores, so 0.3% of the time.
EVERY_S = 0.5


class ProgressFile:
    """`progress.json`: the last `rows_evaluated` event (`what`, `done`, `total`, `spent`). One writer.

    It stays as it was when a run is killed, and is out of date by at most EVERY_S or one call. Nothing reads
    it to go on from; what counts is in the checkpoint and the journal.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._written: float | None = None

    def note(self, event: Mapping[str, Any]) -> None:
        """Write it, unless the last was just written and this is not the end of a step."""
        now = self._clock()
        is_fresh = self._written is not None and now - self._written < EVERY_S
        if is_fresh and event.get("done") != event.get("total"):
            return
        self._written = now
        # A rename: a reader meets the old content or the new. Not synced, as a lost one is no loss.
        beside = self._path.with_name(f".{self._path.name}.tmp")
        beside.write_text(to_json(dict(event)) + "\n", encoding="utf-8")
        beside.replace(self._path)


def read_progress(path: Path) -> dict[str, Any]:
    """Return the last event noted there; empty where there is none, or no JSON object."""
    try:
        event = json.loads(read_bytes(path))
    except (OSError, ValueError):
        return {}
    return event if isinstance(event, dict) else {}
