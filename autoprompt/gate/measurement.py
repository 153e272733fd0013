"""What a prompt scores now: every row asked as often as there are repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprompt.brief import brief
from autoprompt.gate.baseline import Baseline, BaselineCase, DatasetFacts, now, rounded
from autoprompt.metrics import Metric
from autoprompt.records import EvaluatedRow, Evaluation, Example, Usage
from autoprompt.text.display import one_line

_RIGHT = 1.0 - 1e-9
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class CaseScores:
    """The scores of one case over its repeats, each in [0, 1]; none where every repeat was lost.

    answers: in the order of the scores; empty where no metric needs them.
    """

    scores: tuple[float, ...]
    answers: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One row of the dataset as it was answered now.

    prediction: the answer of its first repeat that was not fully right, else of the first. error: why a
    repeat was lost to the endpoint; None where all were answered. has_failed: whether any answered repeat was
    not fully right. has_failed_step: whether `prediction` says why a step of a workflow failed.
    """

    example: Example
    found: CaseScores
    prediction: str = ""
    reason: str = ""
    error: str | None = None
    has_failed: bool = False
    has_failed_step: bool = False

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
        cases = {c.id: BaselineCase(scores=c.found.scores, answers=c.found.answers) for c in self.answered}
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


def measure(
    ask: Callable[[int], Evaluation], examples: Sequence[Example], repeats: int, *, keeps_answers: bool
) -> tuple[MeasuredCase, ...]:
    """Ask for every repeat and gather the rows by case.

    ask: repeat (from 0) -> the evaluation of all examples in their order; what it raises is passed on.
    A row that the endpoint failed has no score; one whose request it refused scores 0, being the prompt's.
    """
    rows: list[list[EvaluatedRow]] = [[] for _ in examples]
    for repeat in range(repeats):
        for place, row in enumerate(ask(repeat).rows):
            rows[place].append(row)
    return tuple(
        _case(example, found, keeps_answers=keeps_answers)
        for example, found in zip(examples, rows, strict=True)
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
        has_failed_step=shown is not None and shown.has_failed_step,
    )
