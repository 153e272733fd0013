"""How fast a run's rows are answered, by when the last of them were."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

# The rate is that of the last rows, since a new prompt can change it.
_RATE_ROWS = 40
# One by one, the slowest of so many requests is a prompt's first: a model reads its demonstrations once, and
# that takes as long as 60 rows behind them. What is left holds few of these, so they say nothing of it.
_ONE_FIRST_IN = 12


@dataclass(slots=True)
class Pace:
    """Tell it when a step and a block of rows begin, and of each row that is done.

    concurrency: rows that are asked at once; 0: not known. Until a block has two rows, all it says is of the
    block before; None where there was none.
    """

    clock: Callable[[], float] = time.monotonic
    concurrency: int = 0
    _began: float = 0.0
    _rows: deque[float] = field(default_factory=lambda: deque(maxlen=_RATE_ROWS))  # when each was done
    _rate_before: float | None = None
    _usual_before: float | None = None

    def __post_init__(self) -> None:
        self._began = self.clock()

    def begin_step(self) -> None:
        """What took place before is not the rows' time."""
        self._began = self.clock()

    def begin_block(self) -> None:
        """Other rows come now: what writing took since the last one is not theirs."""
        self._rate_before, self._usual_before = self.rows_per_second, self.usual_seconds
        self._began = max([self._began, *self._rows])
        self._rows.clear()

    def add_row(self) -> None:
        self._rows.append(self.clock())

    @property
    def rows_per_second(self) -> float | None:
        if len(self._rows) < 2:
            return self._rate_before
        if self.concurrency > 1 and len(self._rows) < _RATE_ROWS:
            # Answers come by as many as are asked at once: what the first of them took counts, too.
            elapsed, done = self._rows[-1] - self._began, len(self._rows)
        else:
            elapsed, done = self._rows[-1] - self._rows[0], len(self._rows) - 1
        return done / elapsed if elapsed > 0 else self._rate_before

    @property
    def usual_seconds(self) -> float | None:
        """Of one more row: the inverse of the rate; one by one, without the first ones of prompts."""
        if self.concurrency != 1:
            return 1 / rate if (rate := self.rows_per_second) else None
        if len(self._rows) < 2:
            return self._usual_before
        taken = sorted(later - earlier for earlier, later in pairwise(self._rows))
        usual = taken[: len(taken) - len(taken) // _ONE_FIRST_IN]
        return sum(usual) / len(usual) or None
