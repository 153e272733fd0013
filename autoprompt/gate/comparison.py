"""Now against the baseline, case by case: which cases broke, and whether that can be chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autoprompt.brief import brief
from autoprompt.dataset.checks import content_key
from autoprompt.errors import ConfigError, EndpointError, Place, Problem
from autoprompt.gate.measurement import Baseline, CaseScores, MeasuredCase, Measurement, score_of
from autoprompt.measure.problems import MOST_LOST
from autoprompt.metrics import Metric
from autoprompt.records import Example
from autoprompt.settings.records import CheckConfig
from autoprompt.stats import (
    Groups,
    count_groups,
    difference,
    in_groups,
    p_text,
    paired_test,
    permutation_aggregate,
    sign_flip_test,
)
from autoprompt.text.names import counted, quoted

Change = Literal["broke", "fixed", "same"]
Test = Literal["exact McNemar", "permutation", "permutation of groups"]

# A test by draws is valid however few they are (the observed one counts as a draw), only less sharp. So many
# rows get fewer: (rows x draws, most draws). Macro F1 took 3 s at 2,000 rows and 10 s at 20,000.
_SIGNS, _EXCHANGES = (40_000_000, 10_000), (1_000_000, 2_000)
_FEWEST_DRAWS = 200


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """A case of both sides, on equally many repeats of each."""

    case: MeasuredCase
    before: CaseScores
    now: CaseScores
    change: Change

    __repr__ = brief

    @property
    def drop(self) -> float:
        """By how much its mean fell; 0 where only rounding keeps it from that."""
        return difference(self.before.mean, self.now.mean)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides on the cases that they share.

    cases: compared, in the order of the dataset. new: of the dataset alone. gone: ids of the baseline alone.
    lost: in both, and not answered now. p_value: one-sided, the chance of such a drop if there were none.
    groups: in how many the compared cases are, a case alone being one. repeats: the most answers of a case
    that were compared. is_binary: whether every answer is right or wrong, and none in between.
    """

    cases: tuple[ComparedCase, ...]
    new: tuple[MeasuredCase, ...]
    gone: tuple[str, ...]
    lost: tuple[MeasuredCase, ...]
    score_before: float
    score_now: float
    p_value: float
    test: Test
    groups: int
    repeats: int = 1
    is_binary: bool = True

    __repr__ = brief

    @property
    def drop(self) -> float:
        """By how much the score fell; negative where it rose."""
        return self.score_before - self.score_now

    @property
    def common(self) -> str:
        """`50 cases`, or `50 cases (in 31 groups)`."""
        return f"{counted(len(self.cases), 'case')}{in_groups(self.groups, len(self.cases))}"

    @property
    def broken(self) -> list[ComparedCase]:
        return [case for case in self.cases if case.change == "broke"]

    @property
    def fixed(self) -> list[ComparedCase]:
        return [case for case in self.cases if case.change == "fixed"]

    @property
    def worse(self) -> int:
        """How many cases have a lower mean than before: with repeats more than broke."""
        return sum(case.drop > 0 for case in self.cases)

    @property
    def better(self) -> int:
        return sum(case.drop < 0 for case in self.cases)

    @property
    def changes(self) -> str:
        """`8 broke, 1 was fixed`; of repeats also what the score and its test rest on, which that is not."""
        fixed = len(self.fixed)
        said = f"{len(self.broken)} broke, {fixed} {'was' if fixed == 1 else 'were'} fixed"
        if not self._is_by_majority:
            return said
        return (
            f"{said} (by most of {counted(self.repeats, 'answer')} each), {self.worse} are right less often "
            "and "
            f"{self.better} more often"
        )

    @property
    def tested(self) -> str:
        """The p-value and what it is of, in words."""
        how = (
            f"{self.test}, by all {counted(self.repeats, 'answer')} each"
            if self._is_by_majority
            else self.test
        )
        return f"{p_text(self.p_value)} ({how}, one-sided)"

    @property
    def _is_by_majority(self) -> bool:
        return self.is_binary and self.repeats > 1


def compare(measurement: Measurement, baseline: Baseline) -> Comparison:
    """Pair the cases and test for a drop.

    The test is of what the score is made of. One answer each that is right or wrong: exact McNemar on the
    cases that changed. Graded scores, and repeats of any: the means of a case's repeats, signs of their
    differences flipped. A case's majority would hide a drop: of three right answers one may go wrong in every
    case. And it saw less: with three answers to each of 200 rows, a fall from 0.95 to 0.90 was found in 32%
    of simulated checks by majorities, in 94% by means (benchmarks/docs/proof.md). A metric of all rows
    together: the answers of all repeats, those of a case exchanged between the sides at once. Where cases
    belong together, all of a group are flipped or exchanged at once. One-sided; exact, or seeded and so the
    same in every run, in any order of the rows. Which cases broke or were fixed goes by their majority,
    graded ones by their mean.

    Raises:
        ConfigError: As `check_comparable`.
    """
    check_comparable(
        baseline, measurement.metric, [case.example for case in measurement.cases], measurement.dataset.name
    )
    paired, new, lost = _pair(measurement.cases, baseline.cases)
    is_binary = all(score in (0, 1) for _, *sides in paired for side in sides for score in side.scores)
    cases = tuple(
        ComparedCase(case, before, now, _change(before, now, is_binary=is_binary))
        for case, before, now in paired
    )
    metric, targets = measurement.metric, [case.example.target_text for case, _, _ in paired]
    ids = {case.id for case in measurement.cases}
    groups = [case.example.group for case, _, _ in paired]
    count = count_groups(groups)
    repeats = max((len(before.scores) for _, before, _ in paired), default=0)
    is_sign_test = is_binary and repeats <= 1 and not metric.is_aggregate
    test: Test = "exact McNemar" if is_sign_test else "permutation"
    return Comparison(
        cases=cases,
        new=tuple(new),
        gone=tuple(sorted(baseline.cases.keys() - ids)),
        lost=tuple(lost),
        score_before=score_of(metric, [before for _, before, _ in paired], targets),
        score_now=score_of(metric, [now for _, _, now in paired], targets),
        p_value=_p_value(sorted(cases, key=lambda one: one.case.id), metric, is_sign_test=is_sign_test),
        test=test if count == len(cases) else "permutation of groups",
        groups=count,
        repeats=repeats,
        is_binary=is_binary,
    )


_ANEW, _UPDATE = "write the baseline again with {update_baseline}.", {"update_baseline": None}


def check_comparable(baseline: Baseline, metric: Metric, examples: Sequence[Example], dataset: str) -> None:
    """Check that a baseline can be compared with, before the first paid call.

    Raises:
        ConfigError: The baseline has scores of another metric, or no case in common with the dataset.
    """
    if baseline.metric != metric.name:
        said = f"the baseline has scores of {baseline.metric}, but the metric is {metric.name}"
        fix, settings = f"Set {{metric}}, or {_ANEW}", {"metric": baseline.metric, **_UPDATE}
        raise ConfigError(Problem("baseline.other-metric", said, fix=fix, settings=settings))
    if metric.is_aggregate and any(not case.answers for case in baseline.cases.values()):
        said = f"the baseline has cases without answers, which {metric.name} needs"
        fix = "Write it again with {update_baseline}."
        raise ConfigError(Problem("baseline.no-answers", said, fix=fix, settings=_UPDATE))
    if not any(example.id in baseline.cases for example in examples):
        said = f"the baseline and {dataset} have no case in common"
        fix, settings = f"Give the right one with {{baseline}}, or {_ANEW}", {"baseline": "<FILE>", **_UPDATE}
        raise ConfigError(Problem("baseline.other-cases", said, fix=fix, settings=settings))


Pair = tuple[MeasuredCase, CaseScores, CaseScores]


def _pair(
    cases: Sequence[MeasuredCase], known: Mapping[str, CaseScores]
) -> tuple[list[Pair], list[MeasuredCase], list[MeasuredCase]]:
    """Cases of both sides cut to equally many repeats, cases that are new, cases that were lost."""
    paired: list[Pair] = []
    new, lost = [], []
    for case in cases:
        before = known.get(case.id)
        if before is None:
            new.append(case)
        elif case.is_lost:
            lost.append(case)
        else:
            count = min(len(before.scores), len(case.found.scores))
            paired.append((case, before.first(count), case.found.first(count)))
    return paired, new, lost


def _change(before: CaseScores, now: CaseScores, *, is_binary: bool) -> Change:
    if is_binary:
        then, today = float(before.is_right), float(now.is_right)
    else:
        then, today = before.mean, now.mean
    gain = difference(today, then)
    if gain < 0:
        return "broke"
    return "fixed" if gain > 0 else "same"


def _p_value(cases: Sequence[ComparedCase], metric: Metric, *, is_sign_test: bool) -> float:
    """cases: In the order of their ids, so that the order of the rows in their file changes nothing."""
    groups = [case.case.example.group for case in cases]
    if metric.is_aggregate:
        return _p_of_answers(cases, metric, groups)
    if is_sign_test:
        return paired_test([c.now.mean for c in cases], [c.before.mean for c in cases], groups=groups)
    drops = [case.drop for case in cases]
    return sign_flip_test(drops, groups=groups, resamples=_draws(sum(drop != 0 for drop in drops), *_SIGNS))


def _p_of_answers(cases: Sequence[ComparedCase], metric: Metric, groups: Groups) -> float:
    """Of the mean over the repeats, as `score_of` has it, the answers of each case exchanged at once."""
    repeats = max((len(case.now.answers) for case in cases), default=0)
    count = len(cases)
    now = [case.now.answer_of(repeat) for repeat in range(repeats) for case in cases]
    before = [case.before.answer_of(repeat) for repeat in range(repeats) for case in cases]

    def figure(answers: Sequence[str], targets: Sequence[str]) -> float:
        starts = range(0, len(targets), count)
        parts = (metric.aggregate(answers[at : at + count], targets[at : at + count]) for at in starts)
        return sum(parts) / repeats

    own = (f"alone {place}" if name is None else f"group {name}" for place, name in enumerate(groups))
    return permutation_aggregate(
        now,
        before,
        [case.case.example.target_text for case in cases] * repeats,
        figure,
        groups=[*own] * repeats,
        resamples=_draws(len(now), *_EXCHANGES),
    )


def _draws(rows: int, work: int, most: int) -> int:
    return max(_FEWEST_DRAWS, min(most, work // max(1, rows)))


# --- the decision: is this a regression, and what does that rest on ---

ALPHA = 0.05  # one-sided: the chance that a check of an unchanged prompt fails by bad luck
_SMALLEST = 5  # five broken and none fixed is the least that is significant


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a check failed."""

    kind: Literal["drop", "min_score", "must_pass"]
    """Which limit was broken, such as `drop`, `min_score` or `must_pass`."""
    message: str
    """The reason in a sentence."""
    cases: tuple[str, ...] = ()
    """Ids of the rows that it is about."""

    __repr__ = brief


def find_must_pass(names: Sequence[str], examples: Sequence[Example], dataset: str) -> frozenset[str]:
    """Return the cases that may never fail. names: whole inputs, the rows' own `id` fields, or our ids.

    Raises:
        ConfigError: For a name that is none of them, or of several rows.
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
    """Return why the check fails; empty where it passes.

    A drop counts if it is significant and more than `max_drop`; a score if it is under `min_score`; a case
    of `must_pass` if any of its repeats was wrong.
    """
    found = []
    if (
        comparison is not None
        and comparison.p_value < ALPHA
        and difference(comparison.drop, limits.max_drop) > 0
    ):
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
    """Raise EndpointError where too little was answered for a check to pass: that is no regression."""
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
    """Return what has to be known of a comparison, in sentences: what is not the same on both sides."""
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
    if lost := comparison.lost:
        are = "is" if len(lost) == 1 else "are"
        found.append(f"{counted(len(lost), 'case')} got no answer and {are} left out: {lost[0].error}")
    if comparison.groups < _SMALLEST:
        what = "common cases" if comparison.groups == len(comparison.cases) else "groups of common cases"
        found.append(f"{comparison.groups} {what}: fewer than {_SMALLEST} cannot confirm a drop")
    return found


def _drop_message(measurement: Measurement, comparison: Comparison) -> str:
    return (
        f"{measurement.metric.name} fell from {comparison.score_before:.3f} to {comparison.score_now:.3f} on "
        f"{comparison.common}: {comparison.changes}, {comparison.tested}"
    )
