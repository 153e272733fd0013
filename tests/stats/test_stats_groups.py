"""Rows that belong together: the same numbers where none do, and no more proof than the groups give."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from autoprompt import stats
from autoprompt.stats.groups import effective_groups, effective_rows, members, student_quantile

binary_rows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0]), st.sampled_from("wxyz")),
    min_size=1,
    max_size=40,
)
# In thousandths: differences far below the rounding of a sum are none to a group.
shares = st.integers(0, 1000).map(lambda n: n / 1000)
graded_rows = st.lists(st.tuples(shares, shares, st.sampled_from("wxyz")), min_size=1, max_size=12)
rows = st.one_of(binary_rows, graded_rows)
Rows = list[tuple[float, float, str]]


def everything(a: list[float], b: list[float], groups: stats.Groups | None) -> list[object]:
    """All that is said of two sides on the same rows."""
    texts = [[f"{value:.0f}" for value in side] for side in (a, b)]
    targets = ["1"] * len(a)
    return [
        stats.paired_test(a, b, groups=groups),
        stats.paired_test(a, b, "two-sided", groups=groups),
        stats.paired_test(a, b, groups=groups, is_mid=True),
        stats.mean_interval(a, groups=groups, resamples=50),
        stats.paired_difference_interval(a, b, groups=groups, resamples=50),
        stats.permutation_aggregate(*texts, targets, stats.macro_f1, groups=groups, resamples=50),
        stats.aggregate_interval(texts[0], targets, stats.macro_f1, groups=groups, resamples=50),
    ]


def sides(found: Rows) -> tuple[list[float], list[float], list[str]]:
    return [a for a, _, _ in found], [b for _, b, _ in found], [group for _, _, group in found]


@given(rows)
@settings(max_examples=40)
def test_where_no_two_rows_share_a_group_nothing_changes(found: Rows) -> None:
    a, b, _ = sides(found)
    alone = everything(a, b, None)
    assert everything(a, b, [None] * len(a)) == alone
    assert everything(a, b, [f"g{n}" if n % 2 else None for n in range(len(a))]) == alone


@given(rows, st.permutations("wxyz"))
@settings(max_examples=40)
def test_groups_may_have_any_names(found: Rows, names: list[str]) -> None:
    a, b, groups = sides(found)
    renamed = dict(zip("wxyz", names, strict=True))
    assert everything(a, b, groups) == everything(a, b, [renamed[group] for group in groups])


@given(rows)
@settings(max_examples=40)
def test_a_row_and_its_twin_prove_what_the_row_proves(found: Rows) -> None:
    a, b, _ = sides(found)
    twice = [*a, *a], [*b, *b]
    names = [f"twins {n}" for n in range(len(a))] * 2
    for alternative in ("greater", "two-sided"):
        expected = stats.paired_test(a, b, alternative)
        assert stats.paired_test(*twice, alternative, groups=names) == pytest.approx(expected, abs=1e-12)
    expected = stats.paired_test(a, b, is_mid=True)
    assert stats.paired_test(*twice, groups=names, is_mid=True) == pytest.approx(expected, abs=1e-12)


@given(binary_rows)
@settings(max_examples=40)
def test_a_row_and_its_twin_make_no_interval_narrower(found: Rows) -> None:
    a, b, _ = sides(found)
    names = [f"twins {n}" for n in range(len(a))] * 2
    assert stats.mean_interval([*a, *a], groups=names) == pytest.approx(stats.mean_interval(a), abs=1e-12)
    doubled = stats.paired_difference_interval([*a, *a], [*b, *b], groups=names)
    assert doubled == pytest.approx(stats.paired_difference_interval(a, b), abs=1e-12)


@given(binary_rows)
@settings(max_examples=60)
def test_signs_of_whole_groups_are_turned_in_every_way(found: Rows) -> None:
    a, b, groups = sides(found)
    sums = [
        sum(y - x for x, y, name in zip(a, b, groups, strict=True) if name == group)
        for group in dict.fromkeys(groups)
    ]
    turned = [
        sum(sign * total for sign, total in zip(signs, sums, strict=True))
        for signs in itertools.product((1, -1), repeat=len(sums))
    ]
    above, equal = sum(t > sum(sums) for t in turned), sum(t == sum(sums) for t in turned)
    assert stats.paired_test(a, b, groups=groups) == pytest.approx((above + equal) / len(turned))
    mid = stats.paired_test(a, b, groups=groups, is_mid=True)
    assert mid == pytest.approx((above + equal / 2) / len(turned))
    beyond = sum(abs(t) >= abs(sum(sums)) for t in turned) / len(turned)
    assert stats.paired_test(a, b, "two-sided", groups=groups) == pytest.approx(beyond)


@pytest.mark.parametrize("one", [1.0, 0.8])
def test_one_group_proves_as_much_as_one_row(one: float) -> None:
    a, b, groups = [0.0] * 30, [one] * 30, ["all"] * 30
    assert stats.paired_test(a, b, "two-sided", groups=groups) == 1.0
    assert stats.paired_test(a, b, groups=groups) == 0.5
    assert stats.paired_test(b, a, groups=groups) == 1.0
    assert stats.paired_test(a, b, groups=groups, is_mid=True) == stats.paired_test([0], [1], is_mid=True)
    assert stats.mean_interval(b, groups=groups) == pytest.approx(stats.mean_interval([one]))
    gain = stats.paired_difference_interval(a, b, groups=groups)
    assert gain == pytest.approx(stats.paired_difference_interval([0.0], [one]))


def test_of_a_figure_of_all_rows_few_groups_tell_nothing() -> None:
    targets, answers = ["a", "b"] * 20, ["a", "b", "b", "b"] * 10
    for count in (1, 4):
        groups = [f"g{n % count}" for n in range(40)]
        assert stats.aggregate_interval(answers, targets, stats.macro_f1, groups=groups) == (0, 1)
    assert stats.permutation_aggregate(answers, targets, targets, stats.macro_f1, groups=["g"] * 40) == 0.5


def test_answers_of_a_group_are_exchanged_together() -> None:
    """Six rows put right are 1 chance in 64, in three groups of two 1 in 8."""
    targets = ["a", "b"] * 6
    wrong = ["c"] * 6 + targets[6:]
    groups = ["x", "x", "y", "y", "z", "z", *[None] * 6]
    assert stats.permutation_aggregate(wrong, targets, targets, stats.macro_f1) == 1 / 64
    assert stats.permutation_aggregate(wrong, targets, targets, stats.macro_f1, groups=groups) == 1 / 8


def test_alike_rows_of_a_group_widen_the_intervals() -> None:
    rng = Random(3)
    groups = [f"g{n // 5}" for n in range(100)]
    shared = [rng.random() for _ in range(20)]
    right = [float(shared[n // 5] < 0.7) for n in range(100)]
    graded = [0.5 + 0.5 * shared[n // 5] * 0.9 + 0.01 * (n % 5) for n in range(100)]
    for values in (right, graded):
        low, high = stats.mean_interval(values)
        wide = stats.mean_interval(values, groups=groups)
        assert wide.high - wide.low > 1.8 * (high - low)
    answers = ["a" if value else "b" for value in right]
    narrow = stats.aggregate_interval(answers, ["a", "b"] * 50, stats.macro_f1, groups=None)
    wide = stats.aggregate_interval(answers, ["a"] * 50 + ["b"] * 50, stats.macro_f1, groups=groups)
    assert wide.high - wide.low > narrow.high - narrow.low


@given(binary_rows)
@settings(max_examples=60)
def test_rows_count_for_no_less_than_their_groups_and_no_more_than_themselves(found: Rows) -> None:
    values, _, groups = sides(found)
    together = members(groups, len(values))
    if together is None:
        assert len(set(groups)) == len(values)
        return
    count = effective_rows(values, together)
    assert 1 <= effective_groups(together) <= count <= len(values)


def test_unlike_rows_of_a_group_cost_little() -> None:
    """Half of each group right: groups do not differ, so that the rows count, but for what is not known."""
    together = [[2 * n, 2 * n + 1] for n in range(100)]
    assert effective_rows([0.0, 1.0] * 100, together) == pytest.approx(200 * (1.95996 / 1.98422) ** 2, 1e-4)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 7, 30, 31, 100])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_students_quantile_agrees_with_scipy(confidence: float, df: int) -> None:
    expected = scipy_stats.t.ppf(0.5 + confidence / 2, df)
    assert student_quantile(confidence, df) == pytest.approx(expected, rel=2e-4)


def test_equally_good_prompts_are_told_apart_by_groups_as_rarely_as_promised() -> None:
    """Ten groups of five rows that are answered alike: as single rows a third of them is significant."""
    rng, draws = Random(1), 400
    groups = [f"g{n // 5}" for n in range(50)]

    def answers() -> list[float]:
        return [value for value in (float(rng.random() < 0.7) for _ in range(10)) for _ in range(5)]

    found = [(answers(), answers()) for _ in range(draws)]
    as_rows = sum(stats.paired_test(a, b, "two-sided") < 0.05 for a, b in found) / draws
    as_groups = sum(stats.paired_test(a, b, "two-sided", groups=groups) < 0.05 for a, b in found) / draws
    assert as_rows > 0.2
    assert as_groups < 0.05 + 3 * (0.05 * 0.95 / draws) ** 0.5


def test_of_very_many_groups_the_signs_are_drawn() -> None:
    a, b = [0.0] * 1040 + [1.0] * 960, [1.0] * 1040 + [0.0] * 960
    names = [f"twins {n}" for n in range(2000)] * 2
    exact = stats.paired_test(a, b)
    assert stats.paired_test([*a, *a], [*b, *b], groups=names) == pytest.approx(exact, abs=0.01)


def test_as_many_groups_as_rows_are_asked_for() -> None:
    with pytest.raises(ValueError, match="2 values against 3"):
        stats.paired_test([0, 1, 0], [1, 1, 1], groups=["a", "b"])
