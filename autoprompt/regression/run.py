"""One check at work: rows, models, repeats, comparison, decision."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoprompt.checking import CheckedRows, check_rows, demo_warnings
from autoprompt.clients import Clients
from autoprompt.config import CheckSettings, RunConfig
from autoprompt.errors import BudgetExhausted, BudgetTooSmallError, ConfigError, UsageError
from autoprompt.evaluation import EmptyAnswers, evaluate, row_counter, step_warning
from autoprompt.judge import Grades
from autoprompt.llm import Budget
from autoprompt.llm.client import Client
from autoprompt.llm.recording import Recording
from autoprompt.metrics import JUDGED, Metric, get_metric
from autoprompt.regression.answerers import Sampled, open_answerers
from autoprompt.regression.baseline import Baseline, DatasetFacts, read_baseline, sha256_of
from autoprompt.regression.comparison import Comparison, check_comparable, compare
from autoprompt.regression.gate import check_answered, decide, find_must_pass, notes
from autoprompt.regression.measurement import MeasuredCase, Measurement, measure
from autoprompt.regression.report import CheckReport
from autoprompt.settings import (
    CompleteConfig,
    check_kind,
    complete,
    starting_prompt,
    with_known_input,
    with_known_labels,
)
from autoprompt.store.export import read_one_prompt
from autoprompt.store.files import check_writable, write_output
from autoprompt.task import calls_per_row, make_program
from autoprompt.types import Candidate, Evaluation, Example, OnEvent

if TYPE_CHECKING:
    from autoprompt.workflow.task import WorkflowTask


def run_check(
    config: RunConfig,
    limits: CheckSettings,
    *,
    is_update: bool,
    clients: Clients | None,
    emit: OnEvent,
) -> CheckReport:
    """Measure, compare, decide; see `api.check`. Everything that can be refused is refused before a call."""
    check_kind(config, RunConfig)
    check_kind(limits, CheckSettings, "limits")
    config = complete(config)
    dataset = config.dataset
    if dataset is None:
        raise ConfigError("check needs a dataset: give --dataset FILE; in Python RunConfig(dataset=FILE).")
    warnings: list[str] = []
    baseline = _baseline(limits, warnings, is_update=is_update)
    config, candidate, checked = _chosen(config, limits, dataset)
    rows = checked.examples
    warnings += checked.warnings
    must_pass = find_must_pass(limits.must_pass, rows, str(dataset))
    repeats = _repeats(limits, baseline, is_update=is_update)
    if repeats == 1 and config.temperature > 0:
        warnings.append(
            "temperature is above 0 and each row is asked once: --repeat 3 tells noise from change"
        )
    if limits.record is not None:
        check_writable(limits.record)
    if is_update and limits.baseline is not None:
        check_writable(limits.baseline, makes_folders=True)
    warnings += demo_warnings(candidate, rows, checked.labels, config)
    task = _Task(config, candidate, checked.workflow, rows, checked.labels, repeats)
    for warning in warnings:
        emit({"event": "warning", "message": warning})
    measurement, late = _measured(task, limits, clients, emit, comparable=None if is_update else baseline)
    if is_update and baseline is None:
        late += _left_out(measurement)
    for warning in late:
        emit({"event": "warning", "message": warning})
    warnings += late
    comparison = None if baseline is None else _compared(measurement, baseline, warnings, is_update=is_update)
    reasons = decide(measurement, comparison, limits, must_pass)
    if not reasons or is_update:
        check_answered(measurement, must_pass)
    return CheckReport(
        measurement=measurement,
        baseline=baseline,
        comparison=comparison,
        limits=limits,
        must_pass=must_pass,
        reasons=reasons,
        notes=()
        if comparison is None or baseline is None
        else tuple(notes(measurement, comparison, baseline)),
        warnings=tuple(warnings),
        dataset_path=str(dataset),
    )


def _left_out(measurement: Measurement) -> list[str]:
    """What a first baseline lacks; beside an older one `notes` says so."""
    lost = [case for case in measurement.cases if case.is_lost]
    if not lost:
        return []
    said = f"{len(lost)} of {len(measurement.cases)} cases got no answer and are not in the baseline"
    return [f"{said}: {lost[0].error}"]


def _chosen(
    config: CompleteConfig, limits: CheckSettings, dataset: Path
) -> tuple[CompleteConfig, Candidate, CheckedRows]:
    """What is measured, and the rows that are asked about; the settings with what an export says of them."""
    if config.workflow is not None and limits.exported is not None:
        raise ConfigError("exported holds one prompt, and a workflow is named: give one of them.")
    exported = None if limits.exported is None else read_one_prompt(limits.exported)
    known = None if exported is None else exported.labels
    if exported is not None:
        config = with_known_input(config, exported.input_field)
    config, labels_of = with_known_labels(config, known, str(limits.exported))
    prompt = ""
    if config.workflow is None:
        prompt = starting_prompt(config) if exported is None else exported.candidate.prompt
    checked = check_rows(config, dataset, prompt, labels_of=labels_of)
    demos = () if exported is None else exported.candidate.demos
    return config, Candidate(components=checked.components, demos=demos), checked


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked: one prompt or workflow, rows in their order, so many times."""

    config: RunConfig
    candidate: Candidate
    workflow: WorkflowTask | None
    rows: Sequence[Example]
    labels: tuple[str, ...]
    repeats: int


def _prompt_hash(candidate: Candidate, workflow: WorkflowTask | None) -> str:
    """Of a workflow's file; of a prompt's text alone where there are no demonstrations, as anybody can do."""
    if workflow is not None:
        return sha256_of(workflow.source)
    if not candidate.demos:
        return sha256_of(candidate.prompt)
    shown = [replace(demo, component="").content for demo in candidate.demos]
    return sha256_of(json.dumps([candidate.prompt, shown], ensure_ascii=True))


def _baseline(limits: CheckSettings, warnings: list[str], *, is_update: bool) -> Baseline | None:
    if limits.baseline is None:
        raise UsageError("check needs a baseline: give --baseline FILE (--update-baseline makes it).")
    if not is_update:
        return read_baseline(limits.baseline)
    if not limits.baseline.exists():
        return None
    try:
        return read_baseline(limits.baseline)
    except ConfigError as error:
        warnings.append(f"the baseline that is replaced cannot be compared with: {error}")
        return None


def _repeats(limits: CheckSettings, baseline: Baseline | None, *, is_update: bool) -> int:
    if baseline is None:
        return limits.repeat or 1
    if limits.repeat is None or limits.repeat == baseline.repeats:
        return baseline.repeats
    if is_update:
        return limits.repeat
    raise ConfigError(
        f"repeat is {limits.repeat}, and {limits.baseline} holds {baseline.repeats} answers for each case: "
        "the two sides need equally many. Leave --repeat out, or write the baseline anew with "
        "--update-baseline."
    )


def _compared(
    measurement: Measurement, baseline: Baseline, warnings: list[str], *, is_update: bool
) -> Comparison | None:
    try:
        return compare(measurement, baseline)
    except ConfigError as error:
        if not is_update:
            raise
        warnings.append(f"the baseline that is replaced cannot be compared with: {error}")
        return None


def _measured(
    task: _Task,
    limits: CheckSettings,
    clients: Clients | None,
    emit: OnEvent,
    *,
    comparable: Baseline | None,
) -> tuple[Measurement, list[str]]:
    """The measurement, and what was found out about the models. comparable: refused first if it is not."""
    config = task.config
    budget = Budget(config.max_calls, config.max_tokens, config.max_cost, config.max_seconds)
    if limits.replay is not None:
        budget = Budget()  # nothing is spent
    started = time.monotonic()
    recording = Recording() if limits.record is not None else None
    with open_answerers(config, limits, clients, budget, recording, emit) as models:
        judge = models.client("judge") if config.metric == JUDGED else None
        metric = get_metric(config.metric, config.metric_options, judge=judge, labels=task.labels)
        client = models.client("task")
        if comparable is not None:
            check_comparable(comparable, metric, task.rows, str(config.dataset))
        grades = Grades.of(metric)
        cases = _ask_all(task, client, metric, grades, models.concurrency(), budget, emit)
        grades.check()
        failed = step_warning([case.prediction for case in cases])
        late = [*models.warnings(), *filter(None, [grades.warning, failed])]
    if limits.replay is None and task.workflow is None and not budget.spent.task_calls:
        late.append(
            "every answer came from the response cache: nothing was asked of the model as it is today "
            "(--no-cache asks it)"
        )
    if recording is not None and limits.record is not None:
        write_output(limits.record, recording.to_text())
    measurement = Measurement(
        cases=cases,
        repeats=task.repeats,
        metric=metric,
        metric_options=dict(config.metric_options),
        model=client.name,
        prompt_sha256=_prompt_hash(task.candidate, task.workflow),
        dataset=_facts(config.dataset, task.rows),
        usage=budget.spent.usage,
        calls=budget.spent.calls,
        seconds=time.monotonic() - started,
    )
    return measurement, late


def _ask_all(
    task: _Task,
    client: Client,
    metric: Metric,
    grades: Grades,
    concurrency: int,
    budget: Budget,
    emit: OnEvent,
) -> tuple[MeasuredCase, ...]:
    """Every row, every repeat. Raises BudgetTooSmallError where a cap does not let all of them through."""
    config, total = task.config, len(task.rows) * task.repeats
    per_row = calls_per_row(config, task.workflow)
    answers = EmptyAnswers()
    on_row = answers.counting(grades.counting(row_counter(emit, budget, "rows", total)))

    def ask(repeat: int) -> Evaluation:
        asked = Sampled(client, repeat)
        program = make_program(
            config, task.candidate.prompt, task.workflow, task.labels, asked, metric, task.rows
        )
        return evaluate(
            program,
            task.candidate,
            task.rows,
            metric,
            concurrency=concurrency,
            on_row=on_row,
            grant=budget.retries,
        )

    try:
        with budget.block(total * per_row):
            cases = measure(ask, task.rows, task.repeats, keeps_answers=metric.is_aggregate)
    except BudgetExhausted as error:
        raise BudgetTooSmallError(
            f"{error.cap} is too small to ask {total:,} times ({len(task.rows):,} rows, {task.repeats} each"
            f"{f', {per_row} calls a time' if per_row > 1 else ''}; {error}). Raise it, or give fewer rows."
        ) from error
    answers.check()
    return cases


def _facts(path: Path | None, rows: Sequence[Example]) -> DatasetFacts:
    """The hash is of the rows' contents, whatever their order, file format or other fields."""
    ids = sorted(row.id for row in rows)
    name = "dataset" if path is None else path.name
    return DatasetFacts(name=name, rows=len(rows), sha256=sha256_of("\n".join(ids)))
