"""Now against the baseline, case by case: which cases broke, and whether that can be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autoprompt.errors import ConfigError
from autoprompt.metrics import Metric
from autoprompt.regression.baseline import Baseline
from autoprompt.regression.measurement import CaseScores, MeasuredCase, Measurement, score_of
from autoprompt.stats import (
    Groups,
    count_groups,
    difference,
    in_groups,
    paired_test,
    permutation_aggregate,
    sign_flip_test,
)
from autoprompt.types import Example

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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides on the cases that they share.

    cases: compared, in the order of the dataset. new: of the dataset alone. gone: ids of the baseline alone.
    lost: in both, and not answered now. p_value: one-sided, the chance of such a drop if there were none.
    groups: in how many the compared cases are, a case alone being one.
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

    @property
    def drop(self) -> float:
        """By how much the score fell; negative where it rose."""
        return self.score_before - self.score_now

    @property
    def common(self) -> str:
        """`50 cases`, or `50 cases (in 31 groups)`."""
        return f"{len(self.cases)} cases{in_groups(self.groups, len(self.cases))}"

    @property
    def broken(self) -> list[ComparedCase]:
        return [case for case in self.cases if case.change == "broke"]

    @property
    def fixed(self) -> list[ComparedCase]:
        return [case for case in self.cases if case.change == "fixed"]


def compare(measurement: Measurement, baseline: Baseline) -> Comparison:
    """Pair the cases and test for a drop.

    0/1 scores: the majority of a case's repeats on either side, exact McNemar on the cases that changed.
    Graded ones: the means of the repeats, signs of the differences flipped. A metric of all rows together:
    the majorities' answers, exchanged between the sides. Where cases belong together, all of a group are
    flipped or exchanged at once. One-sided; exact, or seeded and so the same in every run.
    Raises what `check_comparable` raises.
    """
    check_comparable(
        baseline, measurement.metric, [case.example for case in measurement.cases], measurement.dataset.name
    )
    known = {name: CaseScores(case.scores, case.answers) for name, case in baseline.cases.items()}
    paired, new, lost = _pair(measurement.cases, known)
    is_binary = all(score in (0, 1) for _, *sides in paired for side in sides for score in side.scores)
    cases = tuple(
        ComparedCase(case, before, now, _change(before, now, is_binary=is_binary))
        for case, before, now in paired
    )
    metric, targets = measurement.metric, [case.example.target for case, _, _ in paired]
    ids = {case.id for case in measurement.cases}
    groups = [case.example.group for case, _, _ in paired]
    count = count_groups(groups)
    test: Test = "exact McNemar" if is_binary and not metric.is_aggregate else "permutation"
    return Comparison(
        cases=cases,
        new=tuple(new),
        gone=tuple(sorted(known.keys() - ids)),
        lost=tuple(lost),
        score_before=score_of(metric, [before for _, before, _ in paired], targets),
        score_now=score_of(metric, [now for _, _, now in paired], targets),
        p_value=_p_value(cases, measurement, targets, groups, is_binary=is_binary),
        test=test if count == len(cases) else "permutation of groups",
        groups=count,
    )


def check_comparable(baseline: Baseline, metric: Metric, examples: Sequence[Example], dataset: str) -> None:
    """To be asked before the first call is paid for.

    Raises ConfigError where scores of another metric stand in the baseline, and where no case is common.
    """
    if baseline.metric != metric.name:
        raise ConfigError(
            f"the baseline holds scores of {baseline.metric}, and the metric is {metric.name}: they do not "
            "compare. Set --metric, or write the baseline anew with --update-baseline."
        )
    if metric.is_aggregate and any(not case.answers for case in baseline.cases.values()):
        raise ConfigError(
            f"the baseline holds cases without answers, and {metric.name} needs them. Write it anew with "
            "--update-baseline."
        )
    if not any(example.id in baseline.cases for example in examples):
        raise ConfigError(
            f"the baseline and {dataset} have no case in common: is it the baseline of another dataset? Give "
            "the right one with --baseline, or write it anew with --update-baseline."
        )


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


def _p_value(
    cases: Sequence[ComparedCase],
    measurement: Measurement,
    targets: Sequence[str],
    groups: Groups,
    *,
    is_binary: bool,
) -> float:
    if measurement.metric.is_aggregate:
        answers = [(case.now.answer, case.before.answer) for case in cases]
        now, before = [a for a, _ in answers], [b for _, b in answers]
        draws = _draws(len(targets), *_EXCHANGES)
        return permutation_aggregate(
            now, before, targets, measurement.metric.aggregate, groups=groups, resamples=draws
        )
    if is_binary:
        now_right = [float(case.now.is_right) for case in cases]
        return paired_test(now_right, [float(case.before.is_right) for case in cases], groups=groups)
    drops = [difference(case.before.mean, case.now.mean) for case in cases]
    draws = _draws(sum(drop != 0 for drop in drops), *_SIGNS)
    return sign_flip_test(drops, groups=groups, resamples=draws)


def _draws(rows: int, work: int, most: int) -> int:
    return max(_FEWEST_DRAWS, min(most, work // max(1, rows)))
