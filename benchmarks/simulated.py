"""The search on a simulated student: no model, hundreds of seeds in minutes, and the truth is known.

    # every world: gain, calls, bias of what is reported
    python benchmarks/simulated.py
    # how often a coin flip is given another prompt
    python benchmarks/simulated.py --world random --seeds 200
    python benchmarks/simulated.py --ablations                  # what each part of the search is worth
    # what the experience file is worth on a second task
    python benchmarks/simulated.py --memory

The student answers a row right with a chance that depends on which of its hidden rules the prompt states,
on the
demonstrations shown, and on harmful advice. The writer proposes useful, useless and harmful edits. Both
are functions
behind `ScriptedClient`, so the real graph, race, gate, memory and budget run; the true accuracy of any
prompt is the mean
of the student's chances over a large population that no run sees.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from autoprompt.dataset import Splits
from autoprompt.llm.budget import Budget
from autoprompt.llm.client import CallRole, Completion, Options
from autoprompt.llm.scripted import ScriptedClient
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import get_metric
from autoprompt.optimizer import finish, nodes, propose, settle
from autoprompt.optimizer.agents import (
    AnalysisAgent,
    DescribingAgent,
    MemoryAgent,
    PredictionAgent,
    RewriteAgent,
)
from autoprompt.optimizer.context import SearchContext, SearchSettings
from autoprompt.optimizer.graph import build_graph, recursion_limit
from autoprompt.program import PromptProgram
from autoprompt.search import gate
from autoprompt.search.plan import DEPTHS, Plan, make_plan
from autoprompt.search.pool import Entry, Pool
from autoprompt.types import EvaluatedRow, Example, Message, Usage

LABELS = ("A", "B")
RULES = tuple(f"rule{n}" for n in range(6))
HARMS = tuple(f"myth{n}" for n in range(4))
FILLERS = ("be careful", "think well", "be precise", "read it twice", "take your time", "stay calm")
POPULATION = 2000


def unit(*key: object) -> float:
    """A fixed draw from [0, 1) for a key."""
    digest = hashlib.blake2b("|".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class World:
    """What is true.

    base: chance of a right answer with no rule stated. rule_gain: what a stated rule adds on the rows that
    it is
    about (each row needs one rule). harm: what each myth takes. demo_gain: what 16 demonstrations add on
    average;
    demo_spread: how much that varies with which they are. noise: share of a row's luck that is drawn anew
    for each
    prompt. good, harmful: chances of a proposal that states a rule, or a myth.
    """

    name: str
    base: float
    rule_gain: float
    harm: float
    demo_gain: float
    demo_spread: float
    noise: float = 0.4
    good: float = 0.35
    harmful: float = 0.3
    rules: tuple[str, ...] = RULES

    def chance(self, row: int, text: str, demos: Iterable[str]) -> float:
        needed = self.rules[row % len(self.rules)]
        chance = self.base + (self.rule_gain if needed in text else 0.0)
        chance -= self.harm * sum(h in text for h in HARMS)
        shown = sorted(demos)
        if shown:
            luck = 2 * unit(self.name, "demos", *shown) - 1
            chance += self.demo_gain * min(1.0, len(shown) / 16) + self.demo_spread * luck
        return min(1.0, max(0.0, chance))

    def is_right(self, row: int, text: str, demos: tuple[str, ...]) -> bool:
        own, anew = unit(self.name, "row", row), unit(self.name, "prompt", row, text, *sorted(demos))
        return (anew if unit(self.name, "which", row) < self.noise else own) < self.chance(row, text, demos)

    def accuracy(self, text: str, demos: Iterable[str]) -> float:
        """The true accuracy: the mean chance over the population."""
        shown = tuple(demos)
        luckless = [self.chance(row, text, shown) for row in range(len(self.rules))]
        return statistics.fmean(luckless)


WORLDS = {
    w.name: w
    for w in (
        World(
            "instructions",
            base=0.55,
            rule_gain=0.40,
            harm=0.12,
            demo_gain=0.02,
            demo_spread=0.04,
            rules=RULES[:3],
        ),
        World("demonstrations", base=0.55, rule_gain=0.06, harm=0.12, demo_gain=0.22, demo_spread=0.10),
        World("both", base=0.55, rule_gain=0.22, harm=0.12, demo_gain=0.12, demo_spread=0.06),
        World("random", base=0.50, rule_gain=0.0, harm=0.0, demo_gain=0.0, demo_spread=0.0, noise=1.0),
        World("perfect", base=1.0, rule_gain=0.0, harm=0.12, demo_gain=0.0, demo_spread=0.0),
        World("good", base=0.94, rule_gain=0.02, harm=0.12, demo_gain=-0.02, demo_spread=0.03),
    )
}


def make_rows(world: World, seed: int, sizes: dict[str, int]) -> Splits:
    """Rows whose number is their hidden nature; every seed draws others."""
    rng = random.Random(f"{world.name}/{seed}")
    numbers = rng.sample(range(10**6), sum(sizes.values()))
    rows = [Example(f"r{n}", f"item {n}", LABELS[n % 7 % 2], {"input": f"item {n}"}) for n in numbers]
    cut = [0, sizes["train"], sizes["train"] + sizes["val"], len(rows)]
    train, val, test = (tuple(rows[a:b]) for a, b in itertools.pairwise(cut))
    return Splits(train, val, test, LABELS, 0, {}, "", {})


def student(world: World) -> Callable[[list[Message]], Completion]:
    def answer(messages: list[Message]) -> Completion:
        row = int(messages[-1].content.rsplit(" ", 1)[1])
        demos = tuple(m.content for m in messages[1:-1] if m.role == "user")
        target = LABELS[row % 7 % 2]
        text = target if world.is_right(row, messages[0].content, demos) else LABELS[1 - LABELS.index(target)]
        return Completion(text, Usage(20 + 10 * len(demos), 1))

    return answer


def writer(world: World, seed: int) -> Callable[[list[Message], Options], Completion]:
    """Proposes one more sentence. It heeds what the request says has helped, and avoids what it says did
    harm."""

    def answer(messages: list[Message], options: Options) -> Completion:
        request = messages[-1].content
        rng = random.Random(f"{seed}/{options.seed}/{hashlib.sha256(request.encode()).hexdigest()}")
        current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
        if "right answers" in request:
            kind = rng.random()
            known = [r for r in world.rules if r not in request]
            said = rng.choice(FILLERS)
            if kind < world.good and known:
                said = rng.choice(known)
            elif kind < world.good + world.harmful:
                said = rng.choice(HARMS)
            return Completion(f"A: the rows that go with {said}\nB: all of the other rows", Usage(400, 30))
        if current is None:
            return Completion("The rows need a rule.", Usage(300, 20))
        text = current.group(1)
        praised, blamed = _told(request.replace(current.group(0), ""))
        left = [r for r in world.rules if r not in text] or list(world.rules)
        kind = rng.random()
        wanted = [r for r in left if r in praised]
        if wanted and rng.random() < 0.7:
            extra = f"mind {rng.choice(wanted)}"
        elif kind < world.good:
            extra = f"mind {rng.choice(left)}"
        elif kind < world.good + world.harmful:
            myths = [h for h in HARMS if h not in blamed] or [""]
            extra = f"believe {rng.choice(myths)}"
        else:
            extra = rng.choice(FILLERS)
        return Completion(f"```\n{text.strip()} Also {extra}.\n```", Usage(400, 40))

    return answer


def _told(request: str) -> tuple[set[str], set[str]]:
    """Words that the request praises and that it warns of, by the line they stand in."""
    praised: set[str] = set()
    blamed: set[str] = set()
    section = ""
    for line in request.lower().splitlines():
        if re.search(r"helped|better", line):
            section = "good"
        elif re.search(r"harm|worse|avoid|do not repeat", line):
            section = "bad"
        words = set(re.findall(r"(?:rule|myth)\d", line))
        (praised if section == "good" else blamed).update(words)
    return praised - blamed, blamed


@dataclass
class MemoryFiles:
    """The run folder's part that nodes write to, without a disk."""

    predictions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def write_predictions(self, name: str, rows: Iterable[EvaluatedRow]) -> Path:
        self.predictions[name] = [{f: getattr(r, f) for f in r.__slots__} for r in rows]
        return Path(f"{name}.jsonl")

    def read_predictions(self, name: str) -> list[dict[str, Any]]:
        return self.predictions[name]

    def append_candidates(self, candidates: Iterable[Any]) -> None:
        pass


@dataclass(frozen=True)
class Outcome:
    """One run. true_*: accuracy over the population; validation: what the run itself reported for the
    winner."""

    original: float
    best: float
    true_gain: float
    reported_gain: float | None
    is_original: bool
    calls: int
    trace: tuple[tuple[int, float], ...]


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
    is_raced: bool = True,
) -> Outcome:
    """One run of the real graph. sizes: rows by part; memory: an experience file to read and write."""
    splits = make_rows(world, seed, sizes or {"train": 75, "val": 75, "test": 0})
    depth = DEPTHS[preset]
    the_plan = make_plan(splits.val)
    if not is_raced:
        the_plan = Plan(the_plan.race, the_plan.fresh, (len(the_plan.race),))
    prompt = "Decide whether the item is A or B."
    budget = Budget(max_calls=max_calls)

    def charged(inner: Callable[..., Completion], role: CallRole) -> Callable[..., Completion]:
        def call(messages: list[Message], options: Options) -> Completion:
            budget.charge(role)
            answer = inner(messages, options) if role == "optimizer" else inner(messages)
            budget.add_usage(role, answer.usage)
            return answer

        return call

    client = ScriptedClient(charged(student(world), "task"))
    author = ScriptedClient(charged(writer(world, seed), "optimizer"))
    program = PromptProgram(client, prompt, labels=LABELS)
    metric = get_metric("exact_match", {})
    experiences = ExperienceFile(memory) if memory else None
    trace: list[tuple[int, float]] = []
    pool = Pool(LABELS)

    def emit(event: dict[str, Any]) -> None:
        if event["event"] == "best_changed":
            c = pool[event["id"]].candidate
            trace.append((budget.spent.calls, world.accuracy(c.prompt, [d.input for d in c.demos])))

    context = SearchContext(
        program=program,
        splits=splits,
        plan=the_plan,
        settings=SearchSettings(
            run_id=f"sim-{world.name}-{seed}-{task[:3]}",
            task=task,
            max_iterations=depth.max_iterations,
            depth=depth,
            seed=seed,
            max_demos=max_demos,
            labels=LABELS,
        ),
        pool=pool,
        budget=budget,
        prediction=PredictionAgent(program, metric),
        analysis=AnalysisAgent(author),
        rewriting=RewriteAgent(author),
        describing=DescribingAgent(author),
        memory=MemoryAgent(),
        files=MemoryFiles(),
        emit=emit,
        experiences=experiences,
    )
    state = nodes.first_state(context, {"path": "", "sha256": "", "split_seed": 0, "sizes": splits.sizes})
    final = build_graph().invoke(
        state, {"recursion_limit": recursion_limit(depth.max_iterations)}, context=context
    )
    best = pool[final["incumbent"]].candidate
    truth = world.accuracy(best.prompt, [d.input for d in best.demos])
    original = world.accuracy(prompt, ())
    reported = None
    confirmation = final.get("confirmation")
    if confirmation and confirmation["confirmed"]:
        part = confirmation["fresh"] if confirmation["fresh"]["rows"] else confirmation["raced"]
        reported = part["score"] - part["other_score"]
    is_original = best.id == pool.original.candidate.id
    return Outcome(original, truth, truth - original, reported, is_original, budget.spent.calls, tuple(trace))


# Each switches one part of the search off.
ABLATIONS: dict[str, Callable[[ExitStack], dict[str, Any]]] = {}


def ablation(name: str) -> Callable[[Callable[[ExitStack], dict[str, Any] | None]], None]:
    def add(function: Callable[[ExitStack], dict[str, Any] | None]) -> None:
        ABLATIONS[name] = lambda stack: function(stack) or {}

    return add


@ablation("(everything on)")
def _nothing(stack: ExitStack) -> None:
    """The search as it ships."""


@ablation("paired gate: any better mean is accepted")
def _gate(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(settle, "is_accepted", lambda c: c.score > c.other_score))


@ablation("Pareto parent: always the best mean")
def _parent(stack: ExitStack) -> None:
    def best(pool: Pool, row_ids: Sequence[str], rng: random.Random) -> Entry:
        return max(pool.accepted(), key=lambda e: e.mean_merit(row_ids))

    stack.enter_context(mock.patch.object(propose, "pick_parent", best))


@ablation("racing: every candidate runs all rows")
def _race(stack: ExitStack) -> dict[str, Any]:
    return {"is_raced": False}


@ablation("demonstrations: none")
def _demos(stack: ExitStack) -> dict[str, Any]:
    return {"max_demos": 0}


@ablation("telling: neither descriptions nor typical words")
def _telling(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(propose, "FEWEST_TOLD", 10**9))


@ablation("labels' shares: never shifted")
def _shift(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(propose, "LEANS", 2.0))


@ablation("rejected edits: not shown to the writer")
def _rejected(stack: ExitStack) -> None:
    real = RewriteAgent.rewrite

    def blind(self: RewriteAgent, *args: Any, **options: Any) -> Any:
        return real(self, *args, **{**options, "rejected": ()})

    stack.enter_context(mock.patch.object(RewriteAgent, "rewrite", blind))


@ablation("memory: lessons of the run not shown to the writer")
def _memory(stack: ExitStack) -> None:
    real = RewriteAgent.rewrite

    def blind(self: RewriteAgent, a: str, b: str, c: Any, d: int, experiences: str, **options: Any) -> Any:
        return real(self, a, b, c, d, "", **options)

    stack.enter_context(mock.patch.object(RewriteAgent, "rewrite", blind))


@ablation("plateau switch: never")
def _plateau(stack: ExitStack) -> None:
    real = propose.choose_operators
    stack.enter_context(
        mock.patch.object(propose, "choose_operators", lambda n, m, t, plateau, rng: real(n, m, t, 0, rng))
    )


@ablation("portfolio: operators drawn evenly")
def _portfolio(stack: ExitStack) -> None:
    real = propose.choose_operators
    even = {"patch": [0, 0]}  # not empty: the first round's order is switched off too
    stack.enter_context(
        mock.patch.object(
            propose, "choose_operators", lambda n, m, t, plateau, rng: real(n, m, even, plateau, rng)
        )
    )


@ablation("confirmation: the winner of the race is returned")
def _confirmation(stack: ExitStack) -> None:
    real = gate.confirm

    def believing(*args: Any) -> gate.Confirmation:
        return dataclasses.replace(real(*args), is_confirmed=True)

    stack.enter_context(mock.patch.object(finish, "confirm", believing))


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Means with 95% intervals over seeds."""
    bias = [o.reported_gain - o.true_gain for o in outcomes if o.reported_gain is not None]
    gains = [o.true_gain for o in outcomes]
    return {
        "seeds": len(outcomes),
        "original": statistics.fmean(o.original for o in outcomes),
        "best": statistics.fmean(o.best for o in outcomes),
        "gain": statistics.fmean(gains),
        "gain_ci95": mean_ci(gains),
        "worst_gain": min(gains),
        "kept_original": sum(o.is_original for o in outcomes),
        "calls": statistics.fmean(o.calls for o in outcomes),
        "reported_minus_true": statistics.fmean(bias) if bias else None,
    }


def mean_ci(values: Sequence[float]) -> tuple[float, float]:
    """95% interval of a mean, by bootstrap over seeds."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(2000))
    return means[49], means[1949]


def show_worlds(worlds: Sequence[World], seeds: int, budgets: Sequence[int]) -> list[dict[str, Any]]:
    print(
        f"{'world':16}{'calls':>7}{'original':>10}{'best':>8}{'gain':>8}{'95% interval':>18}{'worst':>8}"
        f"{'kept original':>15}{'reported - true':>17}"
    )
    records = []
    for world in worlds:
        for calls in budgets:
            s = summary([simulate(world, seed, max_calls=calls) for seed in range(seeds)])
            bias = "-" if s["reported_minus_true"] is None else f"{s['reported_minus_true']:+.3f}"
            low, high = s["gain_ci95"]
            print(
                f"{world.name:16}{calls:7}{s['original']:10.3f}{s['best']:8.3f}{s['gain']:+8.3f}"
                f"   [{low:+.3f}, {high:+.3f}]{s['worst_gain']:+8.3f}"
                f"{s['kept_original']:9}/{seeds:<5}{bias:>17}",
                flush=True,
            )
            records.append({"world": world.name, "max_calls": calls, **s})
    return records


def show_ablations(worlds: Sequence[World], seeds: int, budgets: Sequence[int]) -> list[dict[str, Any]]:
    """Gain with everything on minus gain with one part off, paired by world, budget and seed."""
    gains: dict[str, list[float]] = {}
    for name, switch_off in ABLATIONS.items():
        gains[name] = []
        for world in worlds:
            for calls in budgets:
                for seed in range(seeds):
                    with ExitStack() as stack:
                        options = switch_off(stack)
                        gains[name].append(simulate(world, seed, max_calls=calls, **options).true_gain)
        whole = gains["(everything on)"]
        worth = [a - b for a, b in zip(whole, gains[name], strict=True)]
        low, high = mean_ci(worth)
        print(
            f"{name:52} gain {statistics.fmean(gains[name]):+.3f}   worth {statistics.fmean(worth):+.3f} "
            f"[{low:+.3f}, {high:+.3f}]",
            flush=True,
        )
    return [{"off": name, "gain": statistics.fmean(values)} for name, values in gains.items()]


def show_memory(world: World, seeds: int, calls: int) -> dict[str, Any]:
    """A second task of the same kind, with and without what the first run wrote; and after an unrelated
    first one."""
    saved, unrelated_cost, reached = [], [], [0, 0]
    same, other = "sort the items into A and B by their kind", "translate menus from French for tourists"
    foreign = dataclasses.replace(world, name="foreign", rules=tuple(f"clue{n}" for n in range(3)))
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            file, unrelated = Path(folder) / "memory.txt", Path(folder) / "unrelated.txt"
            first = simulate(world, seed, max_calls=calls, memory=file, task=same)
            simulate(foreign, seed, max_calls=calls, memory=unrelated, task=other)
            second = seed + 10_000
            without = simulate(world, second, max_calls=calls, memory=Path(folder) / "empty.txt", task=same)
            having = simulate(world, second, max_calls=calls, memory=file, task=same)
            misled = simulate(world, second, max_calls=calls, memory=unrelated, task=same)
        needed = [calls_to_reach(o, first.best, calls) for o in (without, having)]
        saved.append(float(needed[0] - needed[1]))
        reached = [r + (n < calls) for r, n in zip(reached, needed, strict=True)]
        unrelated_cost.append(without.best - misled.best)
    low, high = mean_ci(saved)
    print(
        f"memory, {seeds} seeds, {calls} calls: calls saved until the first run's accuracy is reached: "
        f"{statistics.fmean(saved):.0f} [{low:.0f}, {high:.0f}]; "
        f"reached without {reached[0]}, with {reached[1]}; "
        f"accuracy lost to an unrelated memory: at most {max(unrelated_cost):.3f}"
    )
    return {
        "calls_saved": statistics.fmean(saved),
        "ci95": (low, high),
        "unrelated_cost": max(unrelated_cost),
    }


def calls_to_reach(outcome: Outcome, accuracy: float, most: int) -> int:
    """Calls until a best so far was truly as good; `most` where none was."""
    return next((calls for calls, truth in outcome.trace if truth >= accuracy - 1e-9), most)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", choices=WORLDS, action="append", help="default: all")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--calls", type=int, action="append", help="budgets; default: 400 and 1200")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    budgets = args.calls or [400, 1200]
    started = time.monotonic()
    found: Any
    if args.memory:
        found = show_memory(WORLDS["instructions"], args.seeds, budgets[-1])
    elif args.ablations:
        names = args.world or ["instructions", "demonstrations", "both"]
        found = show_ablations([WORLDS[n] for n in names], args.seeds, budgets)
    else:
        found = show_worlds([WORLDS[n] for n in args.world or WORLDS], args.seeds, budgets)
    print(f"{time.monotonic() - started:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
