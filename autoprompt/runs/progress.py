"""How far a run is, for those who watch it from outside: one small file, replaced as rows are done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autoprompt.text.files import read_bytes, to_json

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
    """The last event noted there; empty where there is none, or no JSON object."""
    try:
        event = json.loads(read_bytes(path))
    except (OSError, ValueError):
        return {}
    return event if isinstance(event, dict) else {}
