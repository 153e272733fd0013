"""Where a true rate, mean or difference lies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

from autoprompt.stats.groups import (
    NORMAL,
    TIE,
    Groups,
    check_lengths,
    effective_groups,
    effective_rows,
    freedom,
    is_binary,
    members,
    student_quantile,
)

_FEW_VALUES = 5  # of so few graded scores the bootstrap's 95% covered the mean in 46% (2) to 83% (4) of draws


class Interval(NamedTuple):
    """Both ends belong to it; of a score in [0, 1], of a difference of scores in [-1, 1]."""

    low: float
    high: float


def wilson_interval(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Return the interval of the true rate, given `successes` of `n`; (0, 1) for n = 0.

    Source: Wilson 1927; without continuity correction, as advised by Brown, Cai & DasGupta 2001.

    Args:
        successes: From 0 to `n`; need not be whole.
        n: At least 0; need not be whole.
        confidence: Share of such intervals that hold the true rate.

    Raises:
        ValueError: For successes outside of 0 to n.

    Examples:
        >>> low, high = wilson_interval(18, 20)
        >>> f"{low:.2f} to {high:.2f}"
        '0.70 to 0.97'
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: expected 0 <= successes <= n")
    if n == 0:
        return Interval(0.0, 1.0)
    return _wilson(successes / n, n, confidence)


def _wilson(rate: float, n: float, confidence: float) -> Interval:
    z = NORMAL.inv_cdf(0.5 + confidence / 2)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At the ends the formula gives the end itself; floats miss it by a hair.
    low = 0.0 if rate == 0 else max(0.0, centre - half)
    high = 1.0 if rate == 1 else min(1.0, centre + half)
    return Interval(low, high)


def mean_interval(
    values: Sequence[float],
    confidence: float = 0.95,
    *,
    groups: Groups | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> Interval:
    """Return the interval of the mean of scores in [0, 1]; (0, 1) for no values.

    Wilson's if all are 0 or 1, else the percentile bootstrap. The bootstrap knows only what it was given:
    under some 20 values it is too narrow. If it knows nothing (under 5 values, or equal ones), see
    `_bounded_interval`. Source: Efron & Tibshirani 1993, chapter 13.

    Args:
        values: Scores in [0, 1].
        confidence: Share of such intervals that hold the true mean.
        groups: The group of each value. Wilson's is for as many rows as `effective_rows` says; the bootstrap
            draws groups. All rows in one group count as one row.
        seed: Of the draws.
        resamples: How many draws.
    """
    if not values:
        return Interval(0.0, 1.0)
    together = members(groups, len(values))
    if is_binary(values):
        rows = len(values) if together is None else effective_rows(values, together, confidence)
        return _wilson(sum(values) / len(values), rows, confidence)
    return _bounded_interval(values, together, Interval(0.0, 1.0), confidence, seed, resamples)


def paired_error(a: Sequence[float], b: Sequence[float], groups: Groups | None = None) -> float:
    """Return the standard error of the mean of b - a, row by row, if there were no difference.

    As in McNemar's test: of 0s and 1s the root of how many rows differ, over all rows. A single row or group
    that differs is one standard error.

    Args:
        a: Scores in [0, 1].
        b: Other scores of the same rows.
        groups: As in `mean_interval`: the sums of groups are what varies (Cochran 1977, section 11.8).

    Raises:
        ValueError: If the lengths differ.
    """
    check_lengths(a, b)
    differences = [y - x for x, y in zip(a, b, strict=True)]
    together = members(groups, len(differences)) or [[row] for row in range(len(differences))]
    sums = [sum(differences[row] for row in rows) for rows in together]
    return math.hypot(*sums) / max(1, len(differences))


def student_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95% interval of the mean of repeated runs, by Student's t; None if it cannot be known.

    That is so for fewer than two values, and for equal ones. For few values that are about normal, such as
    one score for each seed; not cut to what is possible.
    """
    n = len(values)
    if n < 2 or max(values) - min(values) <= TIE:
        return None
    mean = fmean(values)
    half = student_quantile(0.95, n - 1) * stdev(values) / math.sqrt(n)
    return Interval(mean - half, mean + half)


def percentile_interval(draws: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the middle of bootstrap draws. draws: At least one."""
    ordered = sorted(draws)
    cut = int(len(ordered) * (1 - confidence) / 2)
    return Interval(ordered[cut], ordered[len(ordered) - 1 - cut])


def paired_difference_interval(
    a: Sequence[float],
    b: Sequence[float],
    confidence: float = 0.95,
    *,
    groups: Groups | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> Interval:
    """Return the interval of the true mean of b - a, row by row, in [-1, 1]; (-1, 1) for no rows.

    Newcombe's method 10 for 0/1 scores (Newcombe 1998, Statistics in Medicine 17:2635), for graded ones the
    percentile bootstrap of the differences, as in `mean_interval`.

    Args:
        a: Scores in [0, 1].
        b: Other scores of the same rows.
        confidence: Share of such intervals that hold the true mean.
        groups: As in `mean_interval`; the rows that the differences count for go into Newcombe's method.
        seed: Of the draws.
        resamples: How many draws.

    Raises:
        ValueError: If the lengths differ.
    """
    check_lengths(a, b)
    if not a:
        return Interval(-1.0, 1.0)
    together = members(groups, len(a))
    differences = [y - x for x, y in zip(a, b, strict=True)]
    if not (is_binary(a) and is_binary(b)):
        return _bounded_interval(differences, together, Interval(-1.0, 1.0), confidence, seed, resamples)
    cells = Counter((bool(y), bool(x)) for x, y in zip(a, b, strict=True))
    both, only_b, only_a, none = (
        cells[True, True],
        cells[True, False],
        cells[False, True],
        cells[False, False],
    )
    n = len(a)
    rate_b, rate_a = (both + only_b) / n, (both + only_a) / n
    rows = n if together is None else effective_rows(differences, together, confidence)
    low_b, high_b = _wilson(rate_b, rows, confidence)
    low_a, high_a = _wilson(rate_a, rows, confidence)
    covariance: float = both * none - only_b * only_a
    if covariance > 0:  # the correction for continuity is of half a row, of those that count
        covariance = max(covariance - n * (n / rows) / 2, 0.0)
    margins = (both + only_b) * (only_a + none) * (both + only_a) * (only_b + none)
    phi = covariance / math.sqrt(margins) if margins else 0.0
    down = _side(rate_b - low_b, high_a - rate_a, phi)
    up = _side(high_b - rate_b, rate_a - low_a, phi)
    difference = (only_b - only_a) / n
    return Interval(max(-1.0, difference - down), min(1.0, difference + up))


def _side(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def equal_interval(value: float, n: float, bounds: Interval, confidence: float = 0.95) -> Interval:
    """Return the interval of the mean of n values within `bounds` that are all `value`.

    Wilson's interval for 0 of n bounds the share that is otherwise, wherever in the bounds those are; of all
    0 or all 1 that is Wilson's own.
    """
    others = _wilson(0.0, n, confidence).high
    return Interval(value - others * (value - bounds.low), value + others * (bounds.high - value))


def _bounded_interval(
    values: Sequence[float],
    together: Sequence[Sequence[int]] | None,
    bounds: Interval,
    confidence: float,
    seed: int,
    resamples: int,
) -> Interval:
    """Return the interval of the mean of values within `bounds`, by the percentile bootstrap if possible.

    Equal values: `equal_interval`. Under 5 values: Wilson's with the mean as the rate, since values in [0, 1]
    vary no more than 0/1 values of the same mean. Source: Bhatia & Davis 2000, American Mathematical Monthly
    107:353. Of groups, n is `effective_groups`.
    """
    n, mean = len(values) if together is None else effective_groups(together), fmean(values)
    low, high = bounds
    if max(values) - min(values) <= TIE:
        return equal_interval(mean, n, bounds, confidence)
    if n < _FEW_VALUES:
        rate = (mean - low) / (high - low)
        share = wilson_interval(min(max(rate, 0.0), 1.0) * n, n, confidence)
        return Interval(low + share.low * (high - low), low + share.high * (high - low))
    if together is None:
        return _bootstrap(values, confidence, seed, resamples)
    return _bootstrap_of_groups(values, together, confidence, seed, resamples)


def _bootstrap(values: Sequence[float], confidence: float, seed: int, resamples: int) -> Interval:
    rng = Random(seed)
    n = len(values)
    return percentile_interval(
        [math.fsum(rng.choices(values, k=n)) / n for _ in range(resamples)], confidence
    )


def _bootstrap_of_groups(
    values: Sequence[float],
    together: Sequence[Sequence[int]],
    confidence: float,
    seed: int,
    resamples: int,
) -> Interval:
    rng = Random(seed)
    parts = [(math.fsum(values[row] for row in rows), len(rows)) for rows in together]
    draws = []
    for _ in range(resamples):
        drawn = rng.choices(parts, k=len(parts))
        draws.append(math.fsum(total for total, _ in drawn) / sum(rows for _, rows in drawn))
    return expanded_interval(draws, together, confidence)


def expanded_interval(
    draws: Sequence[float], together: Sequence[Sequence[int]], confidence: float = 0.95
) -> Interval:
    """Return the middle of bootstrap draws of groups, wider by what their number asks for.

    Percentiles are those that the normal distribution has at Student's t, times sqrt(G / (G - 1)), as the
    bootstrap varies that much too little. Source: Hesterberg 2015, The American Statistician 69:371, 4.1.
    """
    groups = len(together)
    t = student_quantile(confidence, freedom(effective_groups(together))) * math.sqrt(groups / (groups - 1))
    return percentile_interval(draws, 2 * NORMAL.cdf(t) - 1)
