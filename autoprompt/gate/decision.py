"""The decision: is this a regression? And what has to be said of what it rests on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from autoprompt.brief import brief
from autoprompt.dataset.checks import content_key
from autoprompt.errors import ConfigError, EndpointError, Place, Problem
from autoprompt.gate.baseline import Baseline
from autoprompt.gate.comparison import Comparison
from autoprompt.gate.measurement import MeasuredCase, Measurement
from autoprompt.measure.problems import MOST_LOST
from autoprompt.records import Example
from autoprompt.settings.records import CheckConfig
from autoprompt.stats import difference
from autoprompt.text.names import counted, quoted

ALPHA = 0.05  # one-sided: the chance that a check of an unchanged prompt fails by bad luck
_SMALLEST = 5  # five broken and none fixed is the least that is significant


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a check failed, in a sentence. cases: those that it speaks of, where it is about single ones."""

    kind: Literal["drop", "min_score", "must_pass"]
    message: str
    cases: tuple[str, ...] = ()

    __repr__ = brief


def find_must_pass(names: Sequence[str], examples: Sequence[Example], dataset: str) -> frozenset[str]:
    """Ids of the cases that may never fail. names: whole inputs, the rows' own `id` fields, or our ids.

    Raises ConfigError for a name that is none of them, or of several rows.
    """
    by_name: dict[str, dict[str, Example]] = defaultdict(dict)
    for example in examples:
        for known in (example.input_text, example.own_id, example.id):
            by_name[content_key(known)][example.id] = example
    unknown = [name for name in names if not name.strip() or content_key(name) not in by_name]
    if unknown:
        shown = ", ".join(map(quoted, unknown[:5]))
        said = f"{shown} is not the id or the input of any row in {dataset}"
        fix = "Fix or remove it. An edited row gets a new id, unless the file has a field `id`."
        raise ConfigError(Problem("check.unknown-row", said, Place(setting="must_pass"), fix))
    for name in names:
        if len(found := by_name[content_key(name)]) > 1:
            rows = ", ".join(f"{row.id} (line {row.line})" for row in list(found.values())[:5])
            said = f"{name!r} matches {counted(len(found), 'row')} in {dataset}: {rows}"
            fix = "Give one of these ids."
            raise ConfigError(Problem("check.several-rows", said, Place(setting="must_pass"), fix))
    return frozenset(case_id for name in names for case_id in by_name[content_key(name)])


def decide(
    measurement: Measurement, comparison: Comparison | None, limits: CheckConfig, must_pass: Collection[str]
) -> tuple[Reason, ...]:
    """Why the check fails; empty where it passes.

    A drop counts if it is significant and more than `max_drop`; a score if it is under `min_score`; a case
    of `must_pass` if any of its repeats was wrong.
    """
    found = []
    if comparison is not None and _is_regression(comparison, limits):
        found.append(Reason("drop", _drop_message(measurement, comparison)))
    score = measurement.score
    if limits.min_score is not None and difference(score, limits.min_score) < 0:
        what = f"{measurement.metric.name} is {score:.3f}, below min_score={limits.min_score:g}"
        found.append(Reason("min_score", what))
    failed = [case for case in measurement.cases if case.id in must_pass and case.has_failed]
    if failed:
        what = "a case" if len(failed) == 1 else counted(len(failed), "case")
        names = ", ".join(case.name for case in failed[:5])
        ids = tuple(case.id for case in failed)
        found.append(Reason("must_pass", f"{what} that must pass failed: {names}", ids))
    return tuple(found)


def check_answered(measurement: Measurement, must_pass: Collection[str]) -> None:
    """Raises EndpointError where too little was answered for a check to pass: that is no regression."""
    lost = [case for case in measurement.cases if case.is_lost]
    if not lost:
        return
    first = str(lost[0].error).removesuffix(".")
    said = f"{len(lost)} of {counted(len(measurement.cases), 'case')} got no answer; the first: {first}"
    fix = "Run the check again when the endpoint answers."
    needed = [case.name for case in lost if case.id in must_pass]
    if needed:
        said += f". Case {needed[0]} must pass, but it has no answer"
        raise EndpointError(Problem("check.no-answers", said, fix=fix))
    if len(lost) > MOST_LOST * len(measurement.cases):
        said += f". A check decides nothing if more than {MOST_LOST:.0%} of the cases have no answer"
        raise EndpointError(Problem("check.no-answers", said, fix=fix))


def notes(measurement: Measurement, comparison: Comparison, baseline: Baseline) -> list[str]:
    """What has to be known of a comparison, in sentences: what is not the same on both sides."""
    found = []
    if measurement.prompt_sha256 != baseline.prompt_sha256:
        found.append(f"the prompt has changed since the baseline of {baseline.created}")
    if measurement.model != baseline.model:
        found.append(f"the model is {measurement.model}, but the baseline was measured with {baseline.model}")
    if dict(measurement.metric_options) != baseline.metric_options:
        found.append(f"the options of {baseline.metric} have changed since the baseline")
    if measurement.repeats != baseline.repeats:  # only where the baseline is about to be replaced
        found.append(
            f"the baseline has {counted(baseline.repeats, 'answer')} for each case, this check "
            f"{measurement.repeats}; it compares as many as both have"
        )
    if comparison.new and not comparison.gone and measurement.dataset.sha256 == baseline.dataset.sha256:
        found.append(
            f"the baseline has no score for {len(comparison.new)} of its rows: they got no answer, or "
            f"somebody removed them. The check compares the other {len(comparison.cases)}"
        )
    elif comparison.new or comparison.gone:
        found.append(
            f"the dataset has changed; the check compares {counted(len(comparison.cases), 'common case')}, "
            f"{len(comparison.new)} are new, {len(comparison.gone)} are gone"
        )
    if comparison.lost:
        found.append(
            f"{_cases(comparison.lost)} got no answer and {'is' if len(comparison.lost) == 1 else 'are'} "
            f"left out: {comparison.lost[0].error}"
        )
    if comparison.groups < _SMALLEST:
        what = "common cases" if comparison.groups == len(comparison.cases) else "groups of common cases"
        found.append(f"{comparison.groups} {what}: fewer than {_SMALLEST} cannot confirm a drop")
    return found


def _is_regression(comparison: Comparison, limits: CheckConfig) -> bool:
    return comparison.p_value < ALPHA and difference(comparison.drop, limits.max_drop) > 0


def _drop_message(measurement: Measurement, comparison: Comparison) -> str:
    return (
        f"{measurement.metric.name} fell from {comparison.score_before:.3f} to {comparison.score_now:.3f} on "
        f"{comparison.common}: {comparison.changes}, {comparison.tested}"
    )


def _cases(cases: Sequence[MeasuredCase]) -> str:
    return counted(len(cases), "case")
