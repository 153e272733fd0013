"""One run of the real graph, race, gate, memory and budget on a simulated task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoprompt.dataset.splits import Splits
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import CallRole, Completion, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.measure.cost import row_tokens
from autoprompt.measure.program import PromptProgram
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import get_metric
from autoprompt.metrics.texts import ExactMatch
from autoprompt.optimizer.agents.analyst import AnalysisAgent, CountingAnalyst
from autoprompt.optimizer.agents.describer import DescribingAgent
from autoprompt.optimizer.agents.writer import RewriteAgent
from autoprompt.optimizer.context import SearchContext, SearchSettings
from autoprompt.optimizer.graph import build_graph, first_state, recursion_limit
from autoprompt.optimizer.search.plan import (
    DEPTHS,
    Depth,
    Overhead,
    Plan,
    fewest_optimizer_calls,
    first_round_calls,
    make_plan,
    with_pick,
)
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, EvaluatedRow, Example, Message, Prediction, Score
from autoprompt.settings.records import Pick
from simulation.models import student, writer
from simulation.world import World, make_rows, number_of

PROMPT = "Decide whether the item is A or B."


class Naming(ExactMatch):
    """The exact match, with feedback that names the rule of a wrong row."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def score(self, prediction: Prediction, example: Example) -> Score:
        score = super().score(prediction, example)
        rule = self._world.rule_of(number_of(example.input_text))
        return score if score.is_correct else replace(score, feedback=f"the answer should have minded {rule}")


@dataclass
class MemoryFiles:
    """The run folder's part that nodes write to, without a disk."""

    predictions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def write_predictions(self, name: str, rows: Iterable[EvaluatedRow]) -> Path:
        kept = ({f: getattr(r, f) for f in r.__slots__} | {"usage": r.usage.to_record()} for r in rows)
        self.predictions[name] = list(kept)
        return Path(f"{name}.jsonl")

    def read_predictions(self, name: str) -> list[dict[str, Any]]:
        return self.predictions[name]

    def append_candidates(self, candidates: Iterable[Any]) -> None:
        pass


@dataclass(frozen=True)
class Outcome:
    """One run.

    original, best, true_gain: over the population. reported_gain: what the run itself said of its winner, on
    fresh rows where there were any. trace: calls and true accuracy at each change of the best. tokens: about
    how many a row takes beside its input, with the prompt that is returned.
    """

    original: float
    best: float
    true_gain: float
    reported_gain: float | None
    is_original: bool
    calls: int
    trace: tuple[tuple[int, float], ...]
    tokens: int


def _own(world: World, seed: int, budget: BudgetMeter) -> tuple[ScriptedClient, ScriptedClient]:
    """Student and writer, whose calls the budget pays."""

    def charged(inner: Callable[..., Completion], role: CallRole) -> Callable[..., Completion]:
        def call(messages: list[Message], options: Options) -> Completion:
            budget.charge(role)
            answer = inner(messages, options) if role == "optimizer" else inner(messages)
            budget.add_usage(role, answer.usage)
            return answer

        return call

    return (
        ScriptedClient(charged(student(world), "task")),
        ScriptedClient(charged(writer(world, seed), "optimizer")),
    )


def _reported_gain(final: Mapping[str, Any]) -> float | None:
    """What the run says of the prompt that it returns; None where that is the original."""
    ends = final.get("ends") or {}
    confirmation = ends["level"]["confirmation"] if ends.get("cheapest") else final.get("confirmation")
    if not confirmation or not confirmation["confirmed"]:
        return None
    part = confirmation["fresh"] if confirmation["fresh"]["rows"] else confirmation["raced"]
    return float(part["score"] - part["other_score"])


def simulate(
    world: World,
    seed: int,
    *,
    max_calls: int = 400,
    sizes: dict[str, int] | None = None,
    preset: str = "standard",
    memory: Path | None = None,
    task: str = "sort the items into A and B",
    max_demos: int = 128,
    pick: Pick = "cheapest",
    is_raced: bool = True,
    can_reason: bool = True,
    is_embedded: bool = False,
) -> Outcome:
    """One run of the real graph. sizes: rows by part; memory: an experience file to read and write.

    is_embedded: whether rounds are as short as on the embedded model, which writes nothing for labels.
    """
    splits = make_rows(world, seed, sizes or {"train": 75, "val": 75, "test": 0})
    depth = _depth(preset, writes=not is_embedded or preset == "thorough" or max_demos == 0)
    plan = _plan(splits, depth, pick, max_calls)
    if not is_raced:
        plan = replace(plan, blocks=(len(plan.race),))
    settings = SearchSettings(
        run_id=f"sim-{world.name}-{seed}-{task[:3]}",
        task=task,
        max_iterations=depth.max_iterations,
        depth=depth,
        seed=seed,
        max_demos=max_demos,
        pick=pick,
        labels=world.labels,
        can_reason=can_reason,
    )
    context = _context(world, seed, splits, plan, settings, BudgetMeter(max_calls=max_calls), memory)
    traits = Traits(is_slow=is_embedded, rereads_prefix=is_embedded)
    context.learned = LearnedTraits(said=lambda _: traits)
    trace: list[tuple[int, float]] = []

    def emit(event: dict[str, Any]) -> None:
        if event["event"] == "best_changed":
            trace.append((context.budget.spent.calls, _truth(world, context.pool[event["id"]].candidate)))

    context.emit = emit
    state = first_state(context, {"path": "", "sha256": "", "split_seed": 0, "sizes": splits.sizes})
    final = build_graph().invoke(
        state, {"recursion_limit": recursion_limit(depth.max_iterations)}, context=context
    )
    return _outcome(world, context, final, trace)


def _plan(splits: Splits, depth: Depth, pick: Pick, max_calls: int) -> Plan:
    plan, test = make_plan(splits.val), len(splits.test)
    if pick == "best":
        return plan
    needed = first_round_calls(plan, test, Overhead(fewest_optimizer_calls(depth, 1)))
    return with_pick(plan, test, max_calls, max_calls - needed)


def _outcome(
    world: World, context: SearchContext, final: Mapping[str, Any], trace: Sequence[tuple[int, float]]
) -> Outcome:
    best, original = context.pool[final["incumbent"]].candidate, context.pool.original.candidate
    truth, before = _truth(world, best), _truth(world, original)
    return Outcome(
        original=before,
        best=truth,
        true_gain=truth - before,
        reported_gain=_reported_gain(final),
        is_original=best.id == original.id,
        calls=context.budget.spent.calls,
        trace=tuple(trace),
        tokens=row_tokens(best, context.settings.input_field),
    )


def _depth(preset: str, *, writes: bool) -> Depth:
    return DEPTHS[preset] if writes else DEPTHS[preset].describing(has_labels=True)


def _truth(world: World, candidate: Candidate) -> float:
    return world.accuracy(candidate.prompt, [demo.input for demo in candidate.demos])


def _context(
    world: World,
    seed: int,
    splits: Splits,
    plan: Plan,
    settings: SearchSettings,
    budget: BudgetMeter,
    memory: Path | None,
) -> SearchContext:
    """What the nodes work with, nobody listening yet."""
    client, author = _own(world, seed, budget)
    program = PromptProgram(client, PROMPT, labels=world.labels)
    return SearchContext(
        program=program,
        splits=splits,
        plan=plan,
        settings=settings,
        pool=Pool(world.labels),
        budget=budget,
        metric=Naming(world) if world.is_told else get_metric("exact_match", {}),
        analysis=AnalysisAgent(author) if settings.depth.rewrites else CountingAnalyst(),
        rewriting=RewriteAgent(author),
        describing=DescribingAgent(author),
        files=MemoryFiles(),
        emit=lambda _: None,
        experiences=ExperienceFile(memory) if memory else None,
    )
