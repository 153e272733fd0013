"""Takes a batch to its end: starts what fits, hears what becomes of it, keeps the table."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoprompt.batch.events import BatchSpent, TrialEnded, TrialEvent, TrialLost, TrialStarted
from autoprompt.batch.executor import Executor, Job, Outcome, Report
from autoprompt.batch.folder import BatchFolder
from autoprompt.batch.table import BatchResult, Row, Status, group_rows, scores_of
from autoprompt.batch.trials import Batch, Trial
from autoprompt.errors import Interrupted
from autoprompt.llm.limits.amounts import Amount, excess
from autoprompt.llm.limits.ledger import Books, Caps, FileLedger
from autoprompt.records import Event
from autoprompt.runs.result import Result
from autoprompt.runs.resuming import interrupted
from autoprompt.runs.spending import from_journal, total_cost
from autoprompt.text.names import counted

_POLL_S = 0.5
_SAVE_EVERY_S = 2.0


@dataclass(slots=True)
class _State:
    """Where a trial stands. least: what a run that means something takes. lost: times in this driver.

    scores: what its row shows of its result, once it has one. is_unpriced: some of its answers came without a
        price; not known of a trial at work.
    """

    trial: Trial
    least: Amount = Amount()
    status: Status = "waiting"
    how: str = ""
    attempts: int = 0
    lost: int = 0
    error: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    is_unpriced: bool = False


class Driver:
    """One go at a batch, in a locked folder.

    least: trial id -> what has to be left of the budget for it to begin; for the trials that are to run.
    on_event: told of every step as a plain dict with the key "event". Memory grows with the number of trials
    by their rows alone.
    """

    def __init__(
        self,
        folder: BatchFolder,
        batch: Batch,
        ledger: FileLedger,
        least: Mapping[str, Amount],
        on_event: Callable[[Event], None],
    ) -> None:
        self._folder, self._batch, self._emit = folder, batch, on_event
        self._ledger: Books = ledger
        before = folder.read_table()
        known = {row["trial"]: row for row in before.get("rows", ())}
        self._states = {
            trial.id: _initial(folder, trial, known.get(trial.id, {}), least.get(trial.id, Amount()))
            for trial in batch.trials
        }
        self._queue = deque(
            state.trial.id
            for state in self._states.values()
            if state.trial.id in least and state.status != "finished"
        )
        self._running: set[str] = set()
        self._has_failed = False  # in this go; failures of earlier ones are in the table too
        self._spent: dict[str, Amount] = ledger.spent()
        self._seconds_before = float(before.get("seconds", 0.0))
        self._begun = self._saved_at = time.monotonic()

    @property
    def waiting(self) -> set[str]:
        """Trials without a result: what they hold of the budget stays theirs."""
        return {name for name, state in self._states.items() if state.status in ("waiting", "interrupted")}

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def run(self, executor: Executor) -> BatchResult:
        """Run until every trial has ended or none can begin.

        Raises:
            Interrupted: On Ctrl-C; all is kept then.
        """
        file, self._ledger = self._ledger, executor.ledger
        try:
            while True:
                self._start_what_fits(executor)
                if not self._running:
                    break
                for report in executor.poll(_POLL_S):
                    self.take(report)
                self._tell_spent()
                if self._batch.fail_fast and self._has_failed:
                    break
        except (KeyboardInterrupt, Interrupted):
            raise interrupted(self._folder.run) from None
        finally:
            executor.stop()
            self._ledger = file
            for state in map(self._states.__getitem__, self._running):
                state.status, state.is_unpriced = "interrupted", _is_unpriced(self._folder, state)
            self.save()
        return self.result()

    def take(self, report: Report) -> None:
        """One piece of news."""
        if report.event is not None:
            self._emit(TrialEvent(report.trial, report.event).to_dict())
        if report.outcome is not None:
            self._end(report.trial, report.outcome)

    def result(self) -> BatchResult:
        rows = tuple(self._row(state) for state in self._states.values())
        total = _sum(self._spent.values())
        return BatchResult(
            name=self._batch.name,
            run_dir=str(self._folder.path),
            rows=rows,
            sent=total.calls,
            tokens=total.tokens,
            paid_usd=None if any(row.paid_usd is None for row in rows) else total.cost_usd,
            seconds=self._seconds,
            warnings=(
                *self._batch.warnings,
                *_cut_short(rows, self._states),
                *_exceeded(self._batch.caps, total),
            ),
            groups=tuple(group_rows(rows)),
        )

    def save(self) -> None:
        """Write the table; and the batch's result once every trial has ended in some way."""
        self._spent = self._ledger.spent()
        self._saved_at = time.monotonic()
        result = self.result()
        self._folder.write_table(result)
        if result.is_complete:
            self._folder.run.write_result(_summary(result))

    @property
    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._begun

    def _start_what_fits(self, executor: Executor) -> None:
        """Start waiting trials in their order; one that does not fit the budget lets smaller ones pass."""
        put_back: list[str] = []
        while self._queue and len(self._running) < executor.slots:
            name = self._queue.popleft()
            if not self._start(executor, self._states[name]):
                put_back.append(name)
        self._queue.extendleft(reversed(put_back))
        if not self._running:
            for name in self._queue:
                self._give_up(self._states[name])
            self._queue.clear()

    def _start(self, executor: Executor, state: _State) -> bool:
        name = state.trial.id
        if self._is_time_up:
            return False
        ticket = self._ledger.admit(name, state.least)
        if ticket is None:
            return False
        state.status, state.attempts, state.error = "running", state.attempts + 1, ""
        self._running.add(name)
        self._emit(TrialStarted(name, state.attempts).to_dict())
        executor.start(Job(state.trial, ticket, self._folder.path, self._seconds_left()))
        return True

    def _seconds_left(self) -> float | None:
        cap = self._batch.max_seconds
        return None if cap is None else cap - self._seconds

    @property
    def _is_time_up(self) -> bool:
        left = self._seconds_left()
        return left is not None and left <= 0

    def _give_up(self, state: _State) -> None:
        state.status = "not run"
        if self._is_time_up:
            state.error = f"the batch reached max_seconds={self._batch.max_seconds:g} before this trial began"
        else:
            caps = _caps(self._batch).items()
            named = ", ".join(f"{name}={value:g}" for name, value in caps if value is not None)
            state.error = (
                f"the batch's budget ({named}) is too small for it: it needs at least {self._least(state)}"
            )
        self._tell_end(state)

    def _least(self, state: _State) -> str:
        """Return the smallest calls, tokens and cost that a trial needs, as far as the batch limits them."""
        least, caps = state.least, self._batch.caps
        parts = [f"{counted(least.calls, 'call')}"]
        if caps.max_tokens is not None:
            parts.append(f"about {counted(least.tokens, 'token')}")
        if caps.max_cost is not None:
            parts.append(f"about ${least.cost_usd:.4g}")
        return " and ".join(parts)

    def _end(self, name: str, outcome: Outcome) -> None:
        state = self._states[name]
        self._running.discard(name)
        if outcome.status == "lost" and state.lost < self._batch.executor.retries:
            self._go_on(state, outcome)
            return
        self._ledger.release(name)
        state.how = _how(state, outcome)
        state.status, state.error = "failed", outcome.error
        if outcome.status == "finished":
            status, state.scores = _finished(self._folder, state.trial)
            state.status = "finished" if status == "finished" else "failed"
            state.error = "" if state.scores else "its run folder has no result"
        self._has_failed |= state.status == "failed"
        state.is_unpriced = _is_unpriced(self._folder, state)
        self._tell_end(state)

    def _go_on(self, state: _State, outcome: Outcome) -> None:
        state.lost += 1
        state.status = "waiting"
        self._queue.appendleft(state.trial.id)
        message = f"{state.trial.label}: {outcome.error or 'its worker was lost'}; the batch resumes it"
        self._emit(TrialLost(state.trial.id, message).to_dict())

    def _tell_end(self, state: _State) -> None:
        self._spent = self._ledger.spent()
        self._emit(TrialEnded(state.trial.id, self._row(state)).to_dict())
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def _tell_spent(self) -> None:
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()
        total = _sum(self._ledger.spent().values())
        self._emit(BatchSpent(total.calls, total.tokens, total.cost_usd, self._seconds).to_dict())

    def _row(self, state: _State) -> Row:
        trial, spent = state.trial, self._spent.get(state.trial.id, Amount())
        folder = self._folder.trial(trial.id)
        facts = state.scores or {"model": trial.config.model}
        return Row(
            trial=trial.id,
            own=trial.own,
            status=state.status,
            how=state.how,
            attempts=state.attempts,
            sent=spent.calls,
            paid_usd=None if spent.calls and state.is_unpriced else spent.cost_usd,
            error=state.error,
            run_dir=str(folder.path) if folder.path.is_dir() else "",
            **facts,
        )


def _initial(folder: BatchFolder, trial: Trial, known: Mapping[str, Any], least: Amount) -> _State:
    """Return what the trial's folder says.

    How it came to that, and a failure, come from the table as it was left.
    """
    state = _State(trial, least, "waiting", str(known.get("how", "")), int(known.get("attempts", 0)))
    if folder.trial(trial.id).info_path.is_file():
        state.status, state.scores = _finished(folder, trial)
        state.is_unpriced = _is_unpriced(folder, state)
    if state.status == "finished" and not state.how:  # its driver was killed before the table was written
        goes = [event for event in folder.trial(trial.id).read_events() if event["event"] == "run_started"]
        state.how = "resumed" if any(event["resumed"] for event in goes) else "started"
        state.attempts = max(state.attempts, len(goes))
    if state.status != "finished" and known.get("status") == "failed":
        state.status, state.error = "failed", str(known.get("error", ""))
    return state


def _finished(folder: BatchFolder, trial: Trial) -> tuple[Status, dict[str, Any]]:
    result = Result.read(folder.trial(trial.id))
    return ("interrupted", {}) if result is None else ("finished", scores_of(result))


def _is_unpriced(folder: BatchFolder, state: _State) -> bool:
    """By its result, and without one by its journal."""
    if state.scores:
        return state.scores["cost_usd"] is None
    return total_cost(from_journal(folder.trial(state.trial.id).journal_path)) is None


def _how(state: _State, outcome: Outcome) -> str:
    if not state.lost:
        return outcome.how
    how = "started again" if outcome.how == "started" else outcome.how
    times = "" if state.lost == 1 else f" {counted(state.lost, 'time')}"
    why = "" if outcome.is_shared else ", its storage is not shared"
    return f"{how} after its worker was lost{times}{why}"


def _cut_short(rows: Sequence[Row], states: Mapping[str, _State]) -> Iterator[str]:
    """Yield the trials that a cap of the batch left less room than their own caps."""
    for cap in ("max_calls", "max_tokens", "max_cost", "max_seconds"):
        cut = [states[row.trial].trial.label for row in rows if cap in row.cut_by]
        if cut:
            names = "; ".join(cut[:3]) + (f"; and {len(cut) - 3} more" if len(cut) > 3 else "")
            yield f"{cap} of the batch cut the search short in {names}. A larger limit may find more."


def _exceeded(caps: Caps, used: Amount) -> Iterator[str]:
    """Yield a sentence for each cap of the batch that its endpoints have exceeded."""
    limits = (("max_tokens", caps.max_tokens, used.tokens), ("max_cost", caps.max_cost, used.cost_usd))
    for cap, limit, value in limits:
        if limit is not None and (over := excess(cap, limit, value)):
            yield f"{cap}={limit:g} of the batch was {over}, because an endpoint counted more than before"


def _caps(batch: Batch) -> dict[str, float | None]:
    caps = batch.caps
    return {"max_calls": caps.max_calls, "max_tokens": caps.max_tokens, "max_cost": caps.max_cost}


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for amount in amounts:
        total = Amount(
            total.calls + amount.calls, total.tokens + amount.tokens, total.cost_usd + amount.cost_usd
        )
    return total


def _summary(result: BatchResult) -> dict[str, Any]:
    """Return the `result.json` of a batch: what a listing of runs shows of it."""
    models = {row.model for row in result.rows}
    return {
        "status": "finished",
        "model": models.pop() if len(models) == 1 else None,
        "calls": result.sent,
        "cost_usd": result.paid_usd,
        "trials": len(result.rows),
        "table": "table.csv",
    }
