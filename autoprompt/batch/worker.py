"""The process of one trial: its job comes in on stdin, events and the outcome go out on stdout, as JSON.

stdin stays open as long as the driver lives. When it closes, the driver is dead, `kill -9` included, and this
process ends at once: nobody is left behind who goes on spending.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from autoprompt.batch.job import Job, run_job
from autoprompt.llm.limits.account import Account
from autoprompt.llm.limits.ledger import Caps, FileLedger

ORPHANED = 75  # the exit code of a worker whose driver is gone; nobody is there to read it


def main() -> None:
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
    # Before the outcome is told: whoever hears it may look at the log at once.
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


if __name__ == "__main__":
    main()
