"""What a check asks: prompt or workflow, rows, baseline; all that can be refused before a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoprompt.errors import ConfigError, Place, Problem, UsageError
from autoprompt.evaluation.checks import demo_warnings
from autoprompt.evaluation.exported import read_export
from autoprompt.evaluation.scoring import check_components
from autoprompt.evaluation.task import CheckedRows, check_rows, open_task
from autoprompt.gate.baseline import Baseline, read_baseline
from autoprompt.gate.decision import find_must_pass
from autoprompt.measure.task import Task, texts_of
from autoprompt.records import Candidate, Example, OnEvent
from autoprompt.settings.records import CheckConfig, RunConfig
from autoprompt.settings.resolve import (
    CompleteConfig,
    check_kind,
    complete,
    with_known_fields,
    with_known_labels,
)
from autoprompt.text.files import check_writable
from autoprompt.text.names import counted


@dataclass(frozen=True, slots=True)
class Asked:
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


def prepare(
    config: RunConfig, limits: CheckConfig, *, is_update: bool, emit: OnEvent = lambda _: None
) -> Asked:
    """Return what is to be measured, checked. emit: gets each row that a program is tried on.

    Raises InputError, ConfigError and UsageError, with place and what to do.
    """
    check_kind(config, RunConfig)
    check_kind(limits, CheckConfig, "limits")
    config = complete(config)
    dataset = config.dataset
    if dataset is None:
        problem = Problem("dataset.none", "no dataset", fix="Give {dataset}.", settings={"dataset": "<FILE>"})
        raise ConfigError(problem)
    warnings: list[Problem] = []
    baseline = _baseline(limits, warnings, is_update=is_update)
    config, candidate, checked = _chosen(config, limits, dataset, emit)
    rows = checked.examples
    warnings += checked.warnings
    must_pass = find_must_pass(limits.must_pass, rows, str(dataset))
    repeats = _repeats(limits, baseline, is_update=is_update)
    if repeats == 1 and config.temperature > 0:
        said = "the temperature is above 0 and each row is asked once, so noise may look like a change"
        fix, settings = "Use {repeat} to tell them apart.", {"repeat": 3}
        warnings.append(Problem("check.noise", said, Place(setting="temperature"), fix, settings))
    if limits.record is not None:
        check_writable(limits.record)
    if is_update and limits.baseline is not None:
        check_writable(limits.baseline, makes_folders=True)
    warnings += demo_warnings(checked.task, candidate, rows, checked.labels, config)
    return Asked(
        config=config,
        dataset=dataset,
        candidate=candidate,
        task=checked.task,
        rows=rows,
        labels=checked.labels,
        repeats=repeats,
        baseline=baseline,
        must_pass=must_pass,
        warnings=tuple(warnings),
    )


def _chosen(
    config: CompleteConfig, limits: CheckConfig, dataset: Path, emit: OnEvent
) -> tuple[CompleteConfig, Candidate, CheckedRows]:
    """What is measured, and the rows that are asked about; the settings with what an export says of them."""
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
    return config, Candidate(components=texts | dict(candidate.components), demos=candidate.demos), checked


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
