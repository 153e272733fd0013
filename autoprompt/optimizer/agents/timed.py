"""How long the rows of each candidate take: what is kept back of a cap on time goes by it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping

from autoprompt.measure.program import Program
from autoprompt.records import Candidate, Example, Prediction

_RECALLED_S = 0.001  # a row out of the cache or the journal


class Timed:
    """A program that keeps the time of each candidate's rows. Safe to call from several threads."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = defaultdict(float)
        self._rows: dict[str, int] = defaultdict(int)
        self._block_seconds, self._block_rows = 0.0, 0

    @property
    def components(self) -> Mapping[str, str]:
        return self._program.components

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        started = time.monotonic()
        prediction = self._program.run(example, candidate)
        taken = time.monotonic() - started
        with self._lock:
            self._seconds[candidate.id] += taken
            self._rows[candidate.id] += 1
        return prediction

    def add_block(self, rows: int, seconds: float) -> None:
        """Count rows that ran beside each other, unless cache or journal answered them: they take no time."""
        if seconds > rows * _RECALLED_S:
            self._block_rows += rows
            self._block_seconds += seconds

    @property
    def seconds_per_row(self) -> float:
        return self._block_seconds / self._block_rows if self._block_rows else 0.0

    def pace(self, candidate_id: str) -> float:
        """How many times as long as an average row one of the candidate's took; 1.0 where unknown."""
        with self._lock:
            seconds, rows = sum(self._seconds.values()), sum(self._rows.values())
            own = self._rows.get(candidate_id, 0)
            if not own or not seconds:
                return 1.0
            return self._seconds[candidate_id] / own / (seconds / rows)
