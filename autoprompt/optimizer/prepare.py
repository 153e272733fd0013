"""Everything that is settled before the first call: rows, labels, metric, plan and what the run will cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoprompt.dataset.checks import input_id
from autoprompt.dataset.partition import Cap, chosen_caps, user_caps
from autoprompt.dataset.splits import Regions, Splits, cut_rows, without_shown
from autoprompt.errors import Place, Problem
from autoprompt.evaluation.checks import check_metric
from autoprompt.evaluation.task import (
    input_of,
    open_task,
    probed,
    reasoning_tokens,
    row_calls,
    shared_fields,
    task_options,
)
from autoprompt.llm.client import Client, Options
from autoprompt.llm.endpoints import sends_to
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.traits import traits_of
from autoprompt.measure.baselines import unbalanced_warnings
from autoprompt.measure.cost import demo_tokens
from autoprompt.measure.program import Program, placeholders
from autoprompt.measure.task import Task, answering_of, shown_text
from autoprompt.metrics import Metric, needs_target
from autoprompt.optimizer.agents.scientific import MOST_CALLS, TRAIN_ROWS, check_analyst
from autoprompt.optimizer.search.demos import to_demo
from autoprompt.optimizer.search.gate import smallest_gain
from autoprompt.optimizer.search.plan import (
    DEPTHS,
    FEWEST_ENTRANTS,
    FEWEST_TOLD,
    TRAIN_BATCH,
    Depth,
    Overhead,
    Plan,
    calls_for,
    check_budget,
    default_max_calls,
    fewest_optimizer_calls,
    first_round_calls,
    fresh_rows,
    interleave,
    make_plan,
    rows_with_room,
    scarce_batch,
    with_pick,
)
from autoprompt.records import Example, OnEvent, Part
from autoprompt.runs.folder import RunFolder
from autoprompt.runs.listing import FEWEST_NEW_ROWS, MANY_OPENINGS, RunStore, times_opened
from autoprompt.settings.records import RunConfig
from autoprompt.settings.resolve import complete
from autoprompt.stats import count_groups, in_groups
from autoprompt.text.answers.reasoning import USUAL_TOKENS, asks_to_reason
from autoprompt.text.names import counted
from autoprompt.text.scripts import estimate_tokens

SHORT_TARGET = 80  # characters; what is longer is written rather than found out
LARGE_GAIN = 0.3  # warned where validation cannot show less


@dataclass(frozen=True, slots=True)
class Preparation:
    """A checked run that has sent nothing yet. max_calls: the cap, set by the user or by the preset.

    overhead: what calls go to beside candidates on rows. spent: on trying a program, see
    `evaluation.task.probed`.
    """

    config: RunConfig
    task: Task
    splits: Splits
    labels: tuple[str, ...]
    depth: Depth
    plan: Plan
    max_iterations: int
    max_calls: int
    overhead: Overhead
    spent: Spent = field(default_factory=Spent)

    def plan_within(self, max_calls: int) -> Plan:
        """Return the plan under another limit on calls, which the user gives."""
        if self.config.pick != "cheapest":
            return self.plan
        test_rows, room = len(self.splits.test), max_calls - self.spent.calls
        needed = first_round_calls(self.plan, test_rows, self.overhead)
        return with_pick(self.plan, test_rows, room, room - needed)

    @property
    def text(self) -> str:
        """All texts that are optimized, as one."""
        return shown_text(self.task)

    @property
    def rows(self) -> tuple[Example, ...]:
        """All rows of the run."""
        return (*self.splits.train, *self.splits.val, *self.splits.test)

    def program(self, client: Client, metric: Metric, folder: RunFolder) -> Program:
        """Return what is run on each row."""
        return self.task.program(client, metric, labels=self.labels, rows=self.rows, folder=folder)

    @property
    def analyst_calls(self) -> int:
        """Of one round, at most."""
        return MOST_CALLS[self.config.analyst] if self.depth.rewrites else 0

    @property
    def task_options(self) -> Options:
        return task_options(self.config, self.labels)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names that a prompt may use as placeholders."""
        return shared_fields(
            (*self.splits.val, *self.splits.train, *self.splits.test), self.config.target_field
        )

    @property
    def can_reason(self) -> bool:
        """Whether to try reasoning before the answer: of one prompt, for short answers, with room for it."""
        room = reasoning_tokens(self.config, self.labels)
        if self.config.no_reasoning or answering_of(self.task) is None or room < USUAL_TOKENS:
            return False
        short = sum(0 < len(row.target_text) <= SHORT_TARGET for row in self.splits.train)
        return bool(self.labels) or 10 * short >= 9 * len(self.splits.train) > 0


def prepare(
    config: RunConfig,
    *,
    has_own_models: bool = False,
    folder: RunFolder | None = None,
    emit: OnEvent = lambda _: None,
) -> Preparation:
    """Complete the settings (`settings.complete`), read, check and plan; sends the trial of a program alone.

    has_own_models: whether models of one's own answer instead of those that the settings name. emit: gets
    where the models are asked before a program is tried, and each row of the trial.

    Raises:
        DatasetError, ConfigError, PromptError, BudgetTooSmallError: With place and what to do.
        SandboxError: If the analyst's code cannot be confined.
    """
    config = complete(config)
    check_analyst(config)
    task = open_task(config, folder=folder)
    regions = cut_rows(config, input_of=input_of(config, task), needs_target=lambda: needs_target(config))
    labels = regions.labels or ()
    task = task.fitted([row for rows in regions.parts.values() for row in rows])
    sent = None if has_own_models else sends_to(config, ("optimizer", "judge"))
    if config.program is not None and sent is not None:
        emit(sent.to_dict())
    # In the order in which the search looks at train: it asks these rows again, and finds their answers.
    task, spent = probed(task, config, interleave(regions.parts["train"]), emit)
    regions = without_shown(regions, [component.text for component in task.components])
    train_batch = min(TRAIN_ROWS[config.analyst], max(TRAIN_BATCH, len(regions.parts["train"])))
    depth, analyst_calls = DEPTHS[config.preset], MOST_CALLS[config.analyst]
    # Whoever writes: another model must not make test rows of yesterday's train rows.
    overhead = Overhead(fewest_optimizer_calls(depth, analyst_calls), row_calls(config, task), train_batch)
    caps = _preset_caps(config.preset, depth)
    cut = _caps_with_room(regions, caps, config.max_calls, overhead, spent)
    splits = regions.capped(caps | cut)
    if "val" in cut:
        train_batch = scarce_batch(train_batch, len(splits.val))
    plan = make_plan(splits.val, overhead.calls_per_row, train_batch)
    default_calls = default_max_calls(depth, plan, len(splits.test))  # whoever writes, too
    if not has_own_models and _only_describes(config, task, splits.train):
        depth = depth.describing(has_labels=bool(labels))
    found = [*task.check_search(), *_too_few_rows(plan, depth), *_warnings(config, task, splits, labels)]
    splits = replace(splits, warnings=(*splits.warnings, *found))
    max_iterations = config.max_iterations or depth.max_iterations
    # What a scientific analyst takes beyond a plain one must not come out of the search.
    looks = plan.calls(max(0, train_batch - TRAIN_BATCH))
    beyond = max_iterations * (analyst_calls - MOST_CALLS["plain"] + looks)
    max_calls = config.max_calls or default_calls + beyond
    if config.pick == "cheapest" and not config.max_calls:
        plan = with_pick(plan, len(splits.test), max_calls)
        max_calls += plan.pick_calls  # the search keeps what it has
    prepared = Preparation(
        config, task, splits, labels, depth, plan, max_iterations, max_calls, overhead, spent
    )
    if config.max_calls:
        prepared = replace(prepared, plan=prepared.plan_within(max_calls))
    writing = fewest_optimizer_calls(depth, prepared.analyst_calls)
    check_budget(config.max_calls, prepared.plan, len(splits.test), writing, tried=spent.calls)
    return prepared


def _warnings(config: RunConfig, task: Task, splits: Splits, labels: tuple[str, ...]) -> Iterator[Problem]:
    """Yield what the user should know of rows, metric and prompts before anything is paid for."""
    rows = _rows_by_file(splits)
    yield from unbalanced_warnings((*splits.train, *splits.val, *splits.test), labels, config.metric)
    yield from task.warnings(rows)
    yield from check_metric(config, labels, rows)
    yield from _cut_reasoning(config, labels, task)
    yield from _too_long([component.text for component in task.components], config.max_prompt_tokens)
    yield from _often_opened(config, splits.test)


def _cut_reasoning(config: RunConfig, labels: tuple[str, ...], task: Task) -> list[Problem]:
    """Warn if a single prompt asks for more text than its answers may have."""
    room = reasoning_tokens(config, labels)
    only = answering_of(task)
    if only is None or room >= USUAL_TOKENS or not asks_to_reason(only.text):
        return []
    said = f"the prompt asks for reasoning, but {counted(room, 'token is', 'tokens are')} too few for that"
    place = Place(setting="max_output_tokens")
    return [Problem("prompt.no-room-to-reason", said, place, "Raise the limit.")]


def _only_describes(config: RunConfig, task: Task, train: Sequence[Example]) -> bool:
    """Return whether the models do not write well, and the writer is left to describe (`Depth.describing`).

    Not if more was asked for, nor of several texts, which was not measured, nor if little else is left to
    try: few rows, or no room for the half of them as demonstrations.
    """
    only = answering_of(task)
    if config.preset == "thorough" or config.analyst != "plain" or only is None:
        return False
    if config.max_demos == 0 or len(train) < FEWEST_TOLD or not all(row.has_target for row in train):
        return False
    if traits_of(config, "task").writes_well or traits_of(config, "optimizer").writes_well:
        return False
    prompt = only.text
    asked = placeholders(prompt, shared_fields(train, config.target_field))
    shown = [to_demo(row, None, asked, config.input_field) for row in train]
    taken = statistics.median(demo_tokens(prompt, demo, config.input_field) for demo in shown)
    return estimate_tokens(prompt) + taken <= config.max_prompt_tokens


def smallest_gain_of(plan: Plan, depth: Depth) -> float | None:
    """See `autoprompt.optimizer.search.gate.smallest_gain`; None where validation can show none.

    Of a winner that was made from so many rows of train that none is fresh for it.
    """
    return smallest_gain(*plan.groups, depth.candidates)


def smallest_gain_at_best(plan: Plan, depth: Depth, train: Sequence[Example]) -> float | None:
    """Return the same of one whose makers learned of no row of train, in a race most leave early.

    As many rows of train as race can be fresh besides those of validation.
    """
    race, fresh = plan.groups
    unseen = min(race, count_groups([row.group for row in train]))
    left_early = plan.blocks[0] / max(1, len(plan.race)) if plan.blocks else 1.0
    chances = 1 + (depth.candidates - 1) * left_early
    # A row more may be a step of a gain less: the least of all numbers of rows.
    found = [smallest_gain(race, fresh + more, chances) for more in range(unseen + 1)]
    return min((gain for gain in [*found, smallest_gain_of(plan, depth)] if gain is not None), default=None)


def _shown_by(rows: int, depth: Depth) -> float | None:
    fresh = fresh_rows(rows)
    return smallest_gain(rows - fresh, fresh, depth.candidates)


def _too_few_rows(plan: Plan, depth: Depth) -> list[Problem]:
    """Warn if validation is so small that it could only confirm a very large gain."""
    least = smallest_gain_of(plan, depth)
    if least is not None and least <= LARGE_GAIN:
        return []
    could = "cannot confirm a gain" if least is None else f"can only confirm a gain of {least:+.2f} or more"
    rows, groups = len(plan.race) + len(plan.fresh), sum(plan.groups)
    what = "" if groups == rows else " groups"
    more = " and ".join(f"{many}{what} can show {_shown_by(many, depth):+.2f}" for many in (30, 50))
    said = f"{counted(rows, 'validation row')}{in_groups(groups, rows)} {could}"
    fix = f"Add rows ({more}), or expect the original prompt back."
    return [Problem("dataset.few-val-rows", said, fix=fix)]


def _often_opened(config: RunConfig, test: Sequence[Example]) -> list[Problem]:
    """Warn if so many runs have looked at the test that a good score on it says little."""
    runs = times_opened(RunStore(config.runs_dir).openings_path, [input_id(row.content) for row in test])
    if runs < MANY_OPENINGS:
        return []
    said = f"{counted(runs, 'run')} have already opened these test rows, so a good score on them may be luck"
    fix = f"Label {counted(max(len(test), FEWEST_NEW_ROWS), 'new row')} and give them as {{test}}."
    return [Problem("dataset.test-opened-often", said, fix=fix, settings={"test": "<FILE>"})]


def _too_long(texts: Sequence[str], most_tokens: int) -> list[Problem]:
    """Warn if the user's own prompt is longer than those that may be tried."""
    tokens = max(map(estimate_tokens, texts))
    if tokens <= most_tokens:
        return []
    said = (
        f"your prompt has about {counted(tokens, 'token')}, more than {most_tokens:,}, so the run tries no "
        "longer one"
    )
    place = Place(setting="max_prompt_tokens")
    return [Problem("prompt.too-long", said, place, "Raise the limit.")]


def _rows_by_file(splits: Splits) -> dict[Path, list[Example]]:
    """Return the rows that the parts have of each file, in its order."""
    rows: dict[Path, list[Example]] = {}
    for name, examples in (("train", splits.train), ("val", splits.val), ("test", splits.test)):
        if examples:
            source = next(path for path in (name, "dataset", "train") if path in splits.paths)
            rows.setdefault(splits.paths[source], []).extend(examples)
    return {
        path: sorted(found, key=lambda example: (example.line, example.row)) for path, found in rows.items()
    }


def _preset_caps(preset: str, depth: Depth) -> dict[Part, Cap]:
    if depth.most_rows is None:
        return {}
    cap = Cap(depth.most_rows, f"the preset {preset}")
    return {"val": cap, "test": cap}


def _caps_with_room(
    regions: Regions, preset: Mapping[Part, Cap], max_calls: int | None, overhead: Overhead, tried: Spent
) -> dict[Part, Cap]:
    """Of the parts that are cut, that the user has not capped, and that the cap on calls has no room for.

    tried: on trying a program. It shows how many requests of the endpoint fail, and so will have to be
    repeated.
    """
    if max_calls is None:
        return {}
    chosen, given = chosen_caps(regions.settings, preset), user_caps(regions.settings)
    movable = [part for part in given if part in regions.cut and given[part] is None]
    whole = {part: len(regions.parts[part]) for part in given}
    sizes = {part: min(n, chosen[part].rows) if part in regions.cut else n for part, n in whole.items()}
    once = 1 - tried.repeats / max(1, tried.calls)
    room = int((max_calls - tried.calls) * once)
    fitted = rows_with_room(room, sizes["val"], sizes["test"], overhead, movable=movable)
    used = {part: whole[part] if part in movable else sizes[part] for part in given}
    least = calls_for(FEWEST_ENTRANTS, used["val"], used["test"], overhead)
    enough = tried.calls + math.ceil(least / once)
    caps = {}
    for part in movable:
        if fitted[part] < sizes[part]:
            beyond = {f"max_{part}": whole[part]} if whole[part] > sizes[part] else {}
            limit = f"the limit of {counted(max_calls, 'call')}"
            caps[part] = Cap(fitted[part], limit, {"max_calls": enough, **beyond})
    return caps
