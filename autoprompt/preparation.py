"""Everything that is settled before the first call: rows, labels, metric, plan and what the run will cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from autoprompt.analyst import MOST_CALLS, TRAIN_ROWS, check_analyst
from autoprompt.config import RunConfig
from autoprompt.dataset import Splits, check_fields, load_checked
from autoprompt.dataset.caps import Cap, chosen_caps, own_caps
from autoprompt.dataset.checks import content_key
from autoprompt.dataset.splits import Regions, cut_rows
from autoprompt.errors import PromptError
from autoprompt.llm.client import Client, Options
from autoprompt.llm.scripted import ScriptedClient
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import JUDGED, Metric, check_targets, get_metric
from autoprompt.program import (
    COMPONENT,
    Program,
    PromptProgram,
    placeholders,
    supports_demos,
    unknown_placeholders,
)
from autoprompt.reasoning import OUTPUT_TOKENS, USUAL_TOKENS, asks_to_reason
from autoprompt.search.gate import smallest_gain
from autoprompt.search.plan import (
    DEPTHS,
    FEWEST_ENTRANTS,
    TRAIN_BATCH,
    Depth,
    Overhead,
    Plan,
    calls_for,
    check_budget,
    default_max_calls,
    fresh_rows,
    make_plan,
)
from autoprompt.search.room import rows_with_room
from autoprompt.settings import complete, starting_prompt
from autoprompt.stats import in_groups
from autoprompt.store.files import check_writable
from autoprompt.types import Candidate, Example, Part

if TYPE_CHECKING:
    from autoprompt.workflow.task import WorkflowTask

LABEL_OUTPUT_TOKENS = 32  # of a task call whose answer is one of the labels
FREE_OUTPUT_TOKENS = 1024
SHORT_TARGET = 80  # characters; what is longer is written rather than found out
LARGE_GAIN = 0.3  # warned where validation cannot show less


@dataclass(frozen=True, slots=True)
class Preparation:
    """A checked run that has sent nothing yet. max_calls: the cap, set by the user or by the preset.

    prompt: the naive text; of a workflow, all of its prompts under their names.
    """

    config: RunConfig
    prompt: str
    splits: Splits
    labels: tuple[str, ...]
    depth: Depth
    plan: Plan
    max_iterations: int
    max_calls: int
    workflow: WorkflowTask | None = None

    @property
    def prompts(self) -> int:
        """How many texts are to be optimized."""
        return 1 if self.workflow is None else len(self.workflow.components)

    @property
    def locked_components(self) -> frozenset[str]:
        return frozenset() if self.workflow is None else self.workflow.locked

    def program(self, client: Client, metric: Metric) -> Program:
        """What is run on each row."""
        return make_program(self.config, self.prompt, self.workflow, self.labels, client, metric)

    @property
    def analyst_calls(self) -> int:
        """Of one round, at most."""
        return MOST_CALLS[self.config.analyst]

    @property
    def task_options(self) -> Options:
        return task_options(self.config, self.labels)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names that a prompt may use as placeholders: those that every row has, but the target's."""
        rows = (*self.splits.train, *self.splits.val, *self.splits.test)
        shared = set.intersection(*(set(row.fields) for row in rows)) - {self.config.target_field}
        return tuple(name for name in self.splits.val[0].fields if name in shared)

    @property
    def can_demo(self) -> bool:
        """Of a workflow, its traces tell which steps can be shown demonstrations."""
        if self.workflow is not None:
            return True
        return supports_demos(self.prompt, self.fields, self.config.input_field)

    @property
    def can_reason(self) -> bool:
        """Whether to try reasoning before the answer: of one prompt, for short answers, with room for it."""
        room = _reasoning_tokens(self.config, self.labels)
        if self.config.no_reasoning or self.workflow is not None or room < USUAL_TOKENS:
            return False
        short = sum(len(row.target) <= SHORT_TARGET for row in self.splits.train)
        return bool(self.labels) or 10 * short >= 9 * len(self.splits.train) > 0


def task_options(config: RunConfig, labels: tuple[str, ...]) -> Options:
    limit = config.max_output_tokens or (LABEL_OUTPUT_TOKENS if labels else FREE_OUTPUT_TOKENS)
    return Options(
        role="task",
        temperature=config.temperature,
        max_output_tokens=limit,
        seed=0,
        labels=labels,
        wants_label_probs=bool(labels),
    )


def _reasoning_tokens(config: RunConfig, labels: tuple[str, ...]) -> int:
    return config.max_output_tokens or (OUTPUT_TOKENS if labels else FREE_OUTPUT_TOKENS)


def prepare(config: RunConfig) -> Preparation:
    """Complete the settings (`settings.complete`), read, check and plan; sends nothing.

    Raises DatasetError, ConfigError, PromptError, BudgetTooSmallError, and SandboxError where the analyst's
    code cannot be confined.
    """
    depth = DEPTHS[config.preset]
    config = complete(config)
    check_analyst(config)
    prompt = "" if config.workflow is not None else starting_prompt(config)
    regions = cut_rows(config, input_of=input_of(config))
    labels = regions.labels or ()
    workflow = open_workflow(config, [row for rows in regions.parts.values() for row in rows])
    train_batch = min(TRAIN_ROWS[config.analyst], max(TRAIN_BATCH, len(regions.parts["train"])))
    analyst_calls = MOST_CALLS[config.analyst]
    # Of one round, and of the second look at train that it plans with.
    optimizer_calls = analyst_calls + depth.writers + analyst_calls - 1
    overhead = Overhead(optimizer_calls, calls_per_row(config, workflow), train_batch)
    caps = _preset_caps(config.preset, depth)
    splits = regions.capped(caps | _caps_with_room(regions, caps, config.max_calls, overhead))
    if workflow is not None:
        prompt = workflow.text
        told = workflow.warnings(config.model or config.base_url, config.locked)
        splits = replace(splits, warnings=(*splits.warnings, *told))
    plan = make_plan(splits.val, overhead.calls_per_row, train_batch)
    if (warning := _too_few_rows(plan, depth)) is not None:
        splits = replace(splits, warnings=(*splits.warnings, warning))
    max_iterations = config.max_iterations or depth.max_iterations
    rows = _rows_by_file(splits)
    check_metric(config, labels, rows)
    if workflow is None:
        said = check_placeholders(prompt, rows, config)
        if asks_to_reason(prompt) and (room := _reasoning_tokens(config, labels)) < USUAL_TOKENS:
            said.append(f"the prompt asks to reason, and --max-output-tokens {room} will cut its answers")
        splits = replace(splits, warnings=(*splits.warnings, *said))
    check_budget(config.max_calls, plan, len(splits.test), optimizer_calls)
    # What a scientific analyst takes beyond a plain one must not come out of the search.
    looks = plan.calls_per_row * (train_batch - TRAIN_BATCH)
    beyond = max_iterations * (analyst_calls - MOST_CALLS["plain"] + looks)
    max_calls = config.max_calls or default_max_calls(depth, plan, len(splits.test)) + beyond
    return Preparation(config, prompt, splits, labels, depth, plan, max_iterations, max_calls, workflow)


def check_metric(config: RunConfig, labels: tuple[str, ...], rows: Mapping[Path, Sequence[Example]]) -> None:
    """The metric is known, its options fit it, and it can compare with every target. rows: of each file.

    Raises ConfigError, and DatasetError with file and line.
    """
    unasked = ScriptedClient([])  # a judge's options are checked without its model
    metric = get_metric(config.metric, config.metric_options, judge=unasked, labels=labels)
    check_targets(metric, rows)


def smallest_gain_of(plan: Plan, depth: Depth) -> float | None:
    """See `autoprompt.search.gate.smallest_gain`; None where validation can show none."""
    return smallest_gain(*plan.groups, depth.candidates)


def _shown_by(rows: int, depth: Depth) -> float | None:
    fresh = fresh_rows(rows)
    return smallest_gain(rows - fresh, fresh, depth.candidates)


def _too_few_rows(plan: Plan, depth: Depth) -> str | None:
    """A warning where validation is so small that only a very large gain could be told from luck."""
    least = smallest_gain_of(plan, depth)
    if least is not None and least <= LARGE_GAIN:
        return None
    could = "nothing could" if least is None else f"only a gain of about {least:+.2f} or more can"
    more = " and ".join(f"{rows} can show {_shown_by(rows, depth):+.2f}" for rows in (30, 50))
    rows, groups = len(plan.race) + len(plan.fresh), sum(plan.groups)
    return (
        f"{rows} validation rows{in_groups(groups, rows)}: {could} be told from luck, so the original "
        f"prompt may be returned whatever is found. At best, with no row broken, {more}"
    )


def input_of(config: RunConfig) -> tuple[str, ...]:
    """The fields that make up a row's input where none is named: the inputs of the workflow, in its order."""
    if config.workflow is None or config.input_field != RunConfig.model_fields["input_field"].default:
        return ()
    from autoprompt.workflow.task import start_variables

    return start_variables(config.workflow)


def open_workflow(config: RunConfig, rows: Sequence[Example]) -> WorkflowTask | None:
    """The workflow that the settings name, checked against the rows; None for a single prompt."""
    if config.workflow is None:
        return None
    from autoprompt.workflow.flow_run import load_tools
    from autoprompt.workflow.task import open_task

    load_tools(config.tools)
    return open_task(
        config.workflow,
        rows,
        target_output=config.target_output,
        locked=config.locked,
        input_field=config.input_field,
        target_field=config.target_field,
    )


def calls_per_row(config: RunConfig, workflow: WorkflowTask | None) -> int:
    """Requests that one row takes, the judge's included."""
    judged = 1 if config.metric == JUDGED else 0
    return judged + (1 if workflow is None else workflow.calls_per_row)


def make_program(
    config: RunConfig,
    prompt: str,
    workflow: WorkflowTask | None,
    labels: tuple[str, ...],
    client: Client,
    metric: Metric,
) -> Program:
    """A prompt or a workflow, asking `client`, its answers read by `metric`."""
    fields = {"input_field": config.input_field, "target_field": config.target_field}
    if workflow is not None:
        return workflow.program(client, labels=labels, read=metric.read, **fields)
    options = task_options(config, labels)
    return PromptProgram(
        client,
        prompt,
        labels=labels,
        options=options,
        read=metric.read,
        reasoning_tokens=_reasoning_tokens(config, labels),
        **fields,
    )


def check_memory(config: RunConfig) -> None:
    """The experience file can be read and written. Raises InputError that says how it cannot."""
    if config.no_memory:
        return
    check_writable(config.memory, makes_folders=True)
    ExperienceFile(config.memory).load()


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows to ask a prompt or a workflow about, as they are: nothing is split, and nothing has been sent.

    components: the texts that are asked, by name; of a single prompt that one.
    """

    examples: tuple[Example, ...]
    labels: tuple[str, ...]
    workflow: WorkflowTask | None
    components: Mapping[str, str]
    warnings: tuple[str, ...]


def check_rows(config: RunConfig, dataset: Path, prompt: str, *, labels_of: str = "") -> CheckedRows:
    """Read the rows and check them, the metric and the prompt or the workflow against each other.

    prompt: "" where the settings name a workflow. labels_of: see `load_checked`. Raises as `prepare` does.
    """
    examples, found, warnings = load_checked(dataset, config, labels_of=labels_of, input_of=input_of(config))
    workflow = open_workflow(config, examples)
    if workflow is None:
        warnings = (*warnings, *check_placeholders(prompt, {dataset: examples}, config))
    check_metric(config, found or (), {dataset: examples})
    components = {COMPONENT: prompt} if workflow is None else workflow.components
    return CheckedRows(tuple(examples), found or (), workflow, components, tuple(warnings))


def shown_rows(candidate: Candidate, rows: Sequence[Example]) -> list[str]:
    """A warning where rows are demonstrations too: a model that is shown the answer gives it."""
    shown = {content_key(demo.input) for demo in candidate.demos}
    count = sum(content_key(row.input) in shown for row in rows)
    if not count:
        return []
    return [f"{count} of the rows are among the prompt's demonstrations: they say nothing about it"]


def check_placeholders(prompt: str, rows: Mapping[Path, Sequence[Example]], config: RunConfig) -> list[str]:
    """Every row can fill in what the prompt asks for: whatever is in braces and a field of some row.

    rows: of each file. Returns warnings of the target in braces, and of identifiers there that are
    no field, so perhaps misspelt.
    Raises DatasetError with file and line of the rows that cannot, and PromptError where the input field's
    name is in braces and can be no placeholder.
    """
    every = (name for examples in rows.values() for example in examples for name in example.fields)
    known = dict.fromkeys(every)
    fillable = known.keys() - {config.target_field}
    asked = placeholders(prompt, fillable)
    field = config.input_field
    if f"{{{field}}}" in prompt and field not in asked:
        raise PromptError(
            f"the prompt's {{{field}}} would be sent as it stands: placeholders are letters, digits and _. "
            "Rename the field, or take it out of the prompt: the input then follows as a message of its own."
        )
    for path, examples in rows.items():
        check_fields(examples, path, asked)
    # A field that is both is filled in: as the input.
    sealed = {config.target_field} - {field}
    return [
        f"{{{name}}} is the target, which is never filled in, and stays literal"
        for name in placeholders(prompt, sealed)
    ] + [
        f"{{{name}}} is no field of the rows ({', '.join(known)}) and stays literal"
        f"{_hint(name, fillable, None if field in asked else field)}"
        for name in unknown_placeholders(prompt, known)
    ]


def _hint(name: str, fields: Collection[str], likely: str | None) -> str:
    """likely: the field that is meant where none is spelt alike."""
    meant = (*get_close_matches(name, sorted(fields), n=1), *([likely] if likely else []))
    return f"; did you mean {{{meant[0]}}}?" if meant else ""


def _rows_by_file(splits: Splits) -> dict[Path, list[Example]]:
    """The rows that the parts have of each file, in its order."""
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
    cap = Cap(depth.most_rows, f"preset {preset}")
    return {"val": cap, "test": cap}


def _caps_with_room(
    regions: Regions, preset: Mapping[Part, Cap], max_calls: int | None, overhead: Overhead
) -> dict[Part, Cap]:
    """Of the parts that are cut, that the user has not capped, and that the cap on calls has no room for."""
    if max_calls is None:
        return {}
    chosen, given = chosen_caps(regions.settings, preset), own_caps(regions.settings)
    movable = [part for part in given if part in regions.cut and given[part] is None]
    whole = {part: len(regions.parts[part]) for part in given}
    sizes = {part: min(n, chosen[part].rows) if part in regions.cut else n for part, n in whole.items()}
    fitted = rows_with_room(max_calls, sizes["val"], sizes["test"], overhead, movable=movable)
    used = {part: whole[part] if part in movable else sizes[part] for part in given}
    enough = f"--max-calls {calls_for(FEWEST_ENTRANTS, used['val'], used['test'], overhead)}"
    caps = {}
    for part in movable:
        if fitted[part] < sizes[part]:
            beyond = [f"--max-{part} {whole[part]}"] if whole[part] > sizes[part] else []
            caps[part] = Cap(fitted[part], f"--max-calls {max_calls}", (enough, *beyond))
    return caps
