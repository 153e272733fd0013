"""Trials as processes of this machine, one each, which end when this one ends, however it ends."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from autoprompt.batch.executor import Job, Outcome, Report, run_job
from autoprompt.llm.limits.ledger import Account, Books, Caps, FileLedger

_LAST_WORDS_BYTES = 4000
_WORKER = "from autoprompt.batch.local import work_for_driver; work_for_driver()"
ORPHANED = 75  # the exit code of a worker whose driver is gone; nobody is there to read it


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
            with _gone():
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
                reports.append(Report(name, message["event"]))
        return reports

    def _end(self, worker: _Worker) -> Outcome:
        """Take the process down and say how it ended."""
        process = worker.process
        self._selector.unregister(worker.stdout)
        self._workers.remove(worker)
        code = process.wait()
        for stream in (worker.stdin, worker.stdout):
            with _gone():
                stream.close()
        if worker.outcome is not None:
            return worker.outcome
        if code < 0:
            said = f"its process was ended by {signal.Signals(-code).name}"
        else:
            said = f"its process ended with exit code {code}"
        return Outcome("lost", error=f"{said}{_last_words(worker.log)}")


def _last_words(log: Path) -> str:
    """The last line of a log, for the row of a trial whose process died."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LAST_WORDS_BYTES))
        lines = stream.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


def _gone() -> suppress:
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
    outcome = run_job(job, account, on_event=lambda event: tell({"event": event}))
    # Before the outcome is reported: its reader may look at the log at once.
    sys.stdout.flush()
    sys.stderr.flush()
    tell({"outcome": outcome.to_dict()})
    # Threads that wait for an answer are daemons, but the interpreter's end can still trip over them.
    os._exit(0)


def _order() -> bytes:
    """The one line that the driver writes; then it keeps silent, so nothing after it is lost here."""
    order = bytearray()
    while not order.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            os._exit(ORPHANED)
        order += part
    return bytes(order)


def _end_with_driver() -> None:
    while os.read(0, 1024):
        pass
    os._exit(ORPHANED)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(handle, view) :]
    except BrokenPipeError:
        os._exit(ORPHANED)
