"""Who runs trials: a job, its outcome, and the protocol of executors, with the one for this process."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol, cast

from autoprompt.batch.trials import Trial, check_unchanged, from_record, to_record
from autoprompt.errors import AutopromptError, InputError, Interrupted, Voice, tell
from autoprompt.evaluation.task import given_program
from autoprompt.llm.adapter import Models
from autoprompt.llm.client import WeightsProgress
from autoprompt.llm.limits.ledger import Account, Books, Caps, FileLedger, Ticket
from autoprompt.optimizer.prepare import prepare
from autoprompt.optimizer.resume import check_options_kept
from autoprompt.optimizer.session import search
from autoprompt.records import Event
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.events import BestChanged, NodeStarted, RowsEvaluated, RunStarted
from autoprompt.runs.session import Session
from autoprompt.sandbox import untrusted
from autoprompt.text.display import redact
from autoprompt.text.machine import machine_problem

Status = Literal["finished", "failed", "lost"]
How = Literal["started", "resumed"]
_ROWS_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """A trial that is to be run now. batch_dir: where its folder is. seconds_left: of the batch's cap."""

    trial: Trial
    ticket: Ticket
    batch_dir: Path
    seconds_left: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without secrets: keys are in variables only."""
        return {
            "trial": to_record(self.trial),
            "ticket": asdict(self.ticket),
            "batch_dir": str(self.batch_dir),
            "seconds_left": self.seconds_left,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        ticket = Ticket(**data["ticket"])
        return cls(from_record(data["trial"]), ticket, Path(data["batch_dir"]), data["seconds_left"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt at a trial ended. "lost": its process is gone, or it was given up; it may go on.

    how: whether it went on from its run folder. error: for the row, one line or a few, without secrets.
    is_shared: whether it worked in the batch's own folder, so that a later attempt finds what it did.
    """

    status: Status
    how: How = "started"
    error: str = ""
    exit_code: int = 0
    is_shared: bool = True

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        return cls(**data)


def run_job(
    job: Job, account: Account, *, models: Models | None = None, on_event: Callable[[Event], None]
) -> Outcome:
    """Run a trial to its end, or resume it from its folder.

    A failure is an outcome, not an exception: the other trials go on.

    Raises:
        Interrupted: On Ctrl-C.
    """
    how: How = "started"
    try:
        store = RunStore(job.batch_dir)
        folder, is_there = _folder(store, job.trial)
        how = "resumed" if is_there else "started"
        check_unchanged(job.trial)
        check_options_kept(job.trial.id, job.trial.config, "Run the batch file again.")
        with given_program(job.trial.config, None) as config:
            preparation = prepare(config, has_own_models=models is not None)
            if not is_there:
                folder = store.create(
                    preparation.config.model_dump(exclude_none=True) | dict(preparation.splits.paths),
                    run_id=job.trial.id,
                )
            told = _thinned(on_event)
            with Session.at_work(folder, models, told, is_resumed=is_there) as session:
                if folder.read_result() is None:
                    search(session, preparation, account=account)
    except Interrupted as error:
        if error.__context__ is not None and isinstance(error.__context__, KeyboardInterrupt):
            raise
        return Outcome("lost", how, str(error), error.exit_code)
    except AutopromptError as error:
        return Outcome("failed", how, _shown(error), error.exit_code)
    except (OSError, MemoryError, sqlite3.Error) as error:
        problem = machine_problem(error)
        said = _shown(error) if problem is None else redact(tell(problem, Voice.YAML))
        return Outcome("failed", how, str(said), InputError.exit_code)
    except Exception as error:  # noqa: BLE001 - a row of the table; the traceback goes to the trial's log
        traceback.print_exc()
        return Outcome("failed", how, f"{type(error).__name__}: {_shown(error)}", AutopromptError.exit_code)
    return Outcome("finished", how)


def _folder(store: RunStore, trial: Trial) -> tuple[RunFolder, bool]:
    """Return the trial's folder, and whether a run was begun there.

    What a kill left of a beginning is cleared.
    """
    path = store.runs_dir / trial.id
    if path.is_dir() and not (path / "run.json").is_file():
        untrusted.remove_tree(path)
    return RunFolder(path), path.is_dir()


def _shown(error: BaseException) -> str:
    """Without what an answer of an endpoint may repeat of our request: a key, a password in an address."""
    said = error.message(Voice.YAML) if isinstance(error, AutopromptError) else str(error)
    return str(redact(said))


def _thinned(on_event: Callable[[Event], None]) -> Callable[[Event], None]:
    """Rows come by the hundred a second: of them, twice a second is enough to watch."""
    told_at = 0.0

    def emit(event: Event) -> None:
        nonlocal told_at
        kind = event["event"]
        if kind == RowsEvaluated.kind:
            now = time.monotonic()
            if now - told_at < _ROWS_EVERY_S and event["done"] < event["total"]:
                return
            told_at = now
        if kind in _RELAYED:
            on_event(event)

    return emit


# What a watcher of many trials needs; the other events are in the trial's events.jsonl.
_RELAYED = frozenset(
    (
        *(kind.kind for kind in (RunStarted, NodeStarted, RowsEvaluated, BestChanged, WeightsProgress)),
        "warning",
    )
)


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
        """Return what has happened since the last call; waits so long for something to happen."""
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
        """Run the next job to its end; its events go to `on_report` as they come."""
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


# --- trials as processes of this machine, one each, which end when this one ends ---

_LAST_WORDS_BYTES = 4000
_WORKER = "from autoprompt.batch.executor import work_for_driver; work_for_driver()"
_ORPHANED = 75  # the exit code of a worker whose driver is gone; nobody is there to read it


@dataclass(slots=True, eq=False)
class _Worker:
    job: Job
    process: subprocess.Popen[bytes]
    log: Path
    buffer: bytearray = field(default_factory=bytearray)
    outcome: Outcome | None = None

    @property
    def stdin(self) -> IO[bytes]:
        return cast(IO[bytes], self.process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        return cast(IO[bytes], self.process.stdout)


class LocalExecutor:
    """An `Executor` of processes. ledger: the one in the batch's folder.

    What a process writes to stderr is in `logs/TRIAL.log` of the batch.
    """

    def __init__(self, jobs: int, ledger: FileLedger) -> None:
        self.slots = jobs
        self._ledger = ledger
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []

    @property
    def ledger(self) -> Books:
        return self._ledger

    def start(self, job: Job) -> None:
        log = job.batch_dir / "logs" / f"{job.trial.id}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            process = subprocess.Popen(
                # -P: a `pydantic.py` of the working directory is not what `import pydantic` means
                [sys.executable, "-P", "-c", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the driver, which ends them
            )
        worker = _Worker(job, process, log)
        self._workers.append(worker)
        self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
        order = {"job": job.to_dict(), "caps": asdict(self._ledger.caps)}
        with suppress(BrokenPipeError):  # it died at once; `poll` finds out
            worker.stdin.write(json.dumps(order).encode() + b"\n")
            worker.stdin.flush()

    def poll(self, timeout_s: float) -> list[Report]:
        reports: list[Report] = []
        for key, _ in self._selector.select(timeout_s):
            reports += self._read(key.data)
        return reports

    def stop(self) -> None:
        for worker in self._workers:
            # The whole group: a metric or a sandbox may have started processes of its own.
            with _may_be_gone():
                os.killpg(worker.process.pid, signal.SIGKILL)
        while self._workers:
            self._end(self._workers[0])

    def _read(self, worker: _Worker) -> list[Report]:
        data = os.read(worker.stdout.fileno(), 1 << 16)
        name = worker.job.trial.id
        if not data:
            outcome = self._end(worker)
            return [Report(name, outcome=outcome)]
        worker.buffer += data
        *lines, rest = bytes(worker.buffer).split(b"\n")
        worker.buffer = bytearray(rest)
        reports = []
        for line in lines:
            message = json.loads(line)
            if "outcome" in message:
                worker.outcome = Outcome.from_dict(message["outcome"])
            else:
                reports.append(Report(name, message["news"]))
        return reports

    def _end(self, worker: _Worker) -> Outcome:
        """Take the process down and say how it ended."""
        process = worker.process
        self._selector.unregister(worker.stdout)
        self._workers.remove(worker)
        code = process.wait()
        for stream in (worker.stdin, worker.stdout):
            with _may_be_gone():
                stream.close()
        if worker.outcome is not None:
            return worker.outcome
        if code < 0:
            said = f"its process was ended by {signal.Signals(-code).name}"
        else:
            said = f"its process ended with exit code {code}"
        return Outcome("lost", error=f"{said}{_last_words(worker.log)}")


def _last_words(log: Path) -> str:
    """Return the last line of a log, for the row of a trial whose process died."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LAST_WORDS_BYTES))
        lines = stream.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


def _may_be_gone() -> suppress:
    """Around what may fail because the process has ended already."""
    return suppress(ProcessLookupError, BrokenPipeError)


def work_for_driver() -> None:
    """Be the process of one trial: read its job from stdin, write events and the outcome to stdout, as JSON.

    stdin stays open as long as the driver lives. When it closes, the driver is dead, `kill -9` included, and
    this process ends at once: nobody is left behind who goes on spending.
    """
    order = json.loads(_order())
    job, caps = Job.from_dict(order["job"]), Caps(**order["caps"])
    out = os.dup(1)
    os.dup2(2, 1)  # what a metric of the user's prints is no report
    # A thread, since a read is the only thing that ends with the driver on every system. It does no work.
    threading.Thread(target=_end_with_driver, name="driver-watch", daemon=True).start()
    lock = threading.Lock()

    def tell(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with lock:
            _write(out, data)

    ledger = FileLedger(job.batch_dir / "ledger.sqlite", caps)
    account = Account(ledger, job.ticket, job.seconds_left)
    outcome = run_job(job, account, on_event=lambda event: tell({"news": event}))
    # Before the outcome is reported: its reader may look at the log at once.
    sys.stdout.flush()
    sys.stderr.flush()
    tell({"outcome": outcome.to_dict()})
    # Threads that wait for an answer are daemons, but the interpreter's end can still trip over them.
    os._exit(0)


def _order() -> bytes:
    """Return the one line that the driver writes; then it keeps silent, so nothing after it is lost here."""
    order = bytearray()
    while not order.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            os._exit(_ORPHANED)
        order += part
    return bytes(order)


def _end_with_driver() -> None:
    while os.read(0, 1024):
        pass
    os._exit(_ORPHANED)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(handle, view) :]
    except BrokenPipeError:
        os._exit(_ORPHANED)
