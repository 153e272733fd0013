"""How long a run will still take: what each phase has taken so far, times what is left of each.

A run measures rows (the best on train, races, the confirmation, the sealed test) and writes (analysis and
prompts). Rows are asked in waves, as many as are asked at once; a wave takes about as long as the last ones
did. Writing takes as long a round as it has. How many rounds come is uncertain: see `Remaining._later`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autoprompt.optimizer.search.plan import Plan, candidates_for, race_cost, race_rows
from autoprompt.runs.events import (
    TRIAL,
    AnyEvent,
    BestChanged,
    CandidateProposed,
    NodeStarted,
    RowsEvaluated,
    RunStarted,
)
from autoprompt.runs.result import Confirmation

_MEASURING, _WRITING = ("predict", "final_predict"), ("analyze", "rewrite")
_RECENT_BLOCKS = 8  # that say how long a wave takes: prompts grow, and so does their time
_ROWS_OF_RATE = 40
# Measured with benchmarks/remaining_time.py and of the runs in benchmarks/docs/search.md: about every third
# round finds something better.
_GAINS = 1 / 3
# Of the rows of a race in which half stay at each stage. Those far behind leave sooner.
_RACED = 0.85
# Answers of a writer are longer than those to rows. Only until a round has been written.
_WRITER_WAVES = 3


@dataclass(frozen=True, slots=True)
class Work:
    """What a run plans to do, as `run_started` tells it.

    blocks: where the stages of a race end. fresh, test, train: rows. candidates, writers, analyst_calls: of a
    round, at most. patience: rounds without a gain that end the search. train_batch: rows of a round's look.
    """

    blocks: tuple[int, ...]
    fresh: int
    test: int
    train: int
    candidates: int
    writers: int
    analyst_calls: int
    patience: int
    train_batch: int
    calls_per_row: float
    max_iterations: int
    max_calls: int | None

    @classmethod
    def of(cls, run: RunStarted) -> Work | None:
        """Return the work of a run; None for a run that does not tell it, or tells it otherwise."""
        facts = {
            **(run.plan or {}),
            "test": run.sizes.get("test", 0),
            "train": run.sizes.get("train", 0),
            "max_iterations": run.max_iterations,
        }
        blocks, most = facts.pop("blocks", None), run.budget.get("max_calls")
        if not isinstance(blocks, list) or not blocks or not isinstance(most, int | None):
            return None
        if not all(isinstance(number, int | float) for number in (*blocks, *facts.values())):
            return None
        try:
            return cls(tuple(blocks), max_calls=most, **facts)
        except TypeError:  # another version's
            return None

    @property
    def plan(self) -> Plan:
        """As the search has it, without the rows."""
        return Plan((), (), self.blocks, self.calls_per_row, self.train_batch)

    @property
    def confirming(self) -> int:
        """Rows of train that winner and original are asked besides the fresh ones, about."""
        return 2 * min(self.blocks[-1], self.train // 2)

    def race(self, candidates: int, *, is_first: bool) -> list[int]:
        """Return the rows of each stage. is_first: whether the best has not been asked yet."""
        before = [0, *self.blocks]
        rows = [race_rows(candidates, self.blocks[: n + 1]) for n in range(len(self.blocks))]
        known = [0 if is_first else edge - start for start, edge in zip(before, self.blocks, strict=False)]
        return [
            max(1, round(_RACED * (total - earlier))) - own
            for total, earlier, own in zip(rows, [0, *rows], known, strict=False)
        ]


@dataclass(slots=True)
class _Block:
    """Rows that are asked together."""

    total: int
    began: float
    done: int = 0
    ended: float = 0.0


@dataclass
class Remaining:
    """Tell it what happens in a run, and it says how long the rest will take.

    work: None where it is not known; then only the step at hand is. concurrency: rows at once; 0: not known.
    """

    clock: Callable[[], float] = time.monotonic
    work: Work | None = None
    concurrency: int = 1
    max_seconds: float | None = None  # the run's own cap
    calls: int = 0
    is_perfect: bool = False  # the best is right on every row of the race
    is_confirmed: bool | None = None  # the winner; None until it is known
    _has_winner: bool = False
    _iteration: int = 0
    _node: str = ""
    _node_began: float = 0.0
    _racing: int = 0  # candidates of the race in this node
    _pending: int = 0  # candidates of the race to come
    _is_looking: bool = False
    _without_gain: int = 0  # races in a row
    _has_gain: bool = False
    _block: _Block | None = None
    _begun: int = 0  # blocks of this node
    _blocks: deque[_Block] = field(default_factory=lambda: deque(maxlen=_RECENT_BLOCKS))
    _rows: deque[float] = field(default_factory=lambda: deque(maxlen=_ROWS_OF_RATE))  # when each was done
    _rate_before: float | None = None
    _written: list[float] = field(default_factory=list)  # seconds of writing, by round

    def __post_init__(self) -> None:
        self._node_began = self.clock()

    # --- what happens ---

    def note(self, event: AnyEvent) -> None:
        """Keep what an event of the run says."""
        match event:
            case RunStarted():
                self.concurrency, self.work = event.concurrency, Work.of(event)
                self.max_seconds = event.budget.get("max_seconds")
            case NodeStarted():
                self.begin_node(event.node, event.iteration)
            case RowsEvaluated() if event.what != TRIAL:  # of no run: it tells nothing of what is to come
                self.add_row(event.what, event.done, event.total, event.spent.get("calls", 0))
            case CandidateProposed():
                self._pending += 1
            case BestChanged():
                self._has_gain, self._has_winner, self.is_perfect = True, True, event.score >= 1.0
            case Confirmation():
                self.is_confirmed = event.confirmed

    def begin_node(self, node: str, iteration: int) -> None:
        now = self.clock()
        if self._node in _WRITING:
            if self._node == "analyze" or not self._written:
                self._written.append(0.0)
            self._written[-1] += now - self._node_began
        if self._node == "predict" and self._racing:
            self._without_gain = 0 if self._has_gain else self._without_gain + 1
        self._end_block()
        self._node, self._iteration, self._node_began, self._begun = node, iteration, now, 0
        self._is_looking = self._has_gain = False
        if node in _MEASURING:
            self._racing, self._pending = self._pending, 0

    def add_row(self, what: str, done: int, total: int, calls: int) -> None:
        now, self.calls = self.clock(), calls
        block = self._block
        if block is None or done <= block.done or total != block.total:
            began = self._node_began if block is None else block.ended
            self._end_block()
            block = self._block = _Block(total, began)
            self._begun += 1
            self._is_looking |= self._node == "predict" and what.startswith("train")
        block.done, block.ended = done, now
        self._rows.append(now)

    def _end_block(self) -> None:
        if self._block is not None:
            self._rate_before = self.rows_per_second
            self._blocks.append(self._block)
        self._block = None
        self._rows.clear()

    # --- what it takes ---

    @property
    def rows_per_second(self) -> float | None:
        """Of the rows at hand, of the ones before until there are two."""
        block = self._block
        if block is None or len(self._rows) < 2:
            return self._rate_before
        if self.concurrency > 1 and len(self._rows) < _ROWS_OF_RATE:
            # Answers come by as many as are asked at once: what the first of them took counts, too.
            elapsed, done = self._rows[-1] - block.began, len(self._rows)
        else:
            elapsed, done = self._rows[-1] - self._rows[0], len(self._rows) - 1
        return done / elapsed if elapsed > 0 else self._rate_before

    @property
    def step_seconds(self) -> float | None:
        """Until the rows that are being asked now are done."""
        block, rate = self._block, self.rows_per_second
        return (block.total - block.done) / rate if block is not None and rate else None

    def seconds_left(self, seconds: float) -> float | None:
        """Return about how long until the run ends, by its own cap on time at the latest.

        Args:
            seconds: That it has taken so far.
        """
        left = self.run_seconds
        if left is None or self.max_seconds is None:
            return left
        return min(left, max(0.0, self.max_seconds - seconds))

    @property
    def run_seconds(self) -> float | None:
        """Until the run ends; None until it is known how long a row takes."""
        wave, work = self._wave_seconds(), self.work
        if wave is None or work is None:
            return None
        passed = self.clock() - (self._node_began if self._block is None else self._block.ended)
        at_hand = 0.0
        if self._block is not None:
            at_hand = self._waves(self._block.total - self._block.done) * wave
        if self._node == "final_predict":
            ending = self._ending(work, self._racing, self._calls_left(work))
            return max(0.0, at_hand + self._seconds(ending[self._begun :], wave) - passed)
        write = self._writing_seconds(work, wave)
        if self._node == "predict" and self._racing and not self._is_looking:
            stages = work.race(self._racing, is_first=self._iteration == 2)
            at_hand += self._seconds(stages[self._begun :], wave)
            left, rounds, race = self._calls_left(work) - sum(stages[self._begun :]), 1, 0.0
        else:
            number = self._pending
            if self._node in ("predict", "rewrite", "analyze"):  # more are to come
                number = max(number, self._affordable(work))
            stages = work.race(number, is_first=self._iteration == 1)
            left, rounds, race = self._calls_left(work) - sum(stages), 0, self._seconds(stages, wave)
            if self._node == "predict":
                at_hand += write
            elif self._node in _WRITING:
                before = self._written[-1] if self._node == "rewrite" and self._written else 0.0
                at_hand = max(0.1 * write, write - before)
        rounds += work.max_iterations - self._iteration
        later, left = self._later(work, wave, left, rounds)
        ending = self._ending(work, 0, left)
        return max(0.0, at_hand - passed) + race + later + self._seconds(ending, wave)

    def _later(self, work: Work, wave: float, calls: float, rounds: int) -> tuple[float, float]:
        """Seconds of the rounds behind the race at hand or to come, and the calls that they leave.

        There are as many as `rounds` and `calls` allow, unless `patience` races in a row find nothing better
        first: each counts by its chance to be reached.
        """
        seconds, write = 0.0, self._writing_seconds(work, wave)
        look = work.plan.calls(work.train_batch) + work.analyst_calls
        reached = {work.patience - self._without_gain: 1.0}  # chances, by races without a gain that are left
        while rounds > 0 and not self.is_perfect:
            reached = _after_a_race(reached, work.patience)
            chance = sum(reached.values())
            number = candidates_for(
                calls - look, rounds, work.candidates, work.plan, look=look, writers=work.writers
            )
            if not number or not chance:
                break
            stages = work.race(number, is_first=False)
            seconds += chance * (self._seconds([work.train_batch, *stages], wave) + write)
            calls -= chance * (look + work.writers + work.calls_per_row * sum(stages))
            rounds -= 1
        return seconds, calls

    def _waves(self, rows: float) -> int:
        return math.ceil(rows / max(1, self.concurrency))

    def _seconds(self, blocks: Sequence[int], wave: float) -> float:
        return sum(map(self._waves, blocks)) * wave

    def _wave_seconds(self) -> float | None:
        """Return how long a wave of rows takes, by the last blocks and the one at hand."""
        blocks = [*self._blocks, *([self._block] if self._block is not None else [])]
        waves = sum(self._waves(block.done) for block in blocks)
        return sum(block.ended - block.began for block in blocks) / waves if waves else None

    def _writing_seconds(self, work: Work, wave: float) -> float:
        """Of a round: as long as it has taken so far."""
        written = self._written[:-1] if self._node == "rewrite" else self._written
        if written:
            return sum(written) / len(written)
        return _WRITER_WAVES * (work.writers + work.analyst_calls) * wave

    def _ending(self, work: Work, candidates: int, calls: float) -> list[int]:
        """Rows of the blocks from the last race to the test, one after the other.

        calls: that are left beyond what is kept for the end.
        """
        if not candidates and self._node == "final_predict" and not self._has_winner:
            return [work.test] if work.test else []
        race = work.race(candidates, is_first=False) if candidates else []
        of_train = int(min(work.confirming, max(0.0, calls - work.calls_per_row * sum(race))))
        # A winner that is not confirmed leaves the original to be tested alone.
        tests = {None: 1.5, True: 2.0, False: 1.0}[self.is_confirmed]
        blocks = [2 * work.fresh, of_train, round(tests * work.test)]
        return [*race, *(rows for rows in blocks if rows)]

    def _affordable(self, work: Work) -> int:
        """Candidates of a race: as many as the calls that are left pay for."""
        number, left = work.candidates, self._calls_left(work)
        while number > 2 and left < race_cost(number, work.plan):
            number -= 1
        return number

    def _calls_left(self, work: Work) -> float:
        """Of the search: without those that are kept back for the end."""
        if work.max_calls is None:
            return math.inf
        return max(0.0, work.max_calls - self.calls - 2 * work.calls_per_row * (work.fresh + work.test))


def _after_a_race(reached: Mapping[int, float], patience: int) -> dict[int, float]:
    """Return the chances after one more race, by races without a gain that end the search."""
    found = {patience: _GAINS * sum(reached.values())}
    for more, chance in reached.items():
        if more > 1:
            found[more - 1] = found.get(more - 1, 0.0) + (1 - _GAINS) * chance
    return found
