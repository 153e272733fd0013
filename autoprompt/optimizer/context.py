"""What the nodes share: the state, which goes into checkpoints, and rows, models, files and settings."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

from autoprompt.dataset.splits import Splits
from autoprompt.errors import BudgetExhausted
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.prices import COLD, Price, Traffic
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.measure.cost import FRAME_TOKENS, prompt_tokens, row_tokens
from autoprompt.measure.program import Program, placeholders, sends_turns
from autoprompt.measure.rows import EmptyAnswers, Job, OnExhausted, OnRow, RowTally, evaluate_jobs
from autoprompt.measure.task import Component
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import Metric
from autoprompt.metrics.judge import Grades
from autoprompt.optimizer.agents.analyst import Analyst
from autoprompt.optimizer.agents.describer import DescribingAgent
from autoprompt.optimizer.agents.writer import RewriteAgent
from autoprompt.optimizer.call_costs import CallCosts
from autoprompt.optimizer.search.demos import asking_order
from autoprompt.optimizer.search.phrases import Copies
from autoprompt.optimizer.search.plan import (
    Depth,
    Plan,
    fewest_calls,
    fewest_optimizer_calls,
    final_cost,
    race_cost,
    simplifying_calls,
)
from autoprompt.optimizer.search.pool import Entry, MeasuredUsage, Pool
from autoprompt.records import (
    Candidate,
    EvaluatedRow,
    Evaluation,
    Example,
    Message,
    OnEvent,
)
from autoprompt.settings.records import Pick
from autoprompt.text.answers.reasoning import asks_to_reason
from autoprompt.text.scripts import estimate_tokens

# A search evaluates a few missing rows at times; that all of so few failed says nothing of the endpoint.
FEWEST_TO_FAIL = 5
_RECALLED_S = 0.001  # a row out of the cache or the journal
_KEPT_EVALUATIONS = 8  # whose rows stay in memory: those of a round; older ones are read from their files


class AutoPromptState(TypedDict, total=False):
    """What the nodes hand on: plain dicts, lists, strings and numbers only, since it goes into checkpoints.

    Rows, texts of candidates and their scores live in the files of the run folder, so that a checkpoint does
    not grow with the dataset: 1,000 rows in the state over 50 steps were 12.2 MB of checkpoints, by reference
    0.4 MB.
    """

    original_prompt: str
    current_prompt: str  # the best so far
    previous_prompt: str  # the best of the round before
    dataset: dict[str, Any]  # {path, sha256, split_seed, sizes}
    results: dict[str, Any]  # {path, correct, total, measured}: rows of train, under the best so far
    analysis: dict[str, Any]  # {has_errors, error_count, total_count, suggestions, error_cases, feedback}
    iteration: int  # from 1
    max_iterations: int
    history: list[dict[str, Any]]  # {iteration, prompt, error_count, total_count, suggestions, ...}
    memory_experiences: list[dict[str, Any]]  # lessons, read once at the start, with this run's behind them
    helped: list[str]  # sentences that helped where they were added; read once, with this run's behind them

    has_memory: bool  # whether the run began with experiences of earlier runs
    original: str  # id of the original candidate
    incumbent: str  # id of the best so far
    pending: list[str]  # ids proposed by the last rewrite and not settled yet
    settled: list[str]  # ids settled in this round, for the lessons
    tried: int  # candidates raced so far
    plateau: int  # rounds in a row without a gain
    tally: dict[str, list[int]]  # operator -> [tried, accepted]
    stop_reason: str  # "" while the search goes on
    ends: dict[str, Any]  # what was tested: {highest, cheapest, reason, level}; see `ending.finish`
    instead_of: str  # id of the best of the race, where another went to the confirmation; else ""
    confirmation: dict[str, Any]  # the winner against the original on fresh rows
    test: dict[str, Any]  # the winner against the original on the sealed rows

    pool_step: int  # records of candidates.jsonl with a later step are not part of this checkpoint
    journal_position: int  # answers in the journal at this checkpoint
    cut_by: list[str]  # caps of the batch that ended a round or raced fewer candidates in it, up to here
    held: dict[str, Any]  # what the budget keeps back for the end
    grades: dict[str, Any]  # of a judge up to this checkpoint: {judge, asked, unscored, reason}
    spent: dict[str, Any]  # the budget's counters at this checkpoint


class RunFiles(Protocol):
    """The part of a run folder that the nodes write to."""

    def write_predictions(self, name: str, rows: Iterable[EvaluatedRow]) -> Path: ...

    def read_predictions(self, name: str) -> Iterable[dict[str, Any]]: ...

    def append_candidates(self, candidates: Iterable[Mapping[str, Any]]) -> None: ...


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of the search itself; see `RunConfig` for their meaning.

    locked: passages. locked_components: names of components that stay as they are, demonstrations included.
    answers_rows: one text is all that is optimized, and it answers rows; see `Component.answers_rows`.
    constrain: see `RoleModels.constrain`.
    components: what is known of each text, by name.
    judge_tokens: about how many a judge's call takes; 0 where no model judges.
    traffic: how often the winner is to be called, for what a call costs.
    measured_by: what a comparison of two candidates depends on besides them, for the memory to tell a
    repeated one.
    """

    run_id: str
    task: str
    max_iterations: int
    depth: Depth
    seed: int = 0
    max_prompt_tokens: int = 4000
    max_demos: int = 128
    pick: Pick = "cheapest"
    locked: tuple[str, ...] = ()
    locked_components: frozenset[str] = frozenset()
    answers_rows: bool = True
    constrain: str | None = None
    components: Mapping[str, Component] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    can_reason: bool = False
    input_field: str = "input"
    target_field: str = "target"
    judge_tokens: float = 0.0
    traffic: Traffic = COLD
    measured_by: str = ""


class Pace:
    """How long the rows of each candidate take. Several threads may add to it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = defaultdict(float)
        self._rows: dict[str, int] = defaultdict(int)
        self._block_seconds, self._block_rows = 0.0, 0

    def add(self, candidate: Candidate, seconds: float) -> None:
        """Count one row."""
        with self._lock:
            self._seconds[candidate.id] += seconds
            self._rows[candidate.id] += 1

    def add_block(self, rows: int, seconds: float) -> None:
        """Count rows that ran beside each other, unless cache or journal answered them: they take no time."""
        if seconds > rows * _RECALLED_S:
            self._block_rows += rows
            self._block_seconds += seconds

    @property
    def rows(self) -> int:
        """How many rows have been sent so far."""
        return self._block_rows

    @property
    def seconds_per_row(self) -> float:
        """So far, with the others that ran at the same time; 0.0 if no row has been sent."""
        return self._block_seconds / self._block_rows if self._block_rows else 0.0

    def of(self, candidate: Candidate) -> float:
        """Return how many times as long as an average row the candidate's took; 1.0 if that is not known."""
        with self._lock:
            seconds, rows = sum(self._seconds.values()), sum(self._rows.values())
            own = self._rows.get(candidate.id, 0)
            if not own or not seconds:
                return 1.0
            return self._seconds[candidate.id] / own / (seconds / rows)


@dataclass(slots=True)
class SearchContext:
    """What the nodes of a run share; each agent in it is usable alone.

    metric: what rows are scored with. concurrency: rows at once. grades: of a judge, for all that was asked.
    fields: names of what any row has. One that only some have would fail the others as a placeholder.

    price: see `CallCosts`. learned: what is known of that model by now.
    turns: of the first row, () unless rows are conversations: all are, or none. copies: rows of train in
    a text.
    """

    program: Program
    splits: Splits
    plan: Plan
    settings: SearchSettings
    pool: Pool
    budget: BudgetMeter
    metric: Metric
    analysis: Analyst
    rewriting: RewriteAgent
    describing: DescribingAgent
    files: RunFiles
    emit: OnEvent
    experiences: ExperienceFile | None = None
    journal_position: Callable[[], int] = lambda: 0
    open_test: Callable[[], int] = lambda: 1
    check_writable: Callable[[Candidate], None] = lambda _: None
    learned: LearnedTraits = field(default_factory=LearnedTraits)
    concurrency: int = 1
    price: InitVar[Price | None] = None
    changed: set[str] = field(default_factory=set)
    pace: Pace = field(default_factory=Pace)
    grades: Grades = field(init=False)
    turns: tuple[Message, ...] = field(init=False)
    fields: frozenset[str] = field(init=False)
    copies: Copies = field(init=False)
    _rows: dict[str, tuple[EvaluatedRow, ...]] = field(init=False, default_factory=dict)
    costs: CallCosts = field(init=False)

    def __post_init__(self, price: Price | None) -> None:
        self.grades = Grades.of(self.metric)
        rows = (*self.splits.train, *self.splits.val, *self.splits.test)
        self.turns = next((row.turns for row in rows), ())
        self.fields = frozenset((self.settings.input_field, *(name for row in rows for name in row.fields)))
        self.copies = Copies(self.splits.train)
        inputs = [row.full_text for row in self.splits.test or self.splits.val]
        settings, input_tokens = self.settings, sum(map(estimate_tokens, inputs)) / max(1, len(inputs))
        filled = self.fields - {settings.target_field}
        self.costs = CallCosts(self.pool, settings.input_field, filled, input_tokens, settings.traffic, price)

    @property
    def traits(self) -> Traits:
        """What is known of the task's model by now."""
        return self.learned.of("task")

    def asked(self, prompt: str) -> tuple[str, ...]:
        """Names of the fields that a single prompt is filled in with, in order; never the answer's."""
        return placeholders(prompt, self.fields - {self.settings.target_field})

    def sends_turns(self, prompt: str) -> bool:
        """Return whether rows are conversations, sent turn by turn behind this prompt."""
        return sends_turns(prompt, self.turns, self.settings.input_field)

    def rng(self, *key: object) -> random.Random:
        """Return a generator that depends on the run's seed and `key` alone: a resumed run draws the same."""
        return random.Random(f"{self.settings.seed}/" + "/".join(map(str, key)))

    def seed(self, *key: object) -> int:
        return self.rng(*key).randrange(2**31)

    def add(self, candidate: Candidate) -> Entry:
        self.changed.add(candidate.id)
        return self.pool.add(candidate)

    def ask(
        self,
        jobs: Sequence[Job],
        *,
        on_row: OnRow | None = None,
        on_exhausted: OnExhausted | None = None,
        may_all_fail: bool = False,
    ) -> list[Evaluation]:
        """Evaluate candidates, each on its own rows, as one batch. The pool learns nothing of it.

        All rows of one candidate are sent before those of the next, so that an endpoint with a prefix cache
        reads each candidate's instruction once (see `asking_order`); with many requests at once no worker
        waits for a candidate to end.

        Args:
            on_row, on_exhausted: As in `evaluate_jobs`.
            may_all_fail: No row that fails is an error, as the endpoint is known to answer.

        Returns:
            An evaluation for each job, in the order of `jobs`.

        Raises:
            JudgeError: If a judge has given hardly any grade; and what `evaluate_jobs` raises.
        """
        started = time.monotonic()
        order = asking_order([candidate for candidate, _ in jobs])
        evaluations = evaluate_jobs(
            self.program,
            [jobs[place] for place in order],
            self.metric,
            concurrency=self.concurrency,
            on_row=on_row,
            fewest_to_fail=None if may_all_fail else FEWEST_TO_FAIL,
            grant=self.budget.retries,
            on_exhausted=on_exhausted,
            on_time=self.pace.add,
        )
        self.pace.add_block(sum(len(rows) for _, rows in jobs), time.monotonic() - started)
        in_order = [evaluation for _, evaluation in sorted(zip(order, evaluations, strict=True))]
        for evaluation in in_order:
            self.grades.add(evaluation.rows)
        self.grades.check()
        return in_order

    def evaluate(
        self, entries: Sequence[Entry], rows: Sequence[Example], what: str, *, keeps_rest: bool = False
    ) -> list[Evaluation]:
        """Evaluate what is missing of `entries` x `rows`, as one block of the budget, into the pool.

        keeps_rest: as in `evaluate_as`.

        Raises:
            BudgetExhausted: Before anything is sent, if the block does not fit what is left.
        """
        jobs = [(entry, entry.candidate, rows) for entry in entries]
        return self.evaluate_as(jobs, what, keeps_rest=keeps_rest)

    def evaluate_as(
        self,
        jobs: Iterable[tuple[Entry, Candidate, Sequence[Example]]],
        what: str,
        *,
        keeps_rest: bool = False,
    ) -> list[Evaluation]:
        """Return the same of jobs: an entry, the candidate that is asked in its place, and the rows.

        The scores are the entry's. Another candidate than its own: see `choosing.held_out`. keeps_rest: where
        the budget ends on the way, what was answered counts before BudgetExhausted is raised.
        """
        ended: list[BudgetExhausted] = []
        missing = [(e, c, [row for row in rows if row.id not in e.scores]) for e, c, rows in jobs]
        missing = [(entry, candidate, rows) for entry, candidate, rows in missing if rows]
        total = sum(len(rows) for _, _, rows in missing)
        if not total:
            return []
        grown = sum(self.grown(c) * len(rows) for _, c, rows in missing) / total
        calls = self.plan.calls(total)
        tokens, cost = self._expected(calls, grown)
        with self.budget.block(calls, tokens=tokens, cost_usd=cost):
            asked = [(candidate, rows) for _, candidate, rows in missing]
            evaluations = self.ask(
                asked,
                on_row=self.tally(what, total).add,
                on_exhausted=ended.append if keeps_rest else None,
                # Rows that were lost are asked again, and some fail each time: of prompts that were answered
                # before, that is no reason to end the run, and each resume of it.
                may_all_fail=all(entry.scores for entry, _, _ in missing),
            )
        for (entry, candidate, _), evaluation in zip(missing, evaluations, strict=True):
            is_held_out = candidate is not entry.candidate
            self.pool.record(entry.candidate.id, evaluation.rows, is_held_out=is_held_out)
            self.changed.add(entry.candidate.id)
        if ended:
            raise ended[0]
        return evaluations

    def tally(self, what: str, total: int, answers: EmptyAnswers | None = None) -> RowTally:
        """Return what counts and reports rows as they are done; `ask` counts a judge's grades."""
        return RowTally(self.emit, self.budget, what, total, answers=answers)

    def save_results(self, name: str, evaluation: Evaluation) -> dict[str, Any]:
        """Write an evaluation's rows to their file; what the state keeps of them."""
        path = self.files.write_predictions(name, evaluation.rows)
        self._rows[path.stem] = evaluation.rows
        while len(self._rows) > _KEPT_EVALUATIONS:
            del self._rows[next(iter(self._rows))]
        taken = MeasuredUsage.of(row.usage for row in evaluation.rows if row.error is None)
        return {
            "path": path.name,
            "correct": evaluation.correct,
            "total": len(evaluation.rows),
            "measured": taken.to_record(),
        }

    def read_results(self, results: Mapping[str, Any]) -> list[EvaluatedRow]:
        """Return the rows of an evaluation that the state names; after a resume, from its file."""
        name = Path(results["path"]).stem
        if name not in self._rows:
            self._rows[name] = tuple(map(EvaluatedRow.from_dict, self.files.read_predictions(name)))
        return list(self._rows[name])

    def hold_final(self, *candidates: Candidate, is_simplified: bool = False) -> None:
        """Keep back what the final comparisons will need if the longest of `candidates` wins.

        is_simplified: nothing is kept any more to race simpler forms of the winner.

        Raises:
            BudgetExhausted: If not even that is left; then nothing is kept back.
        """
        calls = final_cost(self.plan, len(self.splits.test)) + self.plan.pick_calls
        calls += 0 if is_simplified else self._simplifying_calls()
        self._hold(calls, candidates, most_seconds=self._most_seconds(calls))

    def _most_seconds(self, calls: int) -> float:
        """Return the longest time to keep back for so many calls.

        Few rows say little about many: the first ones wait for new connections and a concurrency that has yet
        to grow. So the search has half of the time until as many rows have been timed as are to come. If it
        is the endpoint that is slow, the rest is used as far as it goes.
        """
        left = self.budget.seconds_left()
        if left is None or self.pace.rows * self.plan.calls_per_row >= calls:
            return math.inf
        return max(0.0, left) / 2

    def hold_confirmation(self, winner: Candidate) -> None:
        """Keep back what the final comparisons need while simpler forms of the winner race.

        Rows of train that the confirmation can ask come before the forms, but for the calls that were kept
        for these: without the rows fewer gains are confirmed.

        Raises:
            BudgetExhausted: If not even the final comparisons are left; then nothing is kept back.
        """
        self.hold_final(winner, is_simplified=True)
        left = self.budget.block_calls_left()
        if left is None:
            return
        wanted = min(self.plan.calls(2 * len(self.plan.race)), max(0, left - self._simplifying_calls()))
        calls = final_cost(self.plan, len(self.splits.test)) + self.plan.pick_calls
        try:
            self._hold(calls + wanted, (winner,), is_wish=True)
        except BudgetExhausted:
            self.hold_final(winner, is_simplified=True)

    def _simplifying_calls(self) -> int:
        most = self.budget.max_calls
        if most is None or not self.budget.caps_repeats:  # the preset's own cap has calls for it
            return simplifying_calls(self.plan)
        writing = fewest_optimizer_calls(self.settings.depth, self.analysis.most_calls)
        fewest = fewest_calls(self.plan, len(self.splits.test), writing)
        return simplifying_calls(self.plan, most - fewest)

    def hold_test(self, winner: Candidate, more_calls: int = 0) -> bool:
        """Keep back what the sealed test will need, and free the rest.

        Without room for retries where that is all there is: better some rows fail than none are asked. Of
        time that does not reach for fresh rows and test each has its share.

        Args:
            more_calls: Of the cheaper end. If they do not fit, the others are kept back alone.

        Returns:
            Whether all of it is kept back. What is left is used as far as it goes, whatever is not.
        """
        test, fresh = len(self.splits.test), len(self.plan.fresh)
        calls = self.plan.calls(2 * test)
        if more_calls:
            with suppress(BudgetExhausted):
                self._hold(calls + more_calls, (winner,))
                return True
        try:
            self._hold(calls, (winner,), is_wish=True)
        except BudgetExhausted:
            left = self.budget.seconds_left()
            most = math.inf if left is None else max(0.0, left) * test / max(1, test + fresh)
            try:
                self._hold(calls, (winner,), leaves_room=False, most_seconds=most)
            except BudgetExhausted:
                return False
        return not more_calls

    def check_race(self, candidates: Sequence[Candidate]) -> None:
        """Check that what is not kept back pays for a race of `candidates`.

        Raises:
            BudgetExhausted: If it does not.
        """
        self.check_calls(race_cost(len(candidates) - 1, self.plan), candidates)

    def check_calls(self, calls: int, candidates: Sequence[Candidate]) -> None:
        """Check that what is not kept back pays for so many calls, which `candidates` share.

        Raises:
            BudgetExhausted: If it does not.
        """
        grown = sum(map(self.grown, candidates)) / len(candidates)
        tokens, cost = self._expected(calls, grown)
        with self.budget.block(calls, tokens=tokens, cost_usd=cost):
            pass

    def _hold(
        self,
        calls: int,
        candidates: Sequence[Candidate],
        *,
        leaves_room: bool = True,
        is_wish: bool = False,
        most_seconds: float = math.inf,
    ) -> None:
        # Half of the calls are the original's.
        tokens, cost = self._expected(calls, max(map(self.grown, candidates)) / 2)
        paces = max(map(self.pace.of, candidates)), self.pace.of(self.pool.original.candidate)
        # What writing takes is no row's: its calls are few and long. Unknown after a resume.
        per_row = self.pace.seconds_per_row or self.budget.seconds_per_call * self.plan.calls_per_row
        seconds = min(most_seconds, calls / self.plan.calls_per_row * per_row * sum(paces) / 2)
        self.budget.hold(
            calls, tokens=tokens, cost_usd=cost, seconds=seconds, leaves_room=leaves_room, is_wish=is_wish
        )

    def grown(self, candidate: Candidate) -> int:
        """Tokens by which the candidate is longer than the original, in each call, reasoning included.

        Of several components each is about one call of a row: the mean of them.
        """
        field = self.settings.input_field
        grown = row_tokens(candidate, field) - row_tokens(self.pool.original.candidate, field)
        return max(0, grown) // len(candidate.components)

    def _expected(self, calls: int, grown: float) -> tuple[int, float]:
        """Tokens and cost of calls, a judge's included, if the others are `grown` tokens longer than so far.

        Before the first one, as where the cache has answered, tokens by their texts, and no cost.
        """
        spent = self.budget.spent
        asked = spent.task_calls + spent.judge_calls
        if not asked:
            texts = prompt_tokens(self.pool.original.candidate, self.settings.input_field)
            own = texts + self.costs.input_tokens + FRAME_TOKENS + grown
            judged = self.settings.judge_tokens
            is_judged = judged > 0
            per_row = own * (self.plan.calls_per_row - is_judged) + judged
            return round(calls * per_row / self.plan.calls_per_row), 0.0
        tokens = cost = 0.0
        for role_calls, usage, longer in (
            (spent.task_calls, spent.task, grown),
            (spent.judge_calls, spent.judge, 0.0),
        ):
            wanted = calls / asked * (usage.total_tokens + role_calls * longer)
            tokens += wanted
            # By the role's own price: what writing costs would make a token of a row many times as dear.
            cost += wanted * (usage.cost_usd or 0.0) / max(1, usage.total_tokens)
        return round(tokens), cost


def is_slow_round(context: SearchContext, incumbent: Entry) -> bool:
    """Return whether each answer of a round, besides `incumbent`, takes far longer than the original's."""
    return context.traits.is_slow and is_slower(incumbent, context.pool.original)


def is_slower(entry: Entry, other: Entry) -> bool:
    """Return whether it writes its reasoning for each row, and `other` does not."""
    return asks_to_reason(entry.candidate.prompt) and not asks_to_reason(other.candidate.prompt)
