"""One check at work: rows, models or a recording of them, repeats, comparison, decision."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from autoprompt.errors import BudgetExhausted, BudgetTooSmallError, ConfigError, Place, Problem, UsageError
from autoprompt.evaluation.checks import demo_warnings, searched_warnings
from autoprompt.evaluation.exported import read_export
from autoprompt.evaluation.scoring import check_components
from autoprompt.evaluation.task import CheckedRows, check_rows, open_task, row_calls
from autoprompt.gate.comparison import (
    Comparison,
    check_answered,
    check_comparable,
    compare,
    decide,
    find_must_pass,
    notes,
)
from autoprompt.gate.measurement import (
    Baseline,
    DatasetFacts,
    Measurement,
    gather,
    read_baseline,
)
from autoprompt.gate.report import CheckReport
from autoprompt.llm.adapter import Models
from autoprompt.llm.client import CallRole, Client, Completion, Options
from autoprompt.llm.endpoints import served_name
from autoprompt.llm.kept.recording import Recording, RecordingClient, ReplayClient, read_recording
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import open_models
from autoprompt.measure.problems import ALL_CACHED, answer_warnings, refusal_warnings
from autoprompt.measure.rows import EmptyAnswers, RowTally, evaluate
from autoprompt.measure.task import Task, answering_of, model_of, texts_of
from autoprompt.metrics import Metric, run_metric
from autoprompt.metrics.judge import Grades
from autoprompt.records import (
    Candidate,
    Evaluation,
    Example,
    Message,
    OnEvent,
    warning_event,
)
from autoprompt.settings.places import all_placed
from autoprompt.settings.records import CheckConfig, RunConfig
from autoprompt.settings.resolve import (
    CompleteConfig,
    complete,
    protect_files,
    with_known_fields,
    with_known_labels,
)
from autoprompt.text.files import check_writable, sha256_of, write_output
from autoprompt.text.inputs import protecting
from autoprompt.text.names import counted


class Answerers(Protocol):
    """The models of a check by role, whether they are asked or replayed."""

    def client(self, role: CallRole) -> Client: ...

    def concurrency(self) -> int: ...

    def warnings(self) -> list[Problem]: ...

    def constrain(self, role: CallRole) -> str | None: ...


class Sampled:
    """A client of one repeat: every request is another sample, so that no earlier answer is taken for it.

    repeat: from 0; the first asks as a run does, and shares its answers in the cache.
    """

    def __init__(self, inner: Client, repeat: int) -> None:
        self._inner, self._repeat = inner, repeat

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        seed = None if options.seed is None else options.seed + self._repeat
        return self._inner.complete(
            messages, replace(options, sample=options.sample + self._repeat, seed=seed)
        )

    def close(self) -> None:
        """Do nothing: the client is its owner's."""


class _Replayed:
    """A recording in the place of the models. Nothing is opened, so nothing can be sent."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._recording, self._path, self._config = read_recording(path), path, config

    def client(self, role: CallRole) -> Client:
        return ReplayClient(self._recording, role, self._path)

    def concurrency(self) -> int:
        return 1

    def warnings(self) -> list[Problem]:
        named, recorded = served_name(self._config.model), self.client("task").name
        if named is None or named == recorded:
            return []
        return [Problem.plain(f"the answers were recorded with {recorded}, but the settings name {named}")]

    def constrain(self, role: CallRole) -> None:
        """Return None: nothing is sent."""


class _Recorded:
    """The models themselves, with what they say noted where that is asked for."""

    def __init__(self, models: Answerers, recording: Recording | None) -> None:
        self._models, self._recording = models, recording

    def client(self, role: CallRole) -> Client:
        client = self._models.client(role)
        return client if self._recording is None else RecordingClient(client, self._recording, role)

    def concurrency(self) -> int:
        return self._models.concurrency()

    def warnings(self) -> list[Problem]:
        return self._models.warnings()

    def constrain(self, role: CallRole) -> str | None:
        return self._models.constrain(role)


@contextmanager
def open_answerers(
    config: RunConfig,
    limits: CheckConfig,
    models: Models | None,
    budget: BudgetMeter,
    recording: Recording | None,
    emit: OnEvent,
) -> Iterator[Answerers]:
    """Yield the answerers that the settings name; close opened models at the end of the block."""
    if limits.replay is not None:
        yield _Replayed(limits.replay, config)
        return
    with open_models(config, models, budget, None, emit) as opened:
        yield _Recorded(opened, recording)


@protecting()
def run_check(
    config: RunConfig,
    limits: CheckConfig,
    *,
    is_update: bool,
    models: Models | None,
    emit: OnEvent,
) -> CheckReport:
    """Measure, compare, decide; see `api.check`. Everything that can be refused is refused before a call."""
    asked = _prepare(config, limits, is_update=is_update, emit=emit)
    baseline, warnings = asked.baseline, [*asked.warnings]
    for warning in warnings:
        emit(warning_event(warning))
    measurement, late = _measured(asked, limits, models, emit, is_update=is_update)
    if is_update and baseline is None:
        late += _left_out(measurement)
    late = [*all_placed(late, asked.config)]
    for warning in late:
        emit(warning_event(warning))
    warnings += late
    comparison = None if baseline is None else _compared(measurement, baseline, warnings, is_update=is_update)
    reasons = decide(measurement, comparison, limits, asked.must_pass)
    if not reasons or is_update:
        check_answered(measurement, asked.must_pass)
    return CheckReport(
        measurement=measurement,
        baseline=baseline,
        comparison=comparison,
        limits=limits,
        must_pass=asked.must_pass,
        reasons=reasons,
        notes=()
        if comparison is None or baseline is None
        else tuple(notes(measurement, comparison, baseline)),
        warnings=tuple(warnings),
        dataset_path=str(asked.dataset),
    )


def _left_out(measurement: Measurement) -> list[Problem]:
    """Warn of what a first baseline lacks; beside an older one `notes` says so."""
    lost = [case for case in measurement.cases if case.is_lost]
    if not lost:
        return []
    said = (
        f"{len(lost)} of {counted(len(measurement.cases), 'case')} got no answer and are not in the baseline"
    )
    return [Problem("check.cases-left-out", f"{said}: {lost[0].error}")]


def _prompt_hash(candidate: Candidate, task: Task) -> str:
    """Of a prompt's text alone where there are no demonstrations, as anybody can do."""
    if not candidate.demos:
        return task.digest
    shown = [replace(demo, component="").content for demo in candidate.demos]
    return sha256_of(json.dumps([candidate.prompt, shown], ensure_ascii=True))


def _compared(
    measurement: Measurement, baseline: Baseline, warnings: list[Problem], *, is_update: bool
) -> Comparison | None:
    try:
        return compare(measurement, baseline)
    except ConfigError as error:
        if not is_update:
            raise
        warnings.append(Problem.plain(f"no comparison with the baseline that is replaced: {error}"))
        return None


def _measured(
    asked: _Asked, limits: CheckConfig, models: Models | None, emit: OnEvent, *, is_update: bool
) -> tuple[Measurement, list[Problem]]:
    """Return the measurement, and warnings of what was found out about the models.

    A baseline that is to hold is refused first if it cannot be compared with.
    """
    config = asked.config
    budget = BudgetMeter(config.max_calls, config.max_tokens, config.max_cost, config.max_seconds)
    if limits.replay is not None:
        budget = BudgetMeter()  # nothing is spent
    started = time.monotonic()
    recording = Recording() if limits.record is not None else None
    with open_answerers(config, limits, models, budget, recording, emit) as answerers:
        metric = run_metric(config, asked.labels, answerers.client, asked.rows)
        client = answerers.client("task")
        if asked.baseline is not None and not is_update:
            check_comparable(asked.baseline, metric, asked.rows, str(asked.dataset))
        grades = Grades.of(metric)
        repeats = _ask_all(asked, client, metric, grades, answerers.concurrency(), budget, emit)
        grades.check()
        late = [*answerers.warnings(), *budget.exceeded(), *filter(None, [grades.warning])]
        labels = () if answering_of(asked.task) is None else asked.labels
        rows = [row for evaluation in repeats for row in evaluation.rows]
        late += refusal_warnings(rows)
        late += answer_warnings(rows, metric, labels, answerers.constrain("task"))
    if budget.cached_answers and not budget.spent.task_calls:
        late.append(ALL_CACHED)
    if recording is not None and limits.record is not None:
        write_output(limits.record, recording.to_text(), role="record")
    measurement = Measurement(
        cases=gather(repeats, asked.rows, keeps_answers=metric.is_aggregate),
        repeats=asked.repeats,
        metric=metric,
        metric_options=dict(config.metric_options),
        model=model_of(asked.task, client),
        prompt_sha256=_prompt_hash(asked.candidate, asked.task),
        dataset=_facts(asked.dataset, asked.rows),
        usage=budget.spent.usage,
        calls=budget.spent.calls,
        seconds=time.monotonic() - started,
    )
    return measurement, late


def _ask_all(
    asked: _Asked,
    client: Client,
    metric: Metric,
    grades: Grades,
    concurrency: int,
    budget: BudgetMeter,
    emit: OnEvent,
) -> list[Evaluation]:
    """Ask about every row, as often as there are repeats: an evaluation for each.

    Raises:
        BudgetTooSmallError: If a cap does not let all of them through.
    """
    config, total = asked.config, len(asked.rows) * asked.repeats
    per_row = row_calls(config, asked.task)
    answers = EmptyAnswers()
    tally = RowTally(emit, budget, "rows", total, answers=answers, grades=grades)

    def ask(repeat: int) -> Evaluation:
        sampled = Sampled(client, repeat)
        program = asked.task.program(sampled, metric, labels=asked.labels, rows=asked.rows)
        return evaluate(
            program,
            asked.candidate,
            asked.rows,
            metric,
            concurrency=concurrency,
            on_row=tally.add,
            grant=budget.retries,
        )

    try:
        with budget.block(math.ceil(total * per_row)):
            evaluations = [ask(repeat) for repeat in range(asked.repeats)]
    except BudgetExhausted as error:
        repeated = f", calls a time: {per_row:.3g}" if per_row > 1 else ""
        rows = f"{counted(len(asked.rows), 'row')}, {asked.repeats} each{repeated}"
        said = f"too small for {counted(total, 'answer')} ({rows}; {error})"
        fix = "Raise it, or use fewer rows."
        raise BudgetTooSmallError(
            Problem("budget.too-small-for-rows", said, Place(setting=error.cap), fix)
        ) from error
    answers.check()
    return evaluations


def _facts(path: Path, rows: Sequence[Example]) -> DatasetFacts:
    """Return the facts of a check. The hash is of the rows' contents, whatever their order or format."""
    ids = sorted(row.id for row in rows)
    return DatasetFacts(name=path.name, rows=len(rows), sha256=sha256_of("\n".join(ids)))


# --- what a check asks: prompt or workflow, rows, baseline; refused before a call ---


@dataclass(frozen=True, slots=True)
class _Asked:
    """One prompt or workflow, rows in their order, so many times.

    baseline: None where it is made now, or the old one cannot be read. must_pass: ids of rows. warnings: what
    is to be said before the first call.
    """

    config: RunConfig
    dataset: Path
    candidate: Candidate
    task: Task
    rows: Sequence[Example]
    labels: tuple[str, ...]
    repeats: int
    baseline: Baseline | None
    must_pass: frozenset[str]
    warnings: tuple[Problem, ...]


def _prepare(
    config: RunConfig, limits: CheckConfig, *, is_update: bool, emit: OnEvent = lambda _: None
) -> _Asked:
    """Return what is to be measured, checked. emit: gets each row that a program is tried on.

    Raises:
        InputError, ConfigError, UsageError: With place and what to do.
    """
    config = complete(config)
    protect_files(dict(limits))
    dataset = config.dataset
    if dataset is None:
        problem = Problem("dataset.none", "no dataset", fix="Give {dataset}.", settings={"dataset": "<FILE>"})
        raise ConfigError(problem)
    warnings: list[Problem] = []
    baseline = _baseline(limits, warnings, is_update=is_update)
    config, candidate, checked = _chosen(config, limits, dataset, emit)
    rows = checked.examples
    others = [warning for warning in checked.warnings if warning.code == "program.other-text"]
    if is_update and others:  # the baseline would hold the scores of the program's own text
        raise ConfigError(*others)
    warnings += checked.warnings
    must_pass = find_must_pass(limits.must_pass, rows, str(dataset))
    repeats = _repeats(limits, baseline, is_update=is_update)
    if repeats == 1 and config.temperature > 0:
        said = "the temperature is above 0 and each row is asked once, so noise may look like a change"
        fix, settings = "Use {repeat} to tell them apart.", {"repeat": 3}
        warnings.append(Problem("check.noise", said, Place(setting="temperature"), fix, settings))
    if limits.record is not None:
        check_writable(limits.record, role="record")
    if is_update and limits.baseline is not None:
        check_writable(limits.baseline, role="baseline", makes_folders=True)
    warnings += demo_warnings(checked.task, candidate, rows, checked.labels, config)
    warnings += searched_warnings([candidate], rows)
    return _Asked(
        config=config,
        dataset=dataset,
        candidate=candidate,
        task=checked.task,
        rows=rows,
        labels=checked.labels,
        repeats=repeats,
        baseline=baseline,
        must_pass=must_pass,
        warnings=all_placed(warnings, config),
    )


def _chosen(
    config: CompleteConfig, limits: CheckConfig, dataset: Path, emit: OnEvent
) -> tuple[CompleteConfig, Candidate, CheckedRows]:
    """Return what is measured, the rows, and the settings with what an export says of them."""
    exported = None if limits.exported is None else read_export(limits.exported, config)
    known = None if exported is None else exported.labels
    if exported is not None:
        config = with_known_fields(config, exported.input_field, exported.target_field)
    config, labels_of = with_known_labels(config, known, str(limits.exported))
    candidate = None if exported is None else exported.candidate
    checked = check_rows(config, dataset, open_task(config, candidate), labels_of=labels_of, emit=emit)
    texts = texts_of(checked.task)
    if candidate is None:
        return config, Candidate(components=texts), checked
    check_components(candidate, texts, "exported")
    return config, replace(candidate, components=texts | dict(candidate.components), id=""), checked


def _baseline(limits: CheckConfig, warnings: list[Problem], *, is_update: bool) -> Baseline | None:
    if limits.baseline is None:
        said = "no baseline file"
        fix = "Give {baseline}. Add {update_baseline} to create it."
        settings = {"baseline": "<FILE>", "update_baseline": None}
        raise UsageError(Problem("check.no-baseline", said, fix=fix, settings=settings))
    if not is_update:
        return read_baseline(limits.baseline)
    if not limits.baseline.exists():
        return None
    try:
        return read_baseline(limits.baseline)
    except ConfigError as error:
        warnings.append(Problem.plain(f"no comparison with the baseline that is replaced: {error}"))
        return None


def _repeats(limits: CheckConfig, baseline: Baseline | None, *, is_update: bool) -> int:
    if baseline is None:
        return limits.repeat or 1
    if limits.repeat is None or limits.repeat == baseline.repeats:
        return baseline.repeats
    if is_update:
        return limits.repeat
    said = (
        f"expected {baseline.repeats}, as {limits.baseline} has {counted(baseline.repeats, 'answer')} for "
        f"each case, found {limits.repeat}"
    )
    fix, settings = (
        "Remove it, or write the baseline again with {update_baseline}.",
        {"update_baseline": None},
    )
    raise ConfigError(Problem("baseline.repeats", said, Place(setting="repeat"), fix, settings))
