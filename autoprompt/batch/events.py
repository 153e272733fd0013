"""What happens in a batch: a record for each kind of event, and their reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autoprompt.batch.table import Row
from autoprompt.records import RunEvent
from autoprompt.runs.events import AnyEvent, read_event


@dataclass(frozen=True, slots=True)
class BatchStarted(RunEvent):
    """A batch began or was resumed. trials: all of it; `finished` of them are done, `to_run` are to come."""

    kind: ClassVar[str] = "batch_started"
    name: str
    run_dir: str
    trials: int
    finished: int
    to_run: int
    executor: str
    caps: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialStarted(RunEvent):
    """A trial was given to a worker."""

    kind: ClassVar[str] = "trial_started"
    trial: str
    attempt: int


@dataclass(frozen=True, slots=True)
class TrialEvent(RunEvent):
    """Something happened in a trial. what: the event of its run."""

    kind: ClassVar[str] = "trial_event"
    trial: str
    what: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrialLost(RunEvent):
    """The worker of a trial was lost; the batch resumes the trial."""

    kind: ClassVar[str] = "trial_lost"
    trial: str
    message: str


@dataclass(frozen=True, slots=True)
class TrialEnded(RunEvent):
    """A trial ended, in whatever way. row: its line of the table."""

    kind: ClassVar[str] = "trial_ended"
    trial: str
    row: Row


@dataclass(frozen=True, slots=True)
class BatchSpent(RunEvent):
    """What all trials together have sent."""

    kind: ClassVar[str] = "batch_spent"
    calls: int
    tokens: int
    cost_usd: float
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchFinished(RunEvent):
    """The batch ended. result: what `table.json` has."""

    kind: ClassVar[str] = "batch_finished"
    result: Mapping[str, Any]


KINDS: dict[str, type[RunEvent]] = {
    kind.kind: kind
    for kind in (BatchStarted, TrialStarted, TrialEvent, TrialLost, TrialEnded, BatchSpent, BatchFinished)
}


def read_batch_event(data: Mapping[str, Any]) -> AnyEvent | None:
    """Return the event as its record, as `autoprompt.runs.events.read_event` does those of a run."""
    return read_event(data, KINDS)
