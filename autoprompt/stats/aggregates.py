"""Figures of all rows together, such as macro F1, and what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from autoprompt.stats.groups import Groups, effective_groups, members
from autoprompt.stats.intervals import Interval, expanded_interval, percentile_interval
from autoprompt.stats.paired import Alternative, share
from autoprompt.stats.values import TIE, check_lengths

_FEW_GROUPS = 5


def aggregate_draws(
    predictions: Sequence[str],
    targets: Sequence[str],
    statistic: Callable[[Sequence[str], Sequence[str]], float],
    *,
    groups: Groups | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> list[float]:
    """The statistic of all rows together over bootstrap draws of the rows, or of whole groups.

    The same seed draws the same rows: the draws of two sides on the same targets are paired.
    """
    check_lengths(predictions, targets)
    together = members(groups, len(targets)) or [[row] for row in range(len(targets))]
    rng = Random(seed)
    draws = []
    for _ in range(resamples):
        places = [row for rows in rng.choices(together, k=len(together)) for row in rows]
        draws.append(statistic([predictions[i] for i in places], [targets[i] for i in places]))
    return draws


def aggregate_interval(
    predictions: Sequence[str],
    targets: Sequence[str],
    statistic: Callable[[Sequence[str], Sequence[str]], float],
    *,
    groups: Groups | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Interval:
    """Where the true value of a figure of all rows together lies, such as macro F1; (0, 1) for no rows.

    95%, by the percentile bootstrap of the rows; too narrow under some 20 rows, as in `mean_interval`.
    groups: as in `draws_interval`.
    """
    if not targets:
        return Interval(0.0, 1.0)
    draws = aggregate_draws(predictions, targets, statistic, groups=groups, seed=seed, resamples=resamples)
    return draws_interval(draws, Interval(0.0, 1.0), groups)


def draws_interval(draws: Sequence[float], bounds: Interval, groups: Groups | None = None) -> Interval:
    """95% of a figure from its `aggregate_draws`, or of the difference of two sides' from theirs.

    groups: those that were drawn. Of few of them the percentiles are wider; draws of under five say nothing
    of a figure that is no mean, so that it may be anywhere within `bounds`.
    """
    together = None if groups is None else members(groups, len(groups))
    if together is None:
        return percentile_interval(draws)
    if effective_groups(together) < _FEW_GROUPS:
        return bounds
    return expanded_interval(draws, together)


def permutation_aggregate(
    a: Sequence[str],
    b: Sequence[str],
    targets: Sequence[str],
    statistic: Callable[[Sequence[str], Sequence[str]], float],
    *,
    alternative: Alternative = "greater",
    groups: Groups | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> float:
    """p of "b has the higher statistic" for a figure of all rows together, such as macro F1.

    statistic(predictions, targets), higher is better. The two answers of a row are exchanged at random, of
    groups those of all their rows at once; exact where at most `resamples` exchanges exist. Costs two
    statistics a draw: 0.2 s for macro F1 of 500 rows.
    Source: Noreen 1989 (approximate randomization); Yeh 2000 for F scores.
    """
    check_lengths(a, b)
    check_lengths(a, targets)
    together = members(groups, len(targets)) or [[row] for row in range(len(targets))]
    changed = [rows for rows in together if any(a[row] != b[row] for row in rows)]
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
        for bit, rows in enumerate(changed):
            if pattern >> bit & 1:
                for i in rows:
                    first[i], second[i] = second[i], first[i]
        drawn = gain(first, second)
        hits += drawn >= observed - TIE if alternative == "greater" else abs(drawn) >= abs(observed) - TIE
        total += 1
    return share(hits, total, is_exact)


def macro_f1(predictions: Sequence[str], targets: Sequence[str]) -> float:
    """Mean F1 of the classes that occur in `targets`, in [0, 1]; 0.0 for no rows.

    An answer that is no class of the targets (an unparsed one) counts as missed and is no class of its own.
    """
    check_lengths(predictions, targets)
    if not targets:
        return 0.0
    expected, answered = Counter(targets), Counter(predictions)
    hits = Counter(t for p, t in zip(predictions, targets, strict=True) if p == t)
    return sum(2 * hits[c] / (expected[c] + answered[c]) for c in expected) / len(expected)
