"""What the nodes work with: rows, models, files and settings. Never part of a checkpoint."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from autoprompt.dataset import Splits
from autoprompt.llm.budget import Budget
from autoprompt.memory import ExperienceFile
from autoprompt.optimizer.agents import AnalysisAgent, MemoryAgent, PredictionAgent, RewriteAgent
from autoprompt.program import Program, estimate_tokens
from autoprompt.search.plan import Depth, Plan, final_cost
from autoprompt.search.pool import Entry, Pool
from autoprompt.types import Candidate, EvaluatedRow, Evaluation, Example

Emit = Callable[[dict[str, Any]], None]


class RunFiles(Protocol):
    """The part of a run folder that the nodes write to."""

    def write_predictions(self, name: str, rows: Iterable[EvaluatedRow]) -> Path: ...

    def read_predictions(self, name: str) -> Iterable[dict[str, Any]]: ...

    def append_candidates(self, candidates: Iterable[Mapping[str, Any]]) -> None: ...


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of the search itself; see `RunConfig` for their meaning."""

    run_id: str
    task: str
    max_iterations: int
    depth: Depth
    seed: int = 0
    max_prompt_tokens: int = 2000
    max_demos: int = 32
    locked: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    can_demo: bool = True
    input_field: str = "input"


@dataclass(slots=True)
class SearchContext:
    program: Program
    splits: Splits
    plan: Plan
    settings: SearchSettings
    pool: Pool
    budget: Budget
    prediction: PredictionAgent
    analysis: AnalysisAgent
    rewriting: RewriteAgent
    memory: MemoryAgent
    files: RunFiles
    emit: Emit
    experiences: ExperienceFile | None = None
    journal_position: Callable[[], int] = lambda: 0
    open_test: Callable[[], int] = lambda: 1
    changed: set[str] = field(default_factory=set)

    def rng(self, *key: object) -> random.Random:
        """A generator that depends on the run's seed and `key` alone: a resumed run draws the same."""
        return random.Random(f"{self.settings.seed}/" + "/".join(map(str, key)))

    def seed(self, *key: object) -> int:
        return self.rng(*key).randrange(2**31)

    def add(self, candidate: Candidate) -> Entry:
        self.changed.add(candidate.id)
        return self.pool.add(candidate)

    def evaluate(self, entries: Sequence[Entry], rows: Sequence[Example], what: str) -> list[Evaluation]:
        """Evaluate what is missing of `entries` x `rows`, as one block of the budget, into the pool.

        Raises BudgetExhausted before anything is sent where the block does not fit what is left.
        """
        jobs = [(e.candidate, [r for r in rows if r.id not in e.scores]) for e in entries]
        jobs = [(candidate, missing) for candidate, missing in jobs if missing]
        total = sum(len(missing) for _, missing in jobs)
        if not total:
            return []
        with self.budget.block(total):
            evaluations = self.prediction.predict_jobs(jobs, on_row=self.row_counter(what, total))
        for evaluation in evaluations:
            self.pool.record(evaluation.candidate_id, evaluation.rows)
            self.changed.add(evaluation.candidate_id)
        return evaluations

    def row_counter(self, what: str, total: int) -> Callable[[EvaluatedRow], None]:
        """Reports each row that is done, with what has been spent so far."""
        done = 0

        def on_row(_: EvaluatedRow) -> None:
            nonlocal done
            done += 1
            event = {"event": "rows_evaluated", "what": what, "done": done, "total": total}
            self.emit({**event, "spent": self.budget.spent.to_dict()})

        return on_row

    def read_results(self, results: Mapping[str, Any]) -> list[EvaluatedRow]:
        """The rows of an evaluation that the state names; from its file, so that a resume has them too."""
        name = Path(results["path"]).stem
        return [EvaluatedRow(**{**row, "trace": ()}) for row in self.files.read_predictions(name)]

    def hold_final(self, incumbent: Entry) -> None:
        """Keep back what the final comparisons will need, by the length of the best prompt so far.

        Raises BudgetExhausted where not even that is left.
        """
        self._hold(final_cost(self.plan, len(self.splits.test)), incumbent)

    def hold_test(self, incumbent: Entry) -> None:
        """Keep back what the sealed test will need, and free the rest."""
        self._hold(2 * len(self.splits.test), incumbent)

    def _hold(self, calls: int, incumbent: Entry) -> None:
        spent, tokens, cost = self.budget.spent, 0, 0.0
        if spent.task_calls:
            per_call = spent.task.total_tokens / spent.task_calls
            grown = _prompt_tokens(incumbent.candidate) - _prompt_tokens(self.pool.original.candidate)
            tokens = round(calls * (per_call + max(0, grown)))
            if spent.task.cost_usd and spent.task.total_tokens:
                cost = tokens * spent.task.cost_usd / spent.task.total_tokens
        seconds = calls * self.budget.seconds_per_call
        self.budget.hold(calls, tokens=tokens, cost_usd=cost, seconds=seconds)


def _prompt_tokens(candidate: Candidate) -> int:
    demos = sum(estimate_tokens(d.input) + estimate_tokens(d.output) for d in candidate.demos)
    return demos + sum(estimate_tokens(text) for text in candidate.components.values())
