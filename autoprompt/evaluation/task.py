"""What the settings name: one prompt or a workflow, opened, and the rows that it is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from autoprompt.dataset.python_rows import Rows, with_rows
from autoprompt.dataset.splits import load_checked
from autoprompt.errors import ConfigError, Interrupted, Place, Problem
from autoprompt.evaluation.checks import check_metric, given_rows
from autoprompt.evaluation.prompt import check_placeholders, starting_prompt
from autoprompt.llm.client import Client, Options
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import open_program_calls, unpriced
from autoprompt.measure.baselines import unbalanced_warnings
from autoprompt.measure.cost import FREE_OUTPUT_TOKENS, LABEL_OUTPUT_TOKENS
from autoprompt.measure.program import (
    COMPONENT,
    Program,
    PromptProgram,
    repeated_text,
    sends_turns,
    unknown_placeholders,
)
from autoprompt.measure.task import Component, ComponentKind, SourceForm, Task
from autoprompt.metrics import Metric, needs_target
from autoprompt.metrics.base import TextMetric, tokens_of_whole, useful_tokens
from autoprompt.records import Candidate, Example, Message, OnEvent
from autoprompt.runs import RunFolder
from autoprompt.runs.events import TRIAL, RowsEvaluated
from autoprompt.runs.resuming import interrupted_trial
from autoprompt.settings.arguments import check_kind, listener
from autoprompt.settings.records import JUDGED, STARTS, RunConfig
from autoprompt.settings.resolve import CompleteConfig, completed
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS
from autoprompt.text.files import sha256_of

if TYPE_CHECKING:
    from autoprompt.programs.probe import ProgramView
    from autoprompt.programs.task import ProgramTask


@dataclass(frozen=True)
class PromptTask:
    """One prompt, one call a row. turns: of the first row, () unless rows are conversations."""

    config: RunConfig
    prompt: str
    turns: tuple[Message, ...] = ()

    calls_per_row = 1
    shown = ()

    @property
    def components(self) -> tuple[Component, ...]:
        kind: ComponentKind = "template" if unknown_placeholders(self.prompt, ()) else "instruction"
        return (Component(COMPONENT, kind, self.prompt, answers_rows=True),)

    @property
    def input_fields(self) -> tuple[str, ...]:
        asked = unknown_placeholders(self.prompt, ())
        fields = tuple(name for name in asked if name != self.config.target_field)
        return fields if len(fields) > 1 else ()

    @property
    def digest(self) -> str:
        return sha256_of(self.prompt)

    def fitted(self, rows: Sequence[Example]) -> PromptTask:
        return replace(self, turns=next((row.turns for row in rows), ()))

    def warnings(self, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
        return check_placeholders(self.prompt, rows, self.config)

    def check_search(self) -> list[Problem]:
        return []

    def repeated_text(self, fields: Sequence[str]) -> str:
        if sends_turns(self.prompt, self.turns, self.config.input_field):
            return ""
        return repeated_text(self.prompt, fields)

    def program(
        self,
        client: Client,
        metric: Metric,
        *,
        labels: tuple[str, ...],
        rows: Sequence[Example],
        folder: RunFolder | None = None,
    ) -> Program:
        options = task_options(self.config, labels)
        targets = [row.target_text for row in rows]
        if labels or targets:  # a right answer may itself repeat rows, as its target does
            options = replace(options, repeats_after=0 if labels else tokens_of_whole(targets))
        if not labels and self.config.max_output_tokens is None:
            options = replace(options, useful_tokens=useful_tokens(metric, rows))
        return PromptProgram(
            client,
            self.prompt,
            labels=labels,
            options=options,
            read=metric.read,
            input_field=self.config.input_field,
            target_field=self.config.target_field,
            reasoning_tokens=reasoning_tokens(self.config, labels),
            read_marked=metric.read_marked if isinstance(metric, TextMetric) else None,
        )

    def write_original(self, folder: RunFolder, rows: Sequence[Example]) -> None:
        fields = shared_fields(rows, self.config.target_field)
        folder.write_fields(fields, has_conversations=any(row.turns for row in rows))

    def check_unchanged(self, folder: RunFolder) -> None:
        """Do nothing: the folder holds the prompt, and a resumed run takes it from there."""

    def check_writable(self, candidate: Candidate) -> None:
        """Do nothing: a prompt holds any text."""

    def write_best(self, folder: RunFolder, best: Candidate) -> None:
        """Do nothing: every run writes the text of its best prompt."""


def open_task(
    config: RunConfig, candidate: Candidate | None = None, *, folder: RunFolder | None = None
) -> Task:
    """Open what the settings name. Which kinds there are, only this and `source_form` know.

    candidate: scored instead of the settings' prompt. folder: of a run that is resumed.
    Raises PromptError if nothing is named,
    WorkflowDefinitionError for a broken file, ConfigError for two things that exclude each other.
    """
    if config.program is not None:
        from autoprompt.programs.export import places_of
        from autoprompt.programs.task import open_program
        from autoprompt.programs.winner import Winner
        from autoprompt.workflow.flow_run import load_tools

        opened = open_program(config, config.program, folder, load_tools(config.tools))
        is_known = candidate is not None and places_of(candidate) is not None
        return replace(opened, winner=Winner.of(candidate)) if candidate is not None and is_known else opened
    if config.workflow is None:
        return PromptTask(config, starting_prompt(config) if candidate is None else candidate.prompt)
    if candidate is not None and COMPONENT in candidate.components:
        said = f"cannot be combined with a single prompt, found {config.workflow}"
        raise ConfigError(
            Problem("settings.exclusive", said, Place(setting="workflow"), "Remove one of them.")
        )
    from autoprompt.workflow.flow_run import load_tools
    from autoprompt.workflow.task import open_workflow

    load_tools(config.tools)
    return open_workflow(config, config.workflow)


Config = TypeVar("Config", bound=RunConfig)


@contextmanager
def given_program(config: Config, program: object | None) -> Iterator[Config]:
    """Name a program that is given as an object, or as `module:object`, in the settings.

    When the block ends, programs that were set up in it are shut down.

    Raises:
        ConfigError: The settings name another prompt, workflow or program. Those of a run that is resumed may
            name a program, which is given again.
    """
    check_kind(config, RunConfig)
    other = next((name for name in STARTS if getattr(config, name) is not None), None)
    if program is not None and other is not None and not isinstance(config, CompleteConfig):
        said, fix = f"cannot be combined with the setting {other!r}", "Give one of them."
        raise ConfigError(Problem("settings.exclusive", said, Place(setting="program"), fix))
    if program is None and config.program is None:
        yield config
        return
    from autoprompt.programs.program import programs_in_use
    from autoprompt.programs.task import named_program

    with programs_in_use():
        yield config if program is None else config.model_copy(update={"program": named_program(program)})


def probed(
    task: Task, config: RunConfig, rows: Sequence[Example], emit: OnEvent = lambda _: None
) -> tuple[Task, Spent]:
    """Return the task as a few rows of train show it, and what was spent on that. Only programs are tried.

    emit: gets a `rows_evaluated` event four times a second and after the last row.

    Raises:
        Interrupted: On Ctrl-C.
    """
    if config.program is None:
        return task, Spent()
    from autoprompt.programs.task import ProgramTask

    if not isinstance(task, ProgramTask):
        return task, Spent()
    if task.view is not None:
        return task, task.spent
    meter = BudgetMeter(config.max_calls, config.max_tokens, config.max_cost, config.max_seconds)

    def on_row(done: int, total: int) -> None:
        emit(RowsEvaluated(TRIAL, done, total, meter.spent.to_dict()).to_dict())

    try:
        with open_program_calls(config, meter) as client:
            found = replace(task.probed(client, rows, on_row), spent=meter.spent)
    except (KeyboardInterrupt, Interrupted) as error:
        raise interrupted_trial(meter.spent.calls, is_cached=not config.no_cache) from error
    if config.max_cost is not None and meter.spent.task.cost_usd is None and found.view is not None:
        raise unpriced(", ".join(found.view.models) or "the program's model")
    return found, found.spent


def source_form(settings: Mapping[str, Any]) -> SourceForm | None:
    """Return the form of the source that a run with these settings optimizes.

    None for a prompt, which every form can hold.
    """
    if settings.get("program") is not None:
        from autoprompt.programs.export import ProgramForm

        return ProgramForm()
    if settings.get("workflow") is None:
        return None
    from autoprompt.workflow.task import WorkflowForm

    return WorkflowForm(Path(settings["workflow"]))


def input_of(config: RunConfig, task: Task) -> tuple[str, ...]:
    """Return the fields that make up a row's input, () for the one that the settings name.

    Rows are known by their input: by one of its fields alone, many rows would be taken for one.
    """
    is_named = config.input_field != RunConfig.model_fields["input_field"].default
    return () if is_named else task.input_fields


def shared_fields(rows: Sequence[Example], target_field: str) -> tuple[str, ...]:
    """Return the names that a prompt may use as placeholders: those that every row has, but the target's."""
    shared = set.intersection(*(set(row.fields) for row in rows)) - {target_field}
    return tuple(name for name in rows[0].fields if name in shared)


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


def reasoning_tokens(config: RunConfig, labels: tuple[str, ...]) -> int:
    return config.max_output_tokens or (OUTPUT_TOKENS if labels else FREE_OUTPUT_TOKENS)


def row_calls(config: RunConfig, task: Task) -> float:
    """Return how many requests to plan with for one row, the judge's included."""
    return task.calls_per_row + (config.metric == JUDGED)


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows to ask a task about, as they are: nothing is split.

    spent: on trying a program, see `probed`; nothing else has been sent.
    """

    examples: tuple[Example, ...]
    labels: tuple[str, ...]
    task: Task
    warnings: tuple[Problem, ...]
    spent: Spent = field(default_factory=Spent)


def check_rows(
    config: RunConfig,
    dataset: Path,
    task: Task,
    *,
    labels_of: str = "",
    emit: OnEvent = lambda _: None,
) -> CheckedRows:
    """Read the rows and check them, the metric and the task against each other.

    labels_of: see `load_checked`. emit: see `probed`. Raises as `prepare` does.
    """
    made_of = input_of(config, task)
    examples, found, warnings = load_checked(
        dataset,
        config,
        labels_of=labels_of,
        input_of=made_of,
        needs_target=lambda: needs_target(config),
    )
    task, spent = probed(task.fitted(examples), config, examples, emit)
    rows = {dataset: examples}
    warnings = (*warnings, *unbalanced_warnings(examples, found or (), config.metric))
    warnings = (*warnings, *task.warnings(rows))
    warnings = (*warnings, *check_metric(config, found or (), rows))
    return CheckedRows(tuple(examples), found or (), task, tuple(warnings), spent)


def inspect_program(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    program: object | None = None,
    on_event: OnEvent | None = None,
) -> ProgramView:
    """Run a program on a few rows, and return what is seen: its prompts, calls, tools and what a row costs.

    Args:
        config: The dataset and its fields. `max_calls` and the other limits hold.
        rows: As in `optimize`.
        program: As in `optimize`.
        on_event: Gets a `rows_evaluated` event four times a second and after the last row.

    Returns:
        Where the program calls models, its prompts, and what these rows took.

    Raises:
        InputError: As in `optimize`: for what would make a run wrong, with file and line.
        ModelError: The program's endpoint fails.

    Examples:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from autoprompt import RunConfig, inspect_program
        >>> model = FakeListChatModel(responses=["billing"])
        >>> def desk(text: str) -> str:
        ...     return model.invoke([("system", "Route it to billing or tech."), ("user", text)]).content
        >>> rows = [{"text": f"ticket {n}", "target": ("billing", "tech")[n % 2]} for n in range(20)]
        >>> view = inspect_program(RunConfig(input_field="text"), rows=rows, program=desk)
        >>> [component.text for component in view.components]
        ['Route it to billing or tech.']
    """
    emit = listener(on_event)
    with (
        given_program(config, program) as config,
        with_rows(config, given_rows(config, rows)) as config,
        completed(config) as config,
    ):
        if config.program is None:
            raise ConfigError(Problem("program.none", "no program is given", Place(setting="program")))
        if config.dataset is None:
            fix = "Give {dataset}, or `rows` in Python."
            raise ConfigError(Problem("dataset.none", "no dataset", fix=fix, settings={"dataset": "<FILE>"}))
        task = open_task(config)
        examples, _, _ = load_checked(
            config.dataset, config, input_of=input_of(config, task), needs_target=lambda: False
        )
        found, _ = probed(task.fitted(examples), config, examples, emit)
        view = cast("ProgramTask", found).view
        if view is None:
            raise TypeError("a probed program has a view")
        return view
