"""Statistics against scipy, against published figures, and by their properties."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from autoprompt import stats

counts = st.integers(0, 60)
graded = st.lists(st.floats(0, 1), min_size=1, max_size=12)
binary = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60)
p_values = st.lists(st.floats(0.001, 0.999), min_size=1, max_size=6)


@given(successes=counts, failures=counts, confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_interval_agrees_with_scipy(successes: int, failures: int, confidence: float) -> None:
    n = successes + failures
    if n == 0:
        assert stats.wilson_interval(0, 0) == (0, 1)
        return
    expected = scipy_stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    low, high = stats.wilson_interval(successes, n, confidence)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= successes / n <= high <= 1


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3)])
def test_wilson_interval_refuses_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        stats.wilson_interval(successes, n)


@given(fixed=counts, broken=counts)
def test_mcnemar_agrees_with_scipy(fixed: int, broken: int) -> None:
    n = fixed + broken
    for alternative in ("greater", "two-sided"):
        expected = scipy_stats.binomtest(fixed, n, 0.5, alternative).pvalue if n else 1.0
        assert stats.mcnemar_exact(fixed, broken, alternative) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("fixed", "broken"), [(5, 0), (7, 1), (9, 2), (10, 3)])
def test_mcnemar_knows_the_smallest_significant_counts(fixed: int, broken: int) -> None:
    assert stats.mcnemar_exact(fixed, broken) < 0.05 <= stats.mcnemar_exact(fixed - 1, broken)


@pytest.mark.parametrize(("fixed", "broken", "rows"), [(6, 2, 37), (30, 10, 300), (20, 10, 100)])
def test_so_many_rows_show_a_difference_again_in_four_of_five_samples(
    fixed: int, broken: int, rows: int
) -> None:
    wanted = stats.rows_to_show(fixed, broken, rows)
    assert wanted is not None
    rng = np.random.default_rng(0)
    shares = [fixed / rows, broken / rows, 1 - (fixed + broken) / rows]
    draws = rng.multinomial(wanted, shares, size=4000)
    # By the test that the formula is of; the exact one shows it a little less often.
    shown = [(a - b) ** 2 / (a + b) > scipy_stats.chi2.ppf(0.95, 1) for a, b, _ in draws if a + b]
    assert np.mean(shown) == pytest.approx(0.8, abs=0.06)


def test_no_number_of_rows_shows_what_is_no_gain() -> None:
    assert stats.rows_to_show(2, 2, 37) is None
    assert stats.rows_to_show(0, 0, 0) is None


@given(fixed=counts, broken=counts)
def test_the_mid_p_counts_what_was_observed_half(fixed: int, broken: int) -> None:
    n = fixed + broken
    expected = scipy_stats.binom.sf(fixed, n, 0.5) + scipy_stats.binom.pmf(fixed, n, 0.5) / 2
    assert stats.mcnemar_exact(fixed, broken, is_mid=True) == pytest.approx(expected, abs=1e-12)


@given(binary, st.data())
def test_the_mid_p_is_the_same_by_counts_and_by_signs(a: list[float], data: st.DataObject) -> None:
    a = a[:14]
    b = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(a), max_size=len(a)))
    differences = [y - x for x, y in zip(a, b, strict=True)]
    p = stats.paired_test(a, b, is_mid=True)
    assert stats.sign_flip_test(differences, is_mid=True) == pytest.approx(p)
    assert p <= stats.paired_test(a, b)


def test_the_mid_p_is_one_sided() -> None:
    with pytest.raises(ValueError, match="one-sided"):
        stats.mcnemar_exact(3, 1, "two-sided", is_mid=True)
    with pytest.raises(ValueError, match="one-sided"):
        stats.sign_flip_test([0.5], "two-sided", is_mid=True)


@given(fixed=counts, broken=counts)
def test_mcnemar_is_monotone_and_symmetric(fixed: int, broken: int) -> None:
    p = stats.mcnemar_exact(fixed, broken)
    assert stats.mcnemar_exact(fixed + 1, broken) <= p <= stats.mcnemar_exact(fixed, broken + 1) <= 1
    assert stats.mcnemar_exact(fixed, broken, "two-sided") == stats.mcnemar_exact(broken, fixed, "two-sided")


def test_mcnemar_stays_exact_for_thousands_of_rows() -> None:
    assert stats.mcnemar_exact(5200, 4800) == pytest.approx(
        scipy_stats.binomtest(5200, 10_000, alternative="greater").pvalue, rel=1e-9
    )


@given(graded, st.data())
def test_sign_flip_agrees_with_scipy_where_all_patterns_are_counted(
    a: list[float], data: st.DataObject
) -> None:
    # A grid keeps float noise from deciding whether two sums are equal.
    b = [
        round(value * 8) / 8
        for value in data.draw(st.lists(st.floats(0, 1), min_size=len(a), max_size=len(a)))
    ]
    differences = [y - round(x * 8) / 8 for x, y in zip(a, b, strict=True)]
    if len(differences) < 2:
        return
    for alternative in ("greater", "two-sided"):
        expected = scipy_stats.permutation_test(
            (np.array(differences),),
            np.sum,
            permutation_type="samples",
            alternative=alternative,
            n_resamples=2**13,
            vectorized=False,
        ).pvalue
        # scipy doubles the smaller tail; ours counts both: equal, as the null is symmetric.
        assert stats.sign_flip_test(differences, alternative) == pytest.approx(expected, abs=1e-12)


def test_sign_flip_of_many_rows_is_close_to_the_exact_answer() -> None:
    differences = [1.0] * 25 + [-1.0] * 12
    assert stats.sign_flip_test(differences) == pytest.approx(stats.mcnemar_exact(25, 12), abs=0.01)
    assert stats.sign_flip_test(differences) == stats.sign_flip_test(differences)
    assert stats.sign_flip_test([1.0] * 40) == 1 / 10_001
    assert stats.sign_flip_test([0.0, 0.0]) == stats.sign_flip_test([]) == 1.0


@given(binary, st.data())
def test_paired_test_of_0_and_1_is_mcnemar_and_equals_sign_flips(a: list[float], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(a), max_size=len(a)))
    p = stats.paired_test(a, b)
    assert 0 < p <= 1
    moved = [y - x for x, y in zip(a, b, strict=True) if x != y]
    if len(moved) <= 14:
        assert p == pytest.approx(stats.sign_flip_test(moved), abs=1e-12)


def test_paired_test_of_graded_scores() -> None:
    a = [0.1 * i for i in range(10)]
    assert stats.paired_test(a, [x + 0.05 for x in a]) == 1 / 1024
    assert stats.paired_test([x + 0.05 for x in a], a) == 1.0
    with pytest.raises(ValueError, match="2 values against 1"):
        stats.paired_test([1, 0], [1])


def test_what_only_rounding_keeps_apart_is_equal() -> None:
    assert stats.difference(0.1 + 0.2, 0.3) == 0.0
    assert stats.difference(0.5, 0.75) == -0.25
    a, b = [0.3] * 8 + [0.5] * 4, [0.1 + 0.2] * 8 + [0.5] * 4
    for groups in (None, ["g", "g"] + [None] * 10):
        assert stats.paired_test(a, b, "two-sided", groups=groups) == 1.0
        assert stats.paired_test(a, b, groups=groups, is_mid=True) == 0.5


def scores(both: int, only_b: int, only_a: int, none: int) -> tuple[list[int], list[int]]:
    rows = [(1, 1)] * both + [(0, 1)] * only_b + [(1, 0)] * only_a + [(0, 0)] * none
    return [x for x, _ in rows], [y for _, y in rows]


def test_paired_difference_interval_gives_newcombes_published_figures() -> None:
    # Newcombe 1998, table II, method 10.
    a, b = scores(36, 12, 2, 0)
    assert stats.paired_difference_interval(a, b) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@given(st.tuples(counts, counts, counts, counts))
def test_paired_difference_interval_holds_the_difference_and_mirrors(
    cells: tuple[int, int, int, int],
) -> None:
    a, b = scores(*cells)
    low, high = stats.paired_difference_interval(a, b)
    if not a:
        assert (low, high) == (-1, 1)
        return
    assert -1 <= low <= (sum(b) - sum(a)) / len(a) <= high <= 1
    assert stats.paired_difference_interval(b, a) == pytest.approx((-high, -low), abs=1e-12)


def test_paired_difference_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, hits = Random(7), 0
    for _ in range(400):
        a = [int(rng.random() < 0.6) for _ in range(60)]
        b = [x if rng.random() < 0.6 else int(rng.random() < 0.75) for x in a]
        low, high = stats.paired_difference_interval(a, b)
        hits += low <= 0.4 * (0.75 - 0.6) <= high
    assert 0.92 <= hits / 400 <= 0.99


def test_mean_interval_is_wilson_for_0_and_1_and_the_bootstrap_else() -> None:
    assert stats.mean_interval([1, 0, 1]) == stats.wilson_interval(2, 3)
    assert stats.mean_interval([]) == (0, 1)
    values = list(np.random.default_rng(0).random(80))
    expected = scipy_stats.bootstrap((values,), np.mean, method="percentile", n_resamples=4000, rng=1)
    low, high = stats.mean_interval(values)
    assert (low, high) == pytest.approx(tuple(expected.confidence_interval), abs=0.01)
    assert stats.mean_interval(values) == (low, high)


def test_the_interval_of_few_graded_scores_is_wilsons_of_their_mean() -> None:
    """Where the bootstrap has too little to draw from."""
    expected = scipy_stats.binomtest(2, 4).proportion_ci(0.95, method="wilson")
    assert stats.mean_interval([0.3, 0.7, 0.4, 0.6]) == pytest.approx((expected.low, expected.high))
    low, high = stats.paired_difference_interval([0.5] * 4, [0.3, 0.7, 0.4, 0.6])
    assert (low, high) == pytest.approx((2 * expected.low - 1, 2 * expected.high - 1))
    rng, hits = Random(3), 0
    for _ in range(200):
        low, high = stats.mean_interval([rng.betavariate(2, 2) for _ in range(3)])
        hits += low <= 0.5 <= high
    assert hits / 200 >= 0.95


@given(value=st.floats(0, 1), n=st.integers(1, 60))
def test_the_interval_of_equal_scores_has_a_width(value: float, n: int) -> None:
    others = scipy_stats.binomtest(0, n).proportion_ci(0.95, method="wilson").high
    low, high = stats.mean_interval([value] * n)
    assert 0 <= low <= value + 1e-12
    assert value - 1e-12 <= high <= 1
    assert high - low == pytest.approx(others)
    assert stats.paired_difference_interval([value] * n, [value] * n)[0] < 0


def test_two_seeds_that_gained_the_same_tell_no_interval() -> None:
    assert stats.student_interval([0.16, 0.16]) is None
    assert stats.student_interval([0.1 + 0.2, 0.3, 0.3]) is None
    wanted = scipy_stats.t.interval(0.95, 1, 0.17, scipy_stats.sem([0.16, 0.18]))
    assert stats.student_interval([0.16, 0.18]) == pytest.approx(wanted, abs=1e-4)


def test_graded_differences_use_the_bootstrap() -> None:
    a = [i / 50 for i in range(50)]
    b = [min(1.0, x + (0.2 if i % 2 else 0.0)) for i, x in enumerate(a)]
    low, high = stats.paired_difference_interval(a, b)
    assert 0.05 < low < sum(b) / 50 - sum(a) / 50 < high < 0.15


@given(p_values, st.data())
def test_combination_agrees_with_scipy(p: list[float], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(p), max_size=len(p)))
    expected = scipy_stats.combine_pvalues(p, method="stouffer", weights=weights).pvalue
    assert stats.combine_inverse_normal(p, weights) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_combination_at_the_ends() -> None:
    assert stats.combine_inverse_normal([1.0, 0.01]) == 1.0
    assert stats.combine_inverse_normal([0.0, 0.5]) == 0.0
    assert stats.combine_inverse_normal([1.0, 0.01], [0, 1]) == pytest.approx(0.01)
    for p, weights in [([], None), ([0.5], [0.0]), ([0.5], [-1.0]), ([1.5], None), ([0.5], [1.0, 1.0])]:
        with pytest.raises(ValueError, match=r"expected|against"):
            stats.combine_inverse_normal(p, weights)


@pytest.mark.parametrize("p", [1e-6, 0.004, 0.03, 0.3, 0.9])
@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("correlation", [0.0, 0.25, 0.5])
def test_many_against_one_agree_with_scipy(p: float, count: int, correlation: float) -> None:
    covariance = [[1.0 if i == j else correlation for j in range(count)] for i in range(count)]
    # Its integral is a random one: its own default of 1e-5 missed the bound below once.
    normal = scipy_stats.multivariate_normal(cov=covariance, seed=0, abseps=1e-6, maxpts=1_000_000)
    none_so_far = normal.cdf([scipy_stats.norm.isf(p)] * count)
    assert stats.many_to_one(p, count, correlation) == pytest.approx(1 - none_so_far, rel=1e-3, abs=1e-5)


def test_many_against_one_at_the_ends() -> None:
    # Dunnett 1955, table for an infinite number of degrees of freedom: 2.16 is the 5% point of four.
    assert stats.many_to_one(scipy_stats.norm.sf(2.16), 4, 0.5) == pytest.approx(0.05, abs=0.001)
    assert stats.many_to_one(0.02, 1, 0.5) == 0.02
    assert stats.many_to_one(0.02, 7.5, 0.0) == pytest.approx(1 - 0.98**7.5)
    for p in (0.0, 5e-324, 1e-300, 1 - 2**-53, 1.0):
        found = [stats.many_to_one(p, count, 0.25) for count in (1, 1.5, 40, 1000)]
        assert found == sorted(found)
        assert all(p <= one <= 1 for one in found)
    for bad in [(1.5, 2, 0.5), (0.5, 0.5, 0.5), (0.5, 2, 1.0), (0.5, 2, -0.1)]:
        with pytest.raises(ValueError, match="expected"):
            stats.many_to_one(*bad)


def test_macro_f1() -> None:
    # By hand: class a 2 hits of 3 answers and 2 targets, f1 0.8; class b 1 of 1 and 2 targets, f1 2/3.
    assert stats.macro_f1(["a", "a", "a", "b"], ["a", "a", "b", "b"]) == pytest.approx((0.8 + 2 / 3) / 2)
    assert stats.macro_f1(["", "a"], ["a", "a"]) == pytest.approx(2 / 3)
    assert stats.macro_f1([], []) == 0.0


def test_permutation_of_an_aggregate() -> None:
    targets = ["a", "b"] * 20
    wrong = ["b", "a"] * 20
    mean_hits = lambda p, t: sum(x == y for x, y in zip(p, t, strict=True)) / len(t)  # noqa: E731
    better = targets[:12] + wrong[12:]
    assert stats.permutation_aggregate(wrong, better, targets, mean_hits, resamples=4096) == 2**-12
    assert stats.permutation_aggregate(wrong, better, targets, mean_hits, resamples=99) == 1 / 100
    assert stats.permutation_aggregate(
        wrong, better, targets, mean_hits, alternative="two-sided", resamples=4096
    ) == pytest.approx(2**-11)
    assert stats.permutation_aggregate(wrong, wrong, targets, mean_hits) == 1.0
    assert stats.permutation_aggregate(targets, wrong, targets, stats.macro_f1, resamples=200) == 1.0


def test_nothing_leaves_the_range_at_the_extremes() -> None:
    assert stats.combine_inverse_normal([1e-300, 1e-300]) >= 0.0
    assert math.isfinite(stats.combine_inverse_normal([5e-324, 0.999]))


def test_the_interval_of_an_aggregate_holds_it_and_not_the_share_of_right_answers() -> None:
    targets = ["a"] * 90 + ["b"] * 10
    predictions = ["a"] * 100  # right for 0.9 of the rows; macro F1 0.47
    low, high = stats.aggregate_interval(predictions, targets, stats.macro_f1)
    assert low < stats.macro_f1(predictions, targets) < high < 0.6
    assert stats.aggregate_interval(predictions, targets, stats.macro_f1) == (low, high)
    assert stats.aggregate_interval([], [], stats.macro_f1) == (0.0, 1.0)
    with pytest.raises(ValueError, match="paired"):
        stats.aggregate_interval(["a"], targets, stats.macro_f1)


def test_a_rare_label_is_in_every_draw_of_an_aggregate() -> None:
    """Every twentieth draw has no row of a label of 3 in 200, and the mean of the others was its figure."""
    targets = ["ham"] * 197 + ["spam"] * 3
    answers = ["ham"] * 132 + ["spam"] * 68
    low, high = stats.aggregate_interval(answers, targets, stats.macro_f1)
    assert 0.38 < low < stats.macro_f1(answers, targets) < high < 0.52
    groups = [f"g{n % 100}" for n in range(200)]
    assert stats.aggregate_interval(answers, targets, stats.macro_f1, groups=groups).high < 0.55
    never = ["ham"] * 200
    assert stats.aggregate_interval(never, targets, stats.macro_f1).high < 0.6


def test_of_free_texts_those_that_are_drawn_vary() -> None:
    targets = [f"text {n}" for n in range(40)]
    low, high = stats.aggregate_interval(targets[:20] + ["?"] * 20, targets, stats.macro_f1)
    assert low < 0.4 < 0.6 < high


def test_equal_draws_of_an_aggregate_are_no_certainty() -> None:
    targets, wrong = ["a", "b"] * 3, ["b", "a"] * 3
    right = stats.aggregate_interval(targets, targets, stats.macro_f1)
    assert right == pytest.approx(stats.wilson_interval(6, 6))
    assert stats.aggregate_interval(wrong, targets, stats.macro_f1) == pytest.approx(
        stats.wilson_interval(0, 6)
    )
    # Three rows of the one label tell little of a mean that it is half of, however many the other has.
    rare = ["a"] * 197 + ["b"] * 3
    low, high = stats.aggregate_interval(rare, rare, stats.macro_f1)
    assert stats.wilson_interval(6, 6).low < low < stats.wilson_interval(200, 200).low
    assert high == 1.0
    groups = [f"g{n // 2}" for n in range(40)]
    of_groups = stats.aggregate_interval(["a", "b"] * 20, ["a", "b"] * 20, stats.macro_f1, groups=groups)
    assert of_groups == pytest.approx(stats.wilson_interval(20, 20))


def test_the_error_of_a_paired_difference_is_that_of_no_difference() -> None:
    a, b = [1.0, 0.0, 0.5, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0, 1.0]
    assert stats.paired_error(a, b) == pytest.approx(1.5 / 5)  # 1 + 0.25 + 1, squared and added
    assert stats.paired_error([], []) == 0.0
    # A group of four that differ alike, whatever the other rows belong to.
    grouped = stats.paired_error([0.0] * 8, [1.0] * 4 + [0.0] * 4, list("ggggaabb"))
    assert grouped == 4 / 8
