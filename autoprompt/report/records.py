"""The parts of a run as a person looks at them: sides, candidates, rows, spending, lessons. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autoprompt.llm.prices import Cost
from autoprompt.records import Demo, Message, one_text
from autoprompt.stats import difference

CandidateStatus = Literal["pending", "accepted", "rejected"]
RowState = Literal["fixed", "broken", "right", "wrong", "lost"]


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """One candidate and how its race ended.

    score: mean on the `rows` rows that it was judged by, against `parent_score` of its first parent on the
        same ones; None while it races. Candidates that were dropped early have few rows.
    calls: what the run had sent when the candidate was settled; None while it races, 0 for the original.
    cost: of a call; None if a run wrote none.
    """

    id: str
    operator: str
    iteration: int
    parents: tuple[str, ...]
    status: CandidateStatus
    change: str
    components: Mapping[str, str]
    demos: tuple[Demo, ...]
    score: float | None = None
    rows: int = 0
    parent_score: float | None = None
    p_value: float | None = None
    calls: int | None = None
    cost: Cost | None = None

    @property
    def shown_cost(self) -> str:
        """1,000 calls, for people."""
        return "" if self.cost is None else self.cost.shown(1000)

    @property
    def is_original(self) -> bool:
        return self.operator == "original"

    @property
    def prompt(self) -> str:
        """The text of the only component; of several, all of them under their names."""
        return one_text(self.components)


@dataclass(frozen=True, slots=True)
class Step:
    """The best so far from a moment on: `score` on validation, once `calls` requests had been sent."""

    calls: int
    score: float
    id: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the search has come. node: the one at work now, "" where nothing runs.

    best_score, original_score: means on the same `rows` validation rows; None before the first race.
    pending: ids of the candidates that race now. refused: proposals that were refused before any call.
    """

    iteration: int = 0
    max_iterations: int = 0
    node: str = ""
    best_score: float | None = None
    original_score: float | None = None
    rows: int = 0
    pending: tuple[str, ...] = ()
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a prompt answered for one row. text: the answer as it was read; the raw one where it was not."""

    text: str
    score: float
    is_correct: bool
    is_unparsed: bool = False
    is_lost: bool = False
    error: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row under both prompts; None for one that it was not run under.

    group: of the rows that belong together; None for a row alone, and in runs that did not keep it.
    turns: the conversation whose last question `input` is; () for any other input.
    """

    example_id: str
    input: str
    expected: str
    original: Answer | None
    best: Answer | None
    group: str | None = None
    turns: tuple[Message, ...] = ()

    @property
    def state(self) -> RowState:
        """fixed, broken: the score rose or fell; lost: the endpoint failed it, so nothing is compared."""
        sides = [side for side in (self.original, self.best) if side is not None]
        if any(side.is_lost for side in sides):
            return "lost"
        if self.original is not None and self.best is not None:
            gain = difference(self.best.score, self.original.score)
            if gain:
                return "fixed" if gain > 0 else "broken"
        return "right" if sides and sides[-1].is_correct else "wrong"


@dataclass(frozen=True, slots=True)
class Confusion:
    """Expected labels (rows) against answers (columns) under one prompt.

    counts: one line for each label, one column for each label and a last one for every other answer.
    """

    name: Literal["original", "best"]
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one change did, as the run noted it. verdict: better, worse, no_difference, or "" if unknown."""

    text: str
    verdict: str = ""
    gain: float | None = None
    rows: int = 0
