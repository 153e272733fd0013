"""What the nodes work with, never part of a checkpoint, and their state: numbers and short texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from autoprompt.llm.client import CallRole, Client, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.records import OnEvent
from autoprompt.sandbox import Level, Limits
from autoprompt.science.records import PassLog
from autoprompt.text.templates import Language


@dataclass(frozen=True, slots=True)
class Bench:
    """Where experiments run. workdir: absolute. data: files copied into it. python: their interpreter."""

    workdir: Path
    data: tuple[Path, ...]
    level: Level
    python: str
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class ScienceContext:
    """role: whose budget line the calls are. max_output_tokens: of one answer. context_tokens: the window of
    the model. language: of the requests; None: the task's. makes_files: whether files are due where `io` is
    given. owns_budget: False where the budget is another run's, who keeps back what it needs. more_room: what
    lets an answer be longer, "" where nothing does."""

    client: Client
    task: str
    io: str | None
    bench: Bench
    log: PassLog
    budget: BudgetMeter
    max_iterations: int
    context_tokens: int
    max_output_tokens: int
    emit: OnEvent
    role: CallRole = "task"
    temperature: float = 0.0
    seed: int = 0
    saved: Callable[[], None] = lambda: None
    journal_position: Callable[[], int] = lambda: 0
    language: Language | None = None
    makes_files: bool = True
    owns_budget: bool = True
    more_room: str = ""
    options: Options = field(init=False)

    def __post_init__(self) -> None:
        options = Options(
            role=self.role,
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            seed=self.seed,
        )
        object.__setattr__(self, "options", options)

    @property
    def experiments(self) -> int:
        """How many experiments there may be: the last pass runs nothing, but one there always is."""
        return max(1, self.max_iterations - 1)

    @property
    def room_tokens(self) -> int:
        return self.context_tokens - self.max_output_tokens


class ScienceState(TypedDict, total=False):
    number: int  # turns of the model so far
    experiments: int  # how many there may be
    known: dict[str, Any]  # what the model learns about data and libraries: {files, libraries}
    has_code: bool  # whether the last turn has an experiment that is to be run
    conclusion: str
    is_concluded: bool
    stopped_early: bool
    stop_reason: str
    warnings: list[dict[str, Any]]  # problems as JSON

    journal_position: int  # answers in the journal at this checkpoint
    spent: dict[str, Any]  # the budget's counters at this checkpoint
