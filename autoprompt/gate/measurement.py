"""What a prompt scores on each case: measured now, or before, in the baseline file that is kept in git.

In the file, one case stands on one line, sorted by id, so that a diff shows the cases that changed and
nothing else. It holds no text of a row: a case is the id that its row's content gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from autoprompt.brief import brief, brief_of
from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.metrics import Metric
from autoprompt.records import EvaluatedRow, Evaluation, Example, Usage
from autoprompt.text.display import one_line
from autoprompt.text.files import read_bytes, to_json_lines, write_output
from autoprompt.text.names import counted

SCHEMA_VERSION = 1
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
_RIGHT = 1.0 - 1e-9
_DIGITS = 6  # of a graded score: enough for every test, and the same on every machine


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr__(self) -> str:
        return brief_of(self, ((name, getattr(self, name)) for name in type(self).model_fields))

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class CaseScores:
    """A case's scores, one for each repeat that was answered.

    answers: what was answered, in the order of the scores; only for a metric of all rows together.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    scores: Annotated[
        tuple[Share, ...], Field(min_length=1, description="Score of each answer, from 0 to 1.")
    ]
    answers: Annotated[
        tuple[str, ...], Field(description="The answers, if the metric is of all rows together.")
    ] = ()

    __repr__ = brief

    def first(self, count: int) -> CaseScores:
        """Return the first repeats: two sides are compared on equally many."""
        return CaseScores(self.scores[:count], self.answers[:count])

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores) if self.scores else 0.0

    @property
    def is_right(self) -> bool:
        """Whether more than half of the repeats are fully right; a tie is wrong, on both sides alike."""
        return 2 * sum(score >= _RIGHT for score in self.scores) > len(self.scores)

    def answer_of(self, repeat: int) -> str:
        """Of a repeat (from 0) that was lost, the last one there is. There is at least one."""
        return self.answers[min(repeat, len(self.answers) - 1)]


class DatasetFacts(_Record):
    """The rows of a dataset, whatever their order or format."""

    name: str = Field(description="Name of the dataset's file.")
    rows: int = Field(ge=1, description="Rows of the dataset.")
    sha256: str = Field(description="SHA-256 of the sorted row ids.")


class Baseline(_Record):
    """What one prompt and one model scored on one dataset."""

    schema_version: Literal[1] = Field(default=1, description="Format of the baseline file.")
    created: str = Field(description="Time in UTC, as ISO 8601.")
    model: str = Field(description="Name of the model that was asked.")
    metric: str = Field(description="Name of the metric.")
    metric_options: dict[str, Any] = Field(default_factory=dict, description="Options of the metric.")
    repeats: int = Field(ge=1, description="Answers that each row was asked for.")
    score: Share = Field(description="Score on all rows, from 0 to 1.")
    prompt_sha256: str = Field(description="SHA-256 of the prompt with its demonstrations.")
    dataset: DatasetFacts = Field(description="Which rows were asked.")
    cases: dict[str, CaseScores] = Field(
        min_length=1, description="Each row by the id that its content gives."
    )

    @model_validator(mode="after")
    def _scores_fit_repeats(self) -> Baseline:
        for name, case in self.cases.items():
            if len(case.scores) > self.repeats:
                raise ValueError(
                    f"case {name} has {counted(len(case.scores), 'score')}, but repeats is {self.repeats}"
                )
            if case.answers and len(case.answers) != len(case.scores):
                raise ValueError(
                    f"case {name} has {counted(len(case.answers), 'answer')} and "
                    f"{counted(len(case.scores), 'score')}"
                )
        return self


def now() -> str:
    """Return the time of a new baseline, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rounded(score: float) -> float:
    """Return a score as the file keeps it; what is compared with it is rounded alike."""
    return round(score, _DIGITS)


def to_text(baseline: Baseline) -> str:
    """Return the file's text: equal baselines give equal bytes."""
    data = baseline.model_dump(exclude={"cases"})
    if not data["metric_options"]:
        del data["metric_options"]
    data["score"] = _number(baseline.score)
    data["cases"] = {name: _written(case) for name, case in sorted(baseline.cases.items())}
    return to_json_lines(data, "cases") + "\n"


def write_baseline(path: Path, baseline: Baseline) -> bool:
    """Write the file, in one piece, with the folders that are missing. False, and nothing is written, where
    only the date would change.

    Raises:
        OSError: If that is not possible.
    """
    try:
        known = read_baseline(path)
    except ConfigError:  # not there, or broken: it is written anew
        known = None
    if known is not None and to_text(known.model_copy(update={"created": baseline.created})) == to_text(
        baseline
    ):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, to_text(baseline), role="baseline")
    return True


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in this file.

    Raises:
        ConfigError: With what to do: no such file, no text, conflict markers of git, no JSON (with line and
            column), a key twice, a newer schema, a value of the wrong kind.
    """
    text = _text(path)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_MARKERS):
            said = f"{line[:7]!r} is a conflict marker of git"
            fix = "Resolve the conflict in git, or write the file again with {update_baseline}."
            raise ConfigError(Problem("baseline.conflict", said, Place(path, number), fix, _UPDATE))
    try:
        data = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        said = f"not JSON at column {error.colno}: {error.msg}"
        raise ConfigError(
            Problem("baseline.not-json", said, Place(path, error.lineno), _FIX, _UPDATE)
        ) from error
    except (ValueError, RecursionError) as error:
        said = f"not a baseline: {error}"
        raise ConfigError(Problem("baseline.not-a-baseline", said, Place(path), _FIX, _UPDATE)) from error
    if not isinstance(data, dict):
        said = f"expected a JSON object, found a {type(data).__name__}"
        raise ConfigError(Problem("baseline.not-a-baseline", said, Place(path), _FIX, _UPDATE))
    _check_version(path, data)
    try:
        return Baseline.model_validate(data)
    except ValidationError as error:
        raise ConfigError(*_faults(path, error)) from error


_FIX = "Restore the file from git (git checkout), or write it again with {update_baseline}."
_UPDATE = {"update_baseline": None}


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError as error:
        fix = "Create it with {update_baseline}."
        problem = Problem("baseline.none", "no such baseline", Place(path), fix, _UPDATE)
        raise ConfigError(problem) from error
    except IsADirectoryError as error:
        said, fix = "is a folder, expected a JSON file", "Give the path of one file."
        raise ConfigError(Problem("baseline.folder", said, Place(path), fix)) from error
    except UnicodeDecodeError as error:
        said = "not UTF-8 text"
        raise ConfigError(Problem("baseline.not-utf8", said, Place(path), _FIX, _UPDATE)) from error
    except OSError as error:
        said = f"cannot be read ({error.strerror})"
        problem = Problem("baseline.unreadable", said, Place(path), "Check its permissions.")
        raise ConfigError(problem) from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):  # a merge by hand leaves such
        seen: set[str] = set()
        double = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {double!r} is there twice")
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _check_version(path: Path, data: Mapping[str, Any]) -> None:
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        said = f"not a baseline: expected schema_version {SCHEMA_VERSION}, found {version!r}"
        fix = "Give the file that {update_baseline} wrote."
        raise ConfigError(Problem("baseline.not-a-baseline", said, Place(path), fix, _UPDATE))
    if version != SCHEMA_VERSION:
        formats = f"format {version}; this one reads {SCHEMA_VERSION}"
        said = f"another version of autoprompt wrote this baseline ({formats})"
        fix = "Use that version, or write the baseline again with {update_baseline}."
        raise ConfigError(Problem("baseline.other-format", said, Place(path), fix, _UPDATE))


def _faults(path: Path, error: ValidationError) -> list[Problem]:
    found = error.errors()
    problems = []
    for fault in found[:3]:
        place = Place(path, setting=".".join(map(str, fault["loc"])) or None, source="file")
        problems.append(Problem("baseline.bad-value", fault["msg"].removeprefix("Value error, "), place))
    last = problems[-1]
    rest = f" ({counted(len(found) - 3, 'fault')} more)" if len(found) > 3 else ""
    return [*problems[:-1], replace(last, said=last.said + rest, fix=_FIX, settings=_UPDATE)]


def _written(case: CaseScores) -> dict[str, Any]:
    answers = {"answers": case.answers} if case.answers else {}
    return {"scores": [_number(score) for score in case.scores], **answers}


def _number(value: float) -> float | int:
    """Whole numbers without a point: as little as possible for a diff to show."""
    short = rounded(value)
    return int(short) if short == int(short) else short


_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One row of the dataset as it was answered now.

    found: without scores where every repeat was lost. prediction: the answer of its first repeat that was
    not fully right, else of the first. error: why a repeat was lost to the endpoint; None where all were
    answered. has_failed: whether any answered repeat was not fully right.
    """

    example: Example
    found: CaseScores
    prediction: str = ""
    reason: str = ""
    error: str | None = None
    has_failed: bool = False

    __repr__ = brief

    @property
    def id(self) -> str:
        return self.example.id

    @property
    def name(self) -> str:
        """As messages name it: by the row's own `id` where it has one, which people know."""
        return one_line(self.example.own_id, _LONGEST_NAME) or self.id

    @property
    def is_lost(self) -> bool:
        """Whether no repeat was answered: nothing is known of this case."""
        return not self.found.scores


@dataclass(frozen=True, slots=True)
class Measurement:
    """All cases of a dataset, in its order, with what they were measured by.

    score: of all cases that were answered, mean over their repeats; of a metric of all rows together, its
    mean over the repeats.
    """

    cases: tuple[MeasuredCase, ...]
    repeats: int
    metric: Metric
    metric_options: dict[str, object]
    model: str
    prompt_sha256: str
    dataset: DatasetFacts
    usage: Usage = Usage()
    calls: int = 0
    seconds: float = 0.0

    __repr__ = brief

    @property
    def answered(self) -> list[MeasuredCase]:
        return [case for case in self.cases if not case.is_lost]

    @property
    def score(self) -> float:
        answered = self.answered
        return score_of(self.metric, [c.found for c in answered], [c.example.target_text for c in answered])

    def as_baseline(self) -> Baseline:
        """Return what is kept of it; lost cases are left out. At least one was answered."""
        cases = {case.id: case.found for case in self.answered}
        return Baseline(
            created=now(),
            model=self.model,
            metric=self.metric.name,
            metric_options=self.metric_options,
            repeats=self.repeats,
            score=rounded(self.score),
            prompt_sha256=self.prompt_sha256,
            dataset=self.dataset,
            cases=cases,
        )


def score_of(metric: Metric, cases: Sequence[CaseScores], targets: Sequence[str]) -> float:
    """Return the score of these cases, in [0, 1]; 0.0 for none. Every case has a score.

    Of a metric of all rows together: the mean over the repeats, where a case that has fewer repeats than
    others is represented by its last.
    """
    if not cases:
        return 0.0
    if not metric.is_aggregate:
        return sum(case.mean for case in cases) / len(cases)
    repeats = max(len(case.answers) for case in cases)
    values = [
        metric.aggregate([case.answer_of(repeat) for case in cases], targets) for repeat in range(repeats)
    ]
    return sum(values) / repeats


def gather(
    repeats: Sequence[Evaluation], examples: Sequence[Example], *, keeps_answers: bool
) -> tuple[MeasuredCase, ...]:
    """Return the rows of all repeats by case. Each repeat is of all examples, in their order.

    A row that the endpoint failed has no score; one whose request it refused scores 0, being the prompt's.
    """
    by_case = zip(*(evaluation.rows for evaluation in repeats), strict=True)
    return tuple(
        _case(example, rows, keeps_answers=keeps_answers)
        for example, rows in zip(examples, by_case, strict=True)
    )


def _case(example: Example, rows: Sequence[EvaluatedRow], *, keeps_answers: bool) -> MeasuredCase:
    answered = [row for row in rows if not row.is_lost]
    lost = next((row.shown_error for row in rows if row.is_lost), None)
    answers = tuple("" if row.is_unparsed or row.error else row.prediction for row in answered)
    scores = CaseScores(tuple(rounded(row.score) for row in answered), answers if keeps_answers else ())
    wrong = next((row for row in answered if not row.is_correct), None)
    shown = wrong or next(iter(answered), None)
    return MeasuredCase(
        example=example,
        found=scores,
        prediction="" if shown is None else shown.shown_error or shown.prediction,
        reason="" if shown is None else shown.reason,
        error=lost,
        has_failed=wrong is not None,
    )
