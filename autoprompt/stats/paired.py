"""Paired tests: is one better than the other on the same rows?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Literal

from autoprompt.stats.groups import NORMAL, TIE, Groups, check_lengths, difference, is_binary, members

Alternative = Literal["greater", "two-sided"]

_EXACT_UP_TO = 14  # rows that differ: 2^14 = 16,384 sign patterns are enumerated, more are drawn
_CHUNK = 8  # signs are drawn by the byte: one table of 256 sums replaces eight additions
_MOST_ADDITIONS = 2_000_000  # to count all sign patterns of groups: 0.2 s; more are drawn
_LEAST_P_SHOWN = 0.00001
_LUCK_STEP = 1 / 8  # of a sum that stands for the integral over a normal: its error is rounding
_LUCKS = [n * _LUCK_STEP for n in range(-64, 65)]


def p_text(value: float) -> str:
    """Return a p-value as people read it, never in powers of ten. All that is shown has this form.

    Examples:
        >>> p_text(0.00004), p_text(0.0312), p_text(1e-9)
        ('p = 0.00004', 'p = 0.031', 'p < 0.00001')
    """
    if value < _LEAST_P_SHOWN:
        return f"p < {_LEAST_P_SHOWN:.5f}"
    digits = 5 if value < 0.0001 else 4 if value < 0.01 else 3 if value < 0.1 else 2
    return f"p = {value:.{digits}f}"


def mcnemar_exact(
    fixed: int, broken: int, alternative: Alternative = "greater", *, is_mid: bool = False
) -> float:
    """Return the chance that so many more rows are fixed than broken by luck; 1.0 if no row changed.

    A sign test on the rows that changed, exact in whole numbers. Source: McNemar 1947; exact form in Agresti,
    Categorical Data Analysis, 10.1.4. One-sided p < .05 needs 5-0, 7-1, 9-2 or 10-3.

    Args:
        fixed: Rows that were wrong and are right.
        broken: Rows that were right and are wrong.
        alternative: `greater`: more were fixed; `two-sided`: more were fixed or broken.
        is_mid: Return the mid-p instead, for `greater` only: what was observed counts half. The exact test
            errs less often than it says, far less with few rows; the mid-p errs about as often (Fagerland,
            Lydersen & Laake 2013, BMC Medical Research Methodology 13:91). Then 4-0 is .031, 6-1 is .035, and
            no change is .5.

    Raises:
        ValueError: For negative counts, and for a two-sided mid-p.

    Examples:
        >>> mcnemar_exact(5, 0)
        0.03125
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


def rows_to_show(fixed: int, broken: int, rows: int, power: float = 0.8) -> int | None:
    """Estimate how many rows would show a difference this large: two-sided p < .05 in 4 of 5 samples.

    Source: Connor 1987, Biometrics 43:207 (sample size of McNemar's test).

    Args:
        fixed: Rows that were wrong and are right.
        broken: Rows that were right and are wrong.
        rows: All rows.
        power: Share of samples in which they would show it.

    Returns:
        None if no more rows were fixed than broken, or more than there are.
    """
    if fixed <= broken or rows < fixed + broken:
        return None
    moved, gain = (fixed + broken) / rows, (fixed - broken) / rows
    spread = NORMAL.inv_cdf(0.975) * math.sqrt(moved) + NORMAL.inv_cdf(power) * math.sqrt(moved - gain * gain)
    return math.ceil((spread / gain) ** 2)


def sign_flip_test(
    differences: Sequence[float],
    alternative: Alternative = "greater",
    *,
    groups: Groups | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    is_mid: bool = False,
) -> float:
    """Return the chance that random signs give so large a sum of paired differences; 1.0 if all are zero.

    All sign patterns are counted if at most 14 differences are not zero; else `resamples` are drawn and the
    observed one is counted with them, so that p is never 0 (Phipson & Smyth 2010). Source: Fisher 1935,
    section 21; of groups, Canay, Romano & Shaikh 2017, Econometrica 85:1013.

    Args:
        differences: New minus old, row by row.
        alternative: `greater`, or `two-sided`.
        groups: All rows of a group have their signs turned at once, so that their sum is one difference:
            right however alike they are, if either side might as well have had the other's scores of the
            whole group.
        seed: Of the draws.
        resamples: How many patterns are drawn.
        is_mid: As in `mcnemar_exact`.
    """
    _check_mid(is_mid, alternative)
    moved = [d for d in _of_groups(differences, members(groups, len(differences))) if d]
    if not moved:
        return 0.5 if is_mid else 1.0
    columns, is_exact = _sign_columns(len(moved), seed, resamples)
    sums = _signed_sums(moved, columns)
    observed = sum(moved)
    slack = TIE * math.fsum(map(abs, moved))
    if alternative == "greater":
        hits = _hits(sums, observed, slack, is_mid)
    else:
        hits = float(sum(abs(s) >= abs(observed) - slack for s in sums))
    return share(hits, len(columns[0]), is_exact)


def paired_test(
    a: Sequence[float],
    b: Sequence[float],
    alternative: Alternative = "greater",
    *,
    groups: Groups | None = None,
    is_mid: bool = False,
) -> float:
    """Return p of "b is better than a" on the same rows: exact McNemar for 0/1 scores, else sign flips.

    Args:
        a: Scores.
        b: Other scores of the same rows. No rows give 1.0.
        alternative: `greater`, or `two-sided`.
        groups: Signs are turned by whole groups, as in `sign_flip_test`; for 0/1 scores all sign patterns are
            counted, of however many groups. All rows in one group are one difference: never below 0.5, or 1
            for `two-sided`.
        is_mid: As in `mcnemar_exact`.

    Raises:
        ValueError: If the lengths differ.
    """
    check_lengths(a, b)
    differences = [y - x for x, y in zip(a, b, strict=True)]
    if not (is_binary(a) and is_binary(b)):
        return sign_flip_test(differences, alternative, groups=groups, is_mid=is_mid)
    sums = [round(d) for d in _of_groups(differences, members(groups, len(a))) if d]
    if all(abs(d) == 1 for d in sums):
        fixed = sums.count(1)
        return mcnemar_exact(fixed, len(sums) - fixed, alternative, is_mid=is_mid)
    if len(sums) * sum(map(abs, sums)) > _MOST_ADDITIONS:
        return sign_flip_test(sums, alternative, is_mid=is_mid)
    return _exact_flips(sums, alternative, is_mid=is_mid)


def combine_inverse_normal(p_values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Return one one-sided p of several stages on different rows, whatever the earlier stages decided.

    A stage with p = 1 makes the whole 1. Source: Lehmacher & Wassmer 1999, Biometrics 55:1286.

    Args:
        p_values: Of each stage, in [0, 1].
        weights: At least 0, fixed before the stages are seen (the square root of the planned rows is usual);
            equal by default.

    Raises:
        ValueError: For no p-values or no weight.
    """
    chosen = [1.0] * len(p_values) if weights is None else list(weights)
    check_lengths(p_values, chosen)
    if not any(chosen) or any(w < 0 for w in chosen) or not all(0 <= p <= 1 for p in p_values):
        raise ValueError("expected p-values in [0, 1] and weights of at least 0, one of them above 0")
    counted = [(p, w) for p, w in zip(p_values, chosen, strict=True) if w]
    for end in (1.0, 0.0):
        if any(p == end for p, _ in counted):
            return end
    z = sum(-w * NORMAL.inv_cdf(p) for p, w in counted) / math.sqrt(sum(w * w for _, w in counted))
    return 0.5 * math.erfc(z / math.sqrt(2))


def many_to_one(p_value: float, count: float, correlation: float) -> float:
    """Return the one-sided p of the best of `count` candidates, each compared with the same control.

    By normal approximation.

    Args:
        p_value: Its own, as if it had been the only one.
        count: At least 1; need not be whole.
        correlation: Of two of these comparisons if nobody is better, in [0, 1): 0.5 if all scores scatter
            alike and only the control is shared (Dunnett 1955, JASA 50:1096); 0 is the correction of Sidak
            1967.

    Raises:
        ValueError: For numbers outside these.
    """
    if not (0 <= p_value <= 1 and count >= 1 and 0 <= correlation < 1):
        raise ValueError("expected a p-value in [0, 1], a count of at least 1, a correlation in [0, 1)")
    if not 0 < p_value < 1 or count == 1:
        return p_value
    if not correlation:
        return -math.expm1(count * math.log1p(-p_value))
    ahead, shared, own = NORMAL.inv_cdf(p_value), math.sqrt(correlation), math.sqrt(1 - correlation)
    total = 0.0
    for luck in _LUCKS:  # of the control
        chance = NORMAL.cdf((ahead + shared * luck) / own)
        best = -math.expm1(count * math.log1p(-chance)) if chance < 1 else 1.0
        total += NORMAL.pdf(luck) * best
    return max(p_value, min(1.0, total * _LUCK_STEP))


def _of_groups(differences: Sequence[float], together: Sequence[Sequence[int]] | None) -> list[float]:
    """Return the sum of each group's differences, or each row's; 0 if only rounding keeps it from 0."""
    if together is None:
        return [difference(found, 0.0) for found in differences]
    return [difference(math.fsum(differences[row] for row in rows), 0.0) for rows in together]


def _exact_flips(sums: Sequence[int], alternative: Alternative, *, is_mid: bool) -> float:
    """Return the test of `sign_flip_test` over all sign patterns of whole numbers, counted by their sum.

    Source: Pagano & Tritchler 1983, Journal of the American Statistical Association 78:435.
    """
    _check_mid(is_mid, alternative)
    ways = [1]  # patterns by the sum of what stays positive
    for size in map(abs, sums):
        more = [0] * size + ways
        ways = [a + b for a, b in zip(ways + [0] * size, more, strict=True)]
    positive = sum(d for d in sums if d > 0)
    start = positive if alternative == "greater" else max(positive, len(ways) - 1 - positive)
    tail = sum(ways[start:])
    if is_mid:
        return (2 * tail - ways[start]) / (1 << (len(sums) + 1))
    p_value = tail / (1 << len(sums))
    return p_value if alternative == "greater" else min(1.0, 2 * p_value)


def _check_mid(is_mid: bool, alternative: Alternative) -> None:
    if is_mid and alternative != "greater":
        raise ValueError("the mid-p is for the one-sided test: alternative='greater'")


def _hits(sums: Sequence[float], observed: float, slack: float, is_mid: bool) -> float:
    """Return how many sums reach what was observed. is_mid: Those that equal it count half."""
    reached = sum(s >= observed - slack for s in sums)
    if not is_mid:
        return float(reached)
    return (reached + sum(s > observed + slack for s in sums)) / 2


def share(hits: float, draws: int, is_exact: bool) -> float:
    """Return hits of draws; of random draws the observed one is counted with them, so it is never 0."""
    return hits / draws if is_exact else (hits + 1) / (draws + 1)


def _sign_columns(n: int, seed: int, resamples: int) -> tuple[list[bytes], bool]:
    """Return sign patterns of n rows, and whether these are all of them.

    Patterns are stored in chunks of 8 rows, a byte for each pattern.
    """
    starts = range(0, n, _CHUNK)
    if n <= _EXACT_UP_TO:
        return [bytes((k >> at) & 0xFF for k in range(2**n)) for at in starts], True
    rng = Random(seed)
    return [rng.randbytes(resamples) for _ in starts], False


def _signed_sums(values: Sequence[float], columns: Sequence[bytes]) -> list[float]:
    """Return the sum of the values under every sign pattern; a set bit turns the sign."""
    parts = []
    for chunk, column in enumerate(columns):
        table = [0.0]
        for value in values[chunk * _CHUNK : (chunk + 1) * _CHUNK]:
            table = [s + value for s in table] + [s - value for s in table]
        table *= 256 // len(table)  # bits beyond the last row mean nothing
        parts.append(map(table.__getitem__, column))
    return list(map(sum, zip(*parts, strict=True)))
