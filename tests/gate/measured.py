"""Measurements and baselines of invented cases, made without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.gate.comparison import compare, decide, notes
from autoprompt.gate.measurement import CaseScores, DatasetFacts, MeasuredCase, Measurement
from autoprompt.gate.report import CheckReport
from autoprompt.metrics import get_metric
from autoprompt.records import Example
from autoprompt.settings.records import CheckConfig
from autoprompt.text.files import sha256_of

Scores = Sequence[float]


def example(name: str, target: str = "1", text: str = "", own: str = "") -> Example:
    fields = {"id": own} if own else {}
    return Example(name, text or f"input of {name}", target, fields, line=int(name[1:]) + 1)


def case(
    name: str, scores: Scores, *, answers: Sequence[str] = (), target: str = "1", text: str = ""
) -> MeasuredCase:
    return MeasuredCase(
        example(name, target, text),
        CaseScores(tuple(scores), tuple(answers)),
        prediction="0" if min(scores, default=0) < 1 else "1",
        reason="expected 1, got 0",
        error=None if scores else "503 from the endpoint",
        has_failed=any(score < 1 for score in scores),
    )


def measurement(
    scores: Mapping[str, Scores] | Sequence[MeasuredCase],
    *,
    repeats: int = 1,
    metric: str = "exact_match",
    **changes: Any,
) -> Measurement:
    """Of these scores by case name (`r0`, `r1`, ...), or of whole cases."""
    cases = [case(name, values) for name, values in scores.items()] if isinstance(scores, Mapping) else scores
    names = " ".join(sorted(c.id for c in cases))
    facts = DatasetFacts(name="rows.jsonl", rows=len(cases), sha256=sha256_of(names))
    given: dict[str, Any] = {"metric_options": {}, "model": "m", "prompt_sha256": "a" * 64, "dataset": facts}
    return Measurement(cases=tuple(cases), repeats=repeats, metric=get_metric(metric), **{**given, **changes})


def numbered(*scores: float) -> dict[str, Scores]:
    """One repeat each: r0, r1, ..."""
    return {f"r{number}": (score,) for number, score in enumerate(scores)}


def report(now: Measurement, before: Measurement, **limits: Any) -> CheckReport:
    """What a check of `now` says with `before` as its baseline."""
    settings = CheckConfig(**limits)
    baseline = before.as_baseline()
    found = compare(now, baseline)
    must_pass = frozenset(settings.must_pass)
    return CheckReport(
        measurement=now,
        baseline=baseline,
        comparison=found,
        limits=settings,
        must_pass=must_pass,
        reasons=decide(now, found, settings, must_pass),
        notes=tuple(notes(now, found, baseline)),
        warnings=(),
        dataset_path="datasets/rows.jsonl",
    )
