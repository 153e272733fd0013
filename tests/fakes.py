"""A small world whose truth is known: a student that obeys rules, a writer that proposes them, rows."""

from __future__ import annotations

import hashlib
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autoprompt.dataset.splits import Splits
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Client, Completion, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import Shared, wrap
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.measure.program import Program, PromptProgram
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import get_metric
from autoprompt.optimizer.agents.analyst import AnalysisAgent
from autoprompt.optimizer.agents.describer import DescribingAgent
from autoprompt.optimizer.agents.writer import RewriteAgent
from autoprompt.optimizer.context import SearchContext, SearchSettings
from autoprompt.optimizer.search.plan import Depth, Plan, make_plan
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, EvaluatedRow, Example, Message, Prediction, Step, Usage
from autoprompt.settings.records import RunConfig

LABELS = ("A", "B")
PROMPT = "Decide whether the item is A or B."
DEPTH = Depth(max_iterations=3, calls_per_row=10, candidates=4, writers=2, patience=3)

Answer = Callable[[list[Message], Options], Completion]


def unit(*key: object) -> float:
    """A fixed draw from [0, 1) for a key."""
    digest = hashlib.blake2b("|".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def target_of(number: int) -> str:
    return LABELS[number % 7 % 2]


def row(number: int) -> Example:
    text = f"item {number}"
    return Example(f"r{number}", text, target_of(number), {"input": text, "target": target_of(number)})


def rows(start: int, stop: int) -> tuple[Example, ...]:
    return tuple(row(n) for n in range(start, stop))


def number_of(messages: Sequence[Message]) -> int:
    return int(re.findall(r"item (\d+)", messages[-1].content)[-1])


@dataclass(frozen=True)
class World:
    """The student's chance of a right answer: more with a rule or demonstrations, less with a myth.

    is_coin: each prompt has luck of its own on every row, and nothing else counts.
    """

    base: float = 0.5
    rule_gain: float = 0.4
    demo_gain: float = 0.0
    is_coin: bool = False

    def is_right(self, number: int, text: str, demos: int) -> bool:
        if self.is_coin:
            return unit("coin", number, text, demos) < 0.5
        chance = self.base + self.rule_gain * ("rule" in text) - 0.3 * ("myth" in text)
        return unit("row", number) < chance + self.demo_gain * min(1.0, demos / 16)

    def student(self, messages: list[Message], options: Options) -> Completion:
        number = number_of(messages)
        demos = sum(m.role == "assistant" for m in messages)
        text = messages[0].content
        target = target_of(number)
        right = self.is_right(number, text, demos)
        answer = target if right else LABELS[1 - LABELS.index(target)]
        return Completion(answer, Usage(20 + 10 * demos, 1))


JUDGED = {"metric": "llm_judge", "metric_options": {"rubric": "Is the label right?"}}


def grader(mute: Callable[[int], bool]) -> Answer:
    """A judge that knows the truth; on the items that `mute` names it gives no grade."""

    def grade(messages: list[Message], options: Options) -> Completion:
        found = re.search(r"item (\d+).*<answer>\n(.*)\n</answer>", messages[-1].content, re.DOTALL)
        assert found is not None
        if mute(int(found[1])):
            return Completion("I would rather not say.", Usage(50, 5))
        return Completion("5" if found[2] == target_of(int(found[1])) else "1", Usage(50, 1))

    return grade


def writer(messages: list[Message], options: Options) -> Completion:
    """Analyses in a fixed sentence; writes the current prompt with one sentence more, drawn by the seed."""
    request = messages[-1].content
    current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
    if current is None:
        return Completion("The items need a rule.", Usage(300, 20))
    extra = random.Random(options.seed).choice(
        ["Mind the rule.", "Believe the myth.", "Take care.", "Think well.", "Read twice.", "Keep calm."]
    )
    return Completion(f"```\n{current.group(1)} {extra}\n```", Usage(400, 40))


@dataclass
class MemoryFiles:
    """The part of a run folder that nodes write to, without a disk."""

    predictions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    candidates: list[Mapping[str, Any]] = field(default_factory=list)

    def write_predictions(self, name: str, rows: Iterable[EvaluatedRow]) -> Path:
        self.predictions[name] = [asdict(r) for r in rows]
        return Path(f"{name}.jsonl")

    def read_predictions(self, name: str) -> list[dict[str, Any]]:
        return self.predictions[name]

    def append_candidates(self, candidates: Iterable[Mapping[str, Any]]) -> None:
        self.candidates += list(candidates)


@dataclass
class Bench:
    """A search context with its fakes in reach."""

    context: SearchContext
    task: ScriptedClient
    author: ScriptedClient
    events: list[dict[str, Any]]
    files: MemoryFiles

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


def splits_of(train: int, val: int, test: int) -> Splits:
    parts = rows(0, train), rows(train, train + val), rows(train + val, train + val + test)
    return Splits(*parts, LABELS, 0, {}, "", {})


def bench(
    student: Answer = World().student,
    author: Answer = writer,
    *,
    prompt: str = PROMPT,
    splits: Splits | None = None,
    plan: Plan | None = None,
    program: Program | None = None,
    depth: Depth = DEPTH,
    max_calls: int | None = None,
    max_iterations: int | None = None,
    memory: Path | None = None,
    run_id: str = "run",
    traits: Traits | None = None,
    **settings: Any,
) -> Bench:
    splits = splits or splits_of(32, 60, 20)
    budget = BudgetMeter(max_calls)
    task_client, author_client = ScriptedClient(student), ScriptedClient(author)
    task = wrap(task_client, Shared(budget), concurrency=1)
    optimizer = wrap(author_client, Shared(budget), concurrency=1)
    program = program or PromptProgram(task, prompt, labels=LABELS)
    events: list[dict[str, Any]] = []
    files = MemoryFiles()
    context = SearchContext(
        program=program,
        splits=splits,
        plan=plan or make_plan(splits.val),
        settings=SearchSettings(
            run_id=run_id,
            task=PROMPT,
            max_iterations=max_iterations or depth.max_iterations,
            depth=depth,
            labels=LABELS,
            **{"answers_rows": len(program.components) == 1, **settings},
        ),
        pool=Pool(LABELS, splits.groups),
        budget=budget,
        metric=get_metric("exact_match", labels=LABELS),
        analysis=AnalysisAgent(optimizer),
        rewriting=RewriteAgent(optimizer),
        describing=DescribingAgent(optimizer),
        files=files,
        emit=events.append,
        experiences=ExperienceFile(memory) if memory else None,
        learned=LearnedTraits(said=lambda _: traits or Traits()),
    )
    return Bench(context, task_client, author_client, events, files)


def scored(
    example: Example, right: bool, *, confidence: float | None = None, answer: str | None = None
) -> EvaluatedRow:
    """A row as an evaluation gives it."""
    prediction = answer if answer is not None else example.target if right else "wrong"
    return EvaluatedRow(
        example.id,
        example.input,
        prediction,
        example.target,
        right,
        float(right),
        confidence=confidence,
        is_unparsed=answer == "",
    )


def add(pool: Pool, text: str, rights: Mapping[str, float] | Sequence[float], **candidate: Any) -> str:
    """A candidate with scores for rows r0, r1, ... in the pool; its id."""
    entry = pool.add(Candidate({"prompt": text}, **candidate))
    scores = dict(rights) if isinstance(rights, Mapping) else {f"r{i}": s for i, s in enumerate(rights)}
    entry.scores.update(scores)
    entry.status = "accepted"
    return entry.candidate.id


class TwoPrompts:
    """A program of two components: right where both state the rule."""

    components: Mapping[str, str] = {"look": "Look at the item.", "answer": "Answer A or B."}

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        knows = sum("rule" in text for text in candidate.components.values())
        right = unit("row", example.id) < 0.4 + 0.3 * knows
        text = example.target if right else LABELS[1 - LABELS.index(example.target)]
        return Prediction(text, text, Usage(30, 1))


@dataclass
class TwoSteps:
    """A program of two calls: a finder names the item's mark, a judge gives the label by it.

    The finder is right where its text states the rule or it sees demonstrations, else on
    some of the rows; the judge is always right for the mark it gets. So every error begins at the finder.
    """

    client: Client
    components: Mapping[str, str] = field(
        default_factory=lambda: {
            "find.system": "Find the mark.",
            "judge.system": "Give the label of the mark.",
        }
    )

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        mark, found = self._step("find", example.input, candidate)
        label, judged = self._step("judge", mark, candidate)
        return Prediction(label, label, Usage(60, 2), trace=(found, judged))

    def _step(self, node: str, got: str, candidate: Candidate) -> tuple[str, Step]:
        name = f"{node}.system"
        shown = [
            m
            for d in candidate.demos_of(name)
            for m in (Message("user", d.input), Message("assistant", d.output))
        ]
        messages = [Message("system", candidate.components[name]), *shown, Message("user", got)]
        text = self.client.complete(messages, Options(role="task")).text
        return text, Step(node, (name,), got, text, can_demo=True)


def two_steps_student(messages: list[Message], options: Options) -> Completion:
    """What both steps of `TwoSteps` ask: marks of items, labels of marks."""
    text, got = messages[0].content, messages[-1].content
    if not got.startswith("item"):
        return Completion("A" if got == "round" else "B", Usage(20, 1))
    number = number_of(messages)
    demos = sum(m.role == "assistant" for m in messages)
    right = unit("row", number) < 0.4 + 0.5 * ("rule" in text) + 0.3 * min(1.0, demos / 8)
    is_round = (target_of(number) == "A") == right
    return Completion("round" if is_round else "square", Usage(20, 1))


def write_rows(path: Path, numbers: Iterable[int]) -> Path:
    """A dataset of these rows as JSONL."""
    lines = [json.dumps({"input": f"item {n}", "target": target_of(n)}) for n in numbers]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run_config(folder: Path, *, rows: int = 150, **changes: Any) -> RunConfig:
    """Settings of a small run whose files all lie in `folder`."""
    dataset = folder / "items.jsonl"
    if not dataset.exists():
        write_rows(dataset, range(rows))
    settings: dict[str, Any] = {
        "dataset": dataset,
        "prompt": PROMPT,
        "preset": "quick",
        "runs_dir": folder / "runs",
        "memory_file": folder / "memory.txt",
        "cache_dir": folder / "cache",
        "concurrency": 1,
    }
    if changes.keys() & {"program", "workflow"}:
        del settings["prompt"]
    return RunConfig(**{**settings, **changes})


def disk_full_error() -> sqlite3.OperationalError:
    """What SQLite raises where the disk has no room, from SQLite itself."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA max_page_count = 1")
        try:
            database.execute("CREATE TABLE t (x)")
        except sqlite3.OperationalError as error:
            return error
    raise AssertionError("a table fitted into one page")
