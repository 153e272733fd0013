"""Pairing and testing: against scipy, and against cases worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import case, measurement, numbered
from scipy.stats import binomtest

from autoprompt.errors import ConfigError
from autoprompt.gate.comparison import compare
from autoprompt.gate.measurement import CaseScores, Measurement


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_one_repeat_of_right_and_wrong_is_a_sign_test_of_what_changed(pairs: list[tuple[bool, bool]]) -> None:
    before = measurement(numbered(*(float(a) for a, _ in pairs))).as_baseline()
    found = compare(measurement(numbered(*(float(b) for _, b in pairs))), before)
    broken = sum(a and not b for a, b in pairs)
    fixed = sum(b and not a for a, b in pairs)
    assert (len(found.broken), len(found.fixed)) == (broken, fixed)
    expected = binomtest(broken, broken + fixed, alternative="greater").pvalue if broken + fixed else 1.0
    assert found.p_value == pytest.approx(expected)
    assert found.drop == pytest.approx((broken - fixed) / len(pairs))
    assert found.test == "exact McNemar"


@pytest.mark.parametrize(
    ("scores", "is_right"),
    [
        ((1,), True),
        ((0,), False),
        ((1, 0), False),
        ((1, 1, 0), True),
        ((1, 0, 0), False),
        ((1, 1, 0, 0), False),
    ],
)
def test_a_case_is_right_if_more_than_half_of_its_repeats_are(
    scores: tuple[float, ...], is_right: bool
) -> None:
    assert CaseScores(tuple(map(float, scores))).is_right is is_right


def test_one_flipped_repeat_of_three_changes_the_score_and_no_case() -> None:
    before = measurement({"r0": (1, 1, 1), "r1": (0, 0, 1)}, repeats=3).as_baseline()
    found = compare(measurement({"r0": (1, 0, 1), "r1": (0, 0, 0)}, repeats=3), before)
    assert [c.change for c in found.cases] == ["same", "same"]
    assert (found.worse, found.better) == (2, 0)
    assert found.p_value == 1 / 4
    assert found.drop == pytest.approx(1 / 3)


def test_repeats_are_tested_by_what_the_score_is_made_of() -> None:
    before = measurement({f"r{n}": (1, 1, 1) for n in range(40)}, repeats=3).as_baseline()
    found = compare(measurement({f"r{n}": (1, 1, 0) for n in range(40)}, repeats=3), before)
    assert (found.score_before, found.score_now) == (1.0, pytest.approx(2 / 3))
    assert (found.broken, found.fixed, found.worse, found.better) == ([], [], 40, 0)
    assert found.test == "permutation"
    assert found.p_value < 0.001


def test_one_repeat_left_on_either_side_is_one_answer_each() -> None:
    before = measurement(numbered(*[1] * 6)).as_baseline()
    found = compare(measurement({f"r{n}": (0, 1, 1) for n in range(6)}, repeats=3), before)
    assert (found.test, found.p_value, len(found.broken)) == ("exact McNemar", 1 / 64, 6)


@given(
    st.lists(
        st.tuples(*[st.lists(st.sampled_from((0.0, 1.0)), min_size=3, max_size=3)] * 2),
        min_size=1,
        max_size=10,
    )
)
def test_the_means_of_repeats_are_flipped_in_every_way(
    pairs: list[tuple[list[float], list[float]]],
) -> None:
    then, today = ({f"r{n}": pair[side] for n, pair in enumerate(pairs)} for side in (0, 1))
    found = compare(measurement(today, repeats=3), measurement(then, repeats=3).as_baseline())
    drops = [sum(b) - sum(a) for b, a in pairs]
    patterns = [sum(flipped) for flipped in product(*((drop, -drop) for drop in drops))]
    expected = sum(flipped >= sum(drops) for flipped in patterns) / len(patterns)
    assert found.p_value == pytest.approx(expected)


def test_graded_scores_are_compared_by_their_means() -> None:
    before = measurement(numbered(*[0.9] * 8)).as_baseline()
    found = compare(measurement(numbered(*[0.8] * 7, 0.95)), before)
    assert found.test == "permutation"
    assert (len(found.broken), len(found.fixed)) == (7, 1)
    # Of the 256 sign patterns, those with a sum of at least 0.65: all plus, or 0.05 alone minus.
    assert found.p_value == pytest.approx(2 / 256)


def test_a_score_that_the_file_had_to_round_is_equal_to_itself() -> None:
    third = measurement({"r0": (round(1 / 3, 6),)})
    found = compare(third, third.as_baseline())
    assert [c.change for c in found.cases] == ["same"]


def test_sides_with_lost_repeats_are_cut_to_equally_many() -> None:
    before = measurement({"r0": (0, 1, 1)}, repeats=3).as_baseline()
    found = compare(measurement({"r0": (0, 1)}, repeats=3), before)
    assert (found.cases[0].before.scores, found.cases[0].now.scores) == ((0, 1), (0, 1))
    assert found.cases[0].change == "same"


def test_a_changed_dataset_is_compared_on_its_common_cases() -> None:
    before = measurement(numbered(1, 1, 1, 1)).as_baseline()
    now = measurement([case("r1", (1,)), case("r2", (0,)), case("r3", ()), case("r9", (0,))])
    found = compare(now, before)
    assert [c.case.id for c in found.cases] == ["r1", "r2"]
    assert [c.id for c in found.new] == ["r9"]
    assert found.gone == ("r0",)
    assert [c.id for c in found.lost] == ["r3"]
    assert (found.score_before, found.score_now) == (1.0, 0.5)


def test_nothing_in_common_is_an_error() -> None:
    before = measurement(numbered(1, 1)).as_baseline()
    with pytest.raises(ConfigError, match=r"no case in common.*write_baseline"):
        compare(measurement({"r7": (1,)}), before)


def test_scores_of_another_metric_do_not_compare() -> None:
    before = measurement(numbered(1, 1)).as_baseline()
    with pytest.raises(ConfigError, match="scores of exact_match, but the metric is contains"):
        compare(measurement(numbered(1, 1), metric="contains"), before)


def f1(answers: list[str], targets: list[str]) -> Measurement:
    cases = [
        case(f"r{n}", (float(answer == target),), answers=(answer,), target=target)
        for n, (answer, target) in enumerate(zip(answers, targets, strict=True))
    ]
    return measurement(cases, metric="macro_f1")


def test_a_metric_of_all_rows_is_compared_by_exchanging_answers() -> None:
    targets = ["a"] * 40 + ["b"] * 10
    before = f1(targets, targets)
    now = f1(["a"] * 50, targets)  # the rare class is gone: accuracy 0.8, macro F1 0.44
    found = compare(now, before.as_baseline())
    assert (found.score_before, found.score_now) == (1.0, pytest.approx(40 / 90))
    assert found.test == "permutation"
    assert found.p_value < 0.01
    assert len(found.broken) == 10
    same = compare(before, before.as_baseline())
    assert (same.p_value, same.drop) == (1.0, 0.0)


def test_repeats_of_a_metric_of_all_rows_are_all_exchanged() -> None:
    def answered(*answers: str) -> Measurement:
        found = [case(f"r{n}", (1.0,) * 3, answers=answers, target="1") for n in range(20)]
        return measurement(found, repeats=3, metric="macro_f1")

    before, now = answered("1", "1", "1"), answered("1", "1", "0")
    found = compare(now, before.as_baseline())
    assert (found.score_before, found.score_now) == (1.0, pytest.approx(2 / 3))
    assert found.p_value < 0.001
    together = compare(in_pairs(now), before.as_baseline())
    assert (together.p_value, together.test) == (1 / 2**10, "permutation of groups")


def test_a_metric_of_all_rows_needs_the_answers() -> None:
    baseline = f1(["a", "b"], ["a", "b"]).as_baseline()
    stripped = {name: replace(kept, answers=()) for name, kept in baseline.cases.items()}
    with pytest.raises(ConfigError, match="cases without answers"):
        compare(f1(["a", "b"], ["a", "b"]), baseline.model_copy(update={"cases": stripped}))


def test_many_graded_cases_take_a_moment_and_the_same_p_in_any_order() -> None:
    rng = random.Random(0)
    before = measurement(numbered(*(rng.random() for _ in range(5_000)))).as_baseline()
    now = measurement(numbered(*(rng.random() for _ in range(5_000))))
    assert compare(now, before).p_value == compare(now, before).p_value
    turned = replace(now, cases=now.cases[::-1])
    assert compare(turned, before).p_value == compare(now, before).p_value


def in_pairs(found: Measurement) -> Measurement:
    """The same cases, r0 and r1 in one group, r2 and r3, and so on."""
    cases = [
        replace(case, example=replace(case.example, group=f"g{n // 2}")) for n, case in enumerate(found.cases)
    ]
    return replace(found, cases=tuple(cases))


def test_cases_that_belong_together_break_together() -> None:
    before = measurement(numbered(*[1.0] * 12)).as_baseline()
    now = measurement(numbered(*[0.0] * 6, *[1.0] * 6))
    alone, together = compare(now, before), compare(in_pairs(now), before)
    assert (alone.test, alone.p_value, alone.groups) == ("exact McNemar", 1 / 64, 12)
    assert (together.test, together.p_value, together.groups) == ("permutation of groups", 1 / 8, 6)
    assert (alone.common, together.common) == ("12 cases", "12 cases (in 6 groups)")
    assert len(together.broken) == 6


def test_graded_cases_and_whole_figures_are_tested_by_groups_too() -> None:
    before = measurement(numbered(*[0.9] * 12)).as_baseline()
    now = measurement(numbered(*[0.8] * 6, *[0.9] * 6))
    assert (compare(now, before).p_value, compare(in_pairs(now), before).p_value) == (1 / 64, 1 / 8)
    answers = [case(f"r{n}", (float(n >= 6),), answers=("1" if n >= 6 else "0",)) for n in range(12)]
    right = [case(f"r{n}", (1.0,), answers=("1",)) for n in range(12)]
    whole = measurement(right, metric="macro_f1").as_baseline()
    found = measurement(answers, metric="macro_f1")
    assert compare(found, whole).p_value == 1 / 64
    together = compare(in_pairs(found), whole)
    assert (together.p_value, together.test) == (1 / 8, "permutation of groups")
