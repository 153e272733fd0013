"""What a check found, for everything that shows or writes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from autoprompt.brief import brief, brief_of, card
from autoprompt.dataset.python_rows import to_frame
from autoprompt.errors import Problem
from autoprompt.gate.comparison import ALPHA, ComparedCase, Comparison, Reason
from autoprompt.gate.measurement import Baseline, MeasuredCase, Measurement
from autoprompt.settings.records import CheckConfig
from autoprompt.text.names import counted

if TYPE_CHECKING:
    import pandas

CaseState = Literal["broke", "fixed", "same", "new", "lost"]


@dataclass(frozen=True, slots=True)
class CaseView:
    """One row as reports show it. before: None where the baseline does not know it."""

    case: MeasuredCase
    state: CaseState
    before: float | None
    now: float | None
    must_pass: bool
    is_failure: bool

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        example = self.case.example
        return {
            "id": example.id,
            "row_id": example.own_id or None,
            "state": self.state,
            "before": self.before,
            "now": self.now,
            "must_pass": self.must_pass,
            "failure": self.is_failure,
            "line": example.line,
            "input": example.input_text,
            "target": example.target_text,
            "answer": self.case.prediction,
            "error": self.case.error,
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of a check.

    Attributes:
        measurement: The answers and scores of today.
        baseline: What they are compared with; None if there was no baseline.
        comparison: Today against the baseline; None if there was no baseline.
        limits: The settings of the check.
        must_pass: Ids of rows that may never be wrong.
        reasons: Why the check failed; none if it passed.
        notes: What is not the same on both sides.
        warnings: About the rows and the models.
        dataset_path: As it was given, for annotations.

    Examples:
        >>> from autoprompt import CheckConfig, Models, RunConfig, check
        >>> from autoprompt.llm import ScriptedClient
        >>> config = RunConfig(prompt="A or B?", dataset="items.jsonl")
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> limits = CheckConfig(baseline="b.json", min_score=0.9)
        >>> report = check(config, limits, is_update=True, models=models)
        >>> report.is_passed, report.reasons[0].kind
        (False, 'min_score')
    """

    measurement: Measurement
    baseline: Baseline | None
    comparison: Comparison | None
    limits: CheckConfig
    must_pass: frozenset[str]
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]
    warnings: tuple[Problem, ...]
    dataset_path: str

    def __repr__(self) -> str:
        return brief_of(
            self, (("is_passed", self.is_passed), ("score", self.score), ("message", self.message))
        )

    def _repr_html_(self) -> str:
        return card(self)

    @property
    def is_passed(self) -> bool:
        """Whether no limit was broken."""
        return not self.reasons

    @property
    def score(self) -> float:
        """The score of today, in [0, 1]."""
        return self.measurement.score

    @property
    def message(self) -> str:
        """The verdict in a sentence or two."""
        if self.reasons:
            return "Failed: " + "; ".join(reason.message for reason in self.reasons)
        measured = self.measurement
        if self.comparison is None:
            return f"{measured.metric.name} {self.score:.3f} on {counted(len(measured.answered), 'case')}"
        found = self.comparison
        said = (
            f"Passed: {measured.metric.name} {found.score_now:.3f} against {found.score_before:.3f} in the "
            f"baseline on {found.common}: {found.changes}, {found.tested}"
        )
        if found.drop <= 0:
            return said
        if found.p_value < ALPHA:
            return f"{said}; the drop is within max_drop={self.limits.max_drop:g}"
        return f"{said}; the drop may be chance"

    def views(self) -> list[CaseView]:
        """Return every row of the dataset, in its order."""
        compared = {} if self.comparison is None else {c.case.id: c for c in self.comparison.cases}
        return [self._view(case, compared.get(case.id)) for case in self.measurement.cases]

    def changed(self) -> list[CaseView]:
        """Return the rows that failed or changed: failures first, then what broke, then what was fixed."""
        order = {"broke": 1, "fixed": 2}
        found = [view for view in self.views() if view.is_failure or view.state in order]
        return sorted(found, key=lambda view: 0 if view.is_failure else order[view.state])

    def _view(self, case: MeasuredCase, compared: ComparedCase | None) -> CaseView:
        must_pass = case.id in self.must_pass
        state: CaseState = "new"
        before = now = None
        if case.is_lost:
            state = "lost"
        else:
            now = case.found.mean
        if compared is not None:
            state, before, now = compared.change, compared.before.mean, compared.now.mean
        broke = state == "broke" and not self.is_passed
        return CaseView(case, state, before, now, must_pass, broke or (must_pass and case.has_failed))

    def to_pandas(self) -> pandas.DataFrame:
        """Return every row of the dataset: id, state, before, now, must_pass, input, target, answer, error...

        Raises:
            ConfigError: pandas is not installed.
        """
        return to_frame(view.to_dict() for view in self.views())

    def to_dict(self) -> dict[str, Any]:
        """Return what `check --json` prints: verdict, numbers, and the rows that changed or failed."""
        measured, compared, baseline = self.measurement, self.comparison, self.baseline
        return {
            "schema_version": 1,
            "passed": self.is_passed,
            "message": self.message,
            "reasons": [
                {"kind": reason.kind, "message": reason.message, "cases": list(reason.cases)}
                for reason in self.reasons
            ],
            "metric": measured.metric.name,
            "score": self.score,
            "n": len(measured.cases),
            "unanswered": sum(case.is_lost for case in measured.cases),
            "repeats": measured.repeats,
            "model": measured.model,
            "prompt_sha256": measured.prompt_sha256,
            "dataset": measured.dataset.model_dump(),
            "limits": {
                "max_drop": self.limits.max_drop,
                "min_score": self.limits.min_score,
                "alpha": ALPHA,
                "must_pass": sorted(self.must_pass),
            },
            "baseline": None if baseline is None else baseline.model_dump(exclude={"cases"}),
            "comparison": None if compared is None else _comparison_dict(compared),
            "cases": [view.to_dict() for view in self.changed()],
            "notes": list(self.notes),
            "warnings": [warning.to_dict() for warning in self.warnings],
            "calls": measured.calls,
            **asdict(measured.usage),
            "seconds": round(measured.seconds, 3),
        }


def _comparison_dict(found: Comparison) -> dict[str, Any]:
    return {
        "common": len(found.cases),
        "groups": found.groups,
        "new": len(found.new),
        "gone": len(found.gone),
        "unanswered": len(found.lost),
        "score_before": found.score_before,
        "score_now": found.score_now,
        "drop": found.drop,
        "broken": len(found.broken),
        "fixed": len(found.fixed),
        "worse": found.worse,
        "better": found.better,
        "p_value": found.p_value,
        "test": found.test,
    }
