"""Is it better, or was it luck? Intervals and paired tests; pure functions, standard library only.

Every p-value lies in [0, 1] and is the chance of so good a result if there were no difference. Scores are
numbers in [0, 1], higher is better. Random draws come from `seed` alone: the same input gives the same
number on every machine. Nothing here rounds but `p_text`, for people.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from statistics import NormalDist, fmean, stdev
from typing import Literal, NamedTuple

Alternative = Literal["greater", "two-sided"]

_NORMAL = NormalDist()
_EXACT_UP_TO = 14  # rows that differ: 2^14 = 16,384 sign patterns are enumerated, more are drawn
_CHUNK = 8  # signs are drawn by the byte: one table of 256 sums replaces eight additions
_LEAST_P_SHOWN = 0.00001
_FEW_VALUES = 5  # of so few graded scores the bootstrap's 95% covered the mean in 46% (2) to 83% (4) of draws
_TIE = 1e-9  # sums of floats that should be equal differ by less than this


class Interval(NamedTuple):
    low: float
    high: float


def p_text(value: float) -> str:
    """`p = 0.00004`, never in powers of ten; `p < 0.00001` below that. The one form of all that is shown."""
    if value < _LEAST_P_SHOWN:
        return f"p < {_LEAST_P_SHOWN:.5f}"
    digits = 5 if value < 0.0001 else 4 if value < 0.01 else 3 if value < 0.1 else 2
    return f"p = {value:.{digits}f}"


def wilson_interval(successes: float, n: int, confidence: float = 0.95) -> Interval:
    """Where the true rate lies, given `successes` of `n`. (0, 1) for n = 0.

    Source: Wilson 1927; without continuity correction, as advised by Brown, Cai & DasGupta 2001.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n")
    if n == 0:
        return Interval(0.0, 1.0)
    z = _NORMAL.inv_cdf(0.5 + confidence / 2)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At the ends the formula gives the end itself; floats miss it by a hair.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low, high)


def mean_interval(
    values: Sequence[float], confidence: float = 0.95, *, seed: int = 0, resamples: int = 2000
) -> Interval:
    """Where the mean of scores in [0, 1] lies: Wilson where all are 0 or 1, else the percentile bootstrap.

    (0, 1) for no values. The bootstrap knows only what it was given: under some 20 values it is too narrow.
    Where it knows nothing (under 5 values, or equal ones), see `_bounded_interval`.
    Source: Efron & Tibshirani 1993, chapter 13.
    """
    if not values:
        return Interval(0.0, 1.0)
    if _is_binary(values):
        return wilson_interval(sum(values), len(values), confidence)
    return _bounded_interval(values, Interval(0.0, 1.0), confidence, seed, resamples)


# Two-sided 95% quantiles of Student's t for 1 to 30 degrees of freedom; above, the normal's is near enough
# with the first term of the Cornish-Fisher expansion, z + (z^3 + z) / (4 df): off by less than 0.002.
_STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_interval(values: Sequence[float]) -> Interval | None:
    """Where the mean of repeated runs lies, 95%, by Student's t; None where values do not tell how they vary.

    That is, for fewer than two, and for equal ones. For few values that are about normal, such as one score
    for each seed; not cut to what is possible.
    """
    n = len(values)
    if n < 2 or max(values) - min(values) <= _TIE:
        return None
    mean = fmean(values)
    z = _NORMAL.inv_cdf(0.975)
    t = _STUDENT_95[n - 2] if n - 1 <= len(_STUDENT_95) else z + (z**3 + z) / (4 * (n - 1))
    half = t * stdev(values) / math.sqrt(n)
    return Interval(mean - half, mean + half)


def aggregate_draws(
    predictions: Sequence[str],
    targets: Sequence[str],
    statistic: Callable[[Sequence[str], Sequence[str]], float],
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> list[float]:
    """The statistic of all rows together over bootstrap draws of the rows.

    The same seed draws the same rows: the draws of two sides on the same targets are paired.
    """
    _check_lengths(predictions, targets)
    rng = Random(seed)
    draws = []
    for _ in range(resamples):
        places = rng.choices(range(len(targets)), k=len(targets))
        draws.append(statistic([predictions[i] for i in places], [targets[i] for i in places]))
    return draws


def aggregate_interval(
    predictions: Sequence[str],
    targets: Sequence[str],
    statistic: Callable[[Sequence[str], Sequence[str]], float],
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> Interval:
    """Where the true value of a figure of all rows together lies, such as macro F1; (0, 1) for no rows.

    95%, by the percentile bootstrap of the rows; too narrow under some 20 rows, as in `mean_interval`.
    """
    if not targets:
        return Interval(0.0, 1.0)
    return percentile_interval(
        aggregate_draws(predictions, targets, statistic, seed=seed, resamples=resamples)
    )


def percentile_interval(draws: Sequence[float], confidence: float = 0.95) -> Interval:
    """The middle of bootstrap draws, of which there is at least one."""
    ordered = sorted(draws)
    cut = int(len(ordered) * (1 - confidence) / 2)
    return Interval(ordered[cut], ordered[len(ordered) - 1 - cut])


def paired_difference_interval(
    a: Sequence[float], b: Sequence[float], confidence: float = 0.95, *, seed: int = 0, resamples: int = 2000
) -> Interval:
    """Where the true mean of b - a lies, row by row; in [-1, 1] for scores. (-1, 1) for no rows.

    Newcombe's method 10 for 0/1 scores (Newcombe 1998, Statistics in Medicine 17:2635), for graded ones the
    percentile bootstrap of the differences, as in `mean_interval`. Raises ValueError if the lengths differ.
    """
    _check_lengths(a, b)
    if not a:
        return Interval(-1.0, 1.0)
    if not (_is_binary(a) and _is_binary(b)):
        differences = [y - x for x, y in zip(a, b, strict=True)]
        return _bounded_interval(differences, Interval(-1.0, 1.0), confidence, seed, resamples)
    cells = Counter((bool(y), bool(x)) for x, y in zip(a, b, strict=True))
    both, only_b, only_a, none = (
        cells[True, True],
        cells[True, False],
        cells[False, True],
        cells[False, False],
    )
    n = len(a)
    rate_b, rate_a = (both + only_b) / n, (both + only_a) / n
    low_b, high_b = wilson_interval(both + only_b, n, confidence)
    low_a, high_a = wilson_interval(both + only_a, n, confidence)
    covariance: float = both * none - only_b * only_a
    if covariance > 0:
        covariance = max(covariance - n / 2, 0.0)
    margins = (both + only_b) * (only_a + none) * (both + only_a) * (only_b + none)
    phi = covariance / math.sqrt(margins) if margins else 0.0
    down = _side(rate_b - low_b, high_a - rate_a, phi)
    up = _side(high_b - rate_b, rate_a - low_a, phi)
    difference = (only_b - only_a) / n
    return Interval(max(-1.0, difference - down), min(1.0, difference + up))


def mcnemar_exact(
    fixed: int, broken: int, alternative: Alternative = "greater", *, is_mid: bool = False
) -> float:
    """Were more rows fixed than broken by chance alone? `greater`: fixed more; 1.0 if no row changed.

    A sign test on the rows that changed, exact in whole numbers. Source: McNemar 1947; exact form in
    Agresti, Categorical Data Analysis, 10.1.4. One-sided p < .05 needs 5-0, 7-1, 9-2 or 10-3.
    is_mid: the mid-p instead, for `greater` alone: what was observed counts half. The exact test errs less
    often than it says, far less with few rows; the mid-p errs about as often (Fagerland, Lydersen & Laake
    2013, BMC Medical Research Methodology 13:91). Then 4-0 is .031, 6-1 is .035, and no change is .5.
    """
    if fixed < 0 or broken < 0:
        raise ValueError(f"{fixed} fixed and {broken} broken rows: counts cannot be negative")
    _check_mid(is_mid, alternative)
    n = fixed + broken
    start = fixed if alternative == "greater" else max(fixed, broken)
    ways = term = math.comb(n, start)
    for k in range(start, n):
        term = term * (n - k) // (k + 1)
        ways += term
    if is_mid:
        return (2 * ways - math.comb(n, start)) / (1 << (n + 1))
    tail = ways / (1 << n)
    return tail if alternative == "greater" else min(1.0, 2 * tail)


def sign_flip_test(
    differences: Sequence[float],
    alternative: Alternative = "greater",
    *,
    seed: int = 0,
    resamples: int = 10_000,
    is_mid: bool = False,
) -> float:
    """Is the sum of paired differences above what random signs would give? 1.0 if all are zero.

    All sign patterns are counted where at most 14 differences are not zero; else `resamples` are drawn and
    the observed one is counted with them, so that p is never 0 (Phipson & Smyth 2010).
    is_mid: as in `mcnemar_exact`. Source: Fisher 1935, section 21.
    """
    _check_mid(is_mid, alternative)
    moved = [d for d in differences if d]
    if not moved:
        return 0.5 if is_mid else 1.0
    columns, is_exact = _sign_columns(len(moved), seed, resamples)
    sums = _signed_sums(moved, columns)
    observed = sum(moved)
    slack = _TIE * math.fsum(map(abs, moved))
    if alternative == "greater":
        hits = _hits(sums, observed, slack, is_mid)
    else:
        hits = float(sum(abs(s) >= abs(observed) - slack for s in sums))
    return _share(hits, len(columns[0]), is_exact)


def paired_test(
    a: Sequence[float], b: Sequence[float], alternative: Alternative = "greater", *, is_mid: bool = False
) -> float:
    """p of "b is better than a" on the same rows: exact McNemar for 0/1 scores, sign flips for graded.

    is_mid: as in `mcnemar_exact`. Raises ValueError if the lengths differ; 1.0 for no rows.
    """
    _check_lengths(a, b)
    if _is_binary(a) and _is_binary(b):
        fixed = sum(y > x for x, y in zip(a, b, strict=True))
        broken = sum(y < x for x, y in zip(a, b, strict=True))
        return mcnemar_exact(fixed, broken, alternative, is_mid=is_mid)
    return sign_flip_test([y - x for x, y in zip(a, b, strict=True)], alternative, is_mid=is_mid)


def permutation_aggregate(
    a: Sequence[str],
    b: Sequence[str],
    targets: Sequence[str],
    statistic: Callable[[Sequence[str], Sequence[str]], float],
    *,
    alternative: Alternative = "greater",
    seed: int = 0,
    resamples: int = 2000,
) -> float:
    """p of "b has the higher statistic" for a figure of all rows together, such as macro F1.

    statistic(predictions, targets), higher is better. The two answers of a row are exchanged at random; exact
    where at most `resamples` exchanges exist. Costs two statistics a draw: 0.2 s for macro F1 of 500 rows.
    Source: Noreen 1989 (approximate randomization); Yeh 2000 for F scores.
    """
    _check_lengths(a, b)
    _check_lengths(a, targets)
    changed = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if not changed:
        return 1.0

    def gain(first: Sequence[str], second: Sequence[str]) -> float:
        return statistic(second, targets) - statistic(first, targets)

    observed = gain(a, b)
    is_exact = 2 ** len(changed) <= resamples
    rng = Random(seed)
    draws = (
        range(2 ** len(changed)) if is_exact else (rng.getrandbits(len(changed)) for _ in range(resamples))
    )
    hits = total = 0
    for pattern in draws:
        first, second = list(a), list(b)
        for bit, i in enumerate(changed):
            if pattern >> bit & 1:
                first[i], second[i] = second[i], first[i]
        drawn = gain(first, second)
        hits += drawn >= observed - _TIE if alternative == "greater" else abs(drawn) >= abs(observed) - _TIE
        total += 1
    return _share(hits, total, is_exact)


def combine_inverse_normal(p_values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """One one-sided p of several stages on different rows; valid whatever the earlier stages decided.

    weights: at least 0, fixed before the stages are seen (the square root of the planned rows is usual);
    default equal. A stage with p = 1 makes the whole 1. Raises ValueError for no p-values or no weight.
    Source: Lehmacher & Wassmer 1999, Biometrics 55:1286.
    """
    chosen = [1.0] * len(p_values) if weights is None else list(weights)
    _check_lengths(p_values, chosen)
    if not any(chosen) or any(w < 0 for w in chosen) or not all(0 <= p <= 1 for p in p_values):
        raise ValueError("expected p-values in [0, 1] and weights of at least 0, one of them above 0")
    counted = [(p, w) for p, w in zip(p_values, chosen, strict=True) if w]
    for end in (1.0, 0.0):
        if any(p == end for p, _ in counted):
            return end
    z = sum(-w * _NORMAL.inv_cdf(p) for p, w in counted) / math.sqrt(sum(w * w for _, w in counted))
    return 0.5 * math.erfc(z / math.sqrt(2))


def macro_f1(predictions: Sequence[str], targets: Sequence[str]) -> float:
    """Mean F1 of the classes that occur in `targets`, in [0, 1]; 0.0 for no rows.

    An answer that is no class of the targets (an unparsed one) counts as missed and is no class of its own.
    """
    _check_lengths(predictions, targets)
    if not targets:
        return 0.0
    expected, answered = Counter(targets), Counter(predictions)
    hits = Counter(t for p, t in zip(predictions, targets, strict=True) if p == t)
    return sum(2 * hits[c] / (expected[c] + answered[c]) for c in expected) / len(expected)


def _is_binary(values: Sequence[float]) -> bool:
    return all(value in (0, 1) for value in values)


def _check_lengths(a: Sequence[object], b: Sequence[object]) -> None:
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values against {len(b)}: paired data needs one of each for every row")


def _side(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def _bounded_interval(
    values: Sequence[float], bounds: Interval, confidence: float, seed: int, resamples: int
) -> Interval:
    """Where the mean of values within `bounds` lies: the percentile bootstrap, where it knows enough.

    Equal values: Wilson's interval for 0 of n bounds the share of rows that are otherwise, wherever in the
    bounds those are; of all 0 or all 1 that is Wilson's own. Under 5 values: Wilson's with the mean as the
    rate, since values in [0, 1] vary no more than 0/1 values of the same mean. Source: Bhatia & Davis 2000,
    American Mathematical Monthly 107:353.
    """
    n, mean = len(values), fmean(values)
    low, high = bounds
    if max(values) - min(values) <= _TIE:
        others = wilson_interval(0, n, confidence).high
        return Interval(mean - others * (mean - low), mean + others * (high - mean))
    if n < _FEW_VALUES:
        rate = (mean - low) / (high - low)
        share = wilson_interval(min(max(rate, 0.0), 1.0) * n, n, confidence)
        return Interval(low + share.low * (high - low), low + share.high * (high - low))
    return _bootstrap(values, confidence, seed, resamples)


def _bootstrap(values: Sequence[float], confidence: float, seed: int, resamples: int) -> Interval:
    rng = Random(seed)
    n = len(values)
    return percentile_interval(
        [math.fsum(rng.choices(values, k=n)) / n for _ in range(resamples)], confidence
    )


def _check_mid(is_mid: bool, alternative: Alternative) -> None:
    if is_mid and alternative != "greater":
        raise ValueError("the mid-p is for the one-sided test: alternative='greater'")


def _hits(sums: Sequence[float], observed: float, slack: float, is_mid: bool) -> float:
    """How many sums reach what was observed; is_mid: those that equal it count half."""
    reached = sum(s >= observed - slack for s in sums)
    if not is_mid:
        return float(reached)
    return (reached + sum(s > observed + slack for s in sums)) / 2


def _share(hits: float, draws: int, is_exact: bool) -> float:
    return hits / draws if is_exact else (hits + 1) / (draws + 1)


def _sign_columns(n: int, seed: int, resamples: int) -> tuple[list[bytes], bool]:
    """Sign patterns of n rows, and whether these are all: per chunk of 8 rows, one byte for each pattern."""
    starts = range(0, n, _CHUNK)
    if n <= _EXACT_UP_TO:
        return [bytes((k >> at) & 0xFF for k in range(2**n)) for at in starts], True
    rng = Random(seed)
    return [rng.randbytes(resamples) for _ in starts], False


def _signed_sums(values: Sequence[float], columns: Sequence[bytes]) -> list[float]:
    """The sum of the values under every sign pattern; a set bit turns the sign."""
    parts = []
    for chunk, column in enumerate(columns):
        table = [0.0]
        for value in values[chunk * _CHUNK : (chunk + 1) * _CHUNK]:
            table = [s + value for s in table] + [s - value for s in table]
        table *= 256 // len(table)  # bits beyond the last row mean nothing
        parts.append(map(table.__getitem__, column))
    return list(map(sum, zip(*parts, strict=True)))
