"""Who runs trials: one protocol for this process, for processes of this machine, and for Ray."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from autoprompt.batch.job import Job, Outcome, run_job
from autoprompt.llm.limits.account import Account
from autoprompt.llm.limits.ledger import Books
from autoprompt.llm.models import Models
from autoprompt.records import Event


@dataclass(frozen=True, slots=True)
class Report:
    """News of one trial: something that happened in it, or how its attempt ended."""

    trial: str
    event: Event | None = None
    outcome: Outcome | None = None


class Executor(Protocol):
    """Runs jobs, each in a process of its own or in ours. Used from one thread.

    The driver starts at most `slots` jobs at once and asks for news until each has ended. A job whose
    process is gone ends as "lost". An executor never starts a job again by itself: what the lost attempt had
    set aside must be freed first.
    """

    slots: int

    @property
    def ledger(self) -> Books:
        """Where trials are admitted."""
        ...

    def start(self, job: Job) -> None:
        """Begin a job. At most one at a time for a trial."""
        ...

    def poll(self, timeout_s: float) -> list[Report]:
        """What has happened since the last call; waits so long for something to happen."""
        ...

    def stop(self) -> None:
        """End everything that runs: when it returns, nothing is sent any more. Safe to call twice."""
        ...


class InlineExecutor:
    """One trial after the other in this process, e.g. with models of one's own."""

    slots = 1

    def __init__(
        self,
        ledger: Books,
        *,
        models: Models | None = None,
        on_report: Callable[[Report], Any] | None = None,
    ) -> None:
        self._ledger, self._own, self._on_report = ledger, models, on_report
        self._waiting: deque[Job] = deque()

    @property
    def ledger(self) -> Books:
        return self._ledger

    def start(self, job: Job) -> None:
        self._waiting.append(job)

    def poll(self, timeout_s: float) -> list[Report]:  # noqa: ARG002 - the protocol's
        """Runs the next job to its end; its events go to `on_report` as they come."""
        if not self._waiting:
            return []
        job = self._waiting.popleft()
        name = job.trial.id

        def tell(event: Event) -> None:
            if self._on_report is not None:
                self._on_report(Report(name, event))

        account = Account(self._ledger, job.ticket, job.seconds_left)
        outcome = run_job(job, account, models=self._own, on_event=tell)
        return [Report(name, outcome=outcome)]

    def stop(self) -> None:
        self._waiting.clear()
