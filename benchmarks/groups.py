"""Whether tests and intervals keep what they promise where rows belong together, and what they did before.

    python benchmarks/groups.py --draws 1000 --json

Draws tests in which the rows of a group are much alike: with probability 0.8 a prompt answers all rows of a
group alike, else each row by itself (within a group, scores correlate by 0.8). Counts how often two prompts
that are equally good are told apart at 5%, and how often 95% intervals hold the truth: with the groups, and
as if no two rows belonged together. Exit code 1 where the figures with the groups do not keep a bound: at
most 5% told apart by the exact test and by that of graded scores, 6% by the mid-p; at least 93% of the
intervals right, 91% of the bootstrap's under 15 groups. Three standard errors of the simulation are allowed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from workbench import say

from autoprompt import stats

ALIKE = 0.8  # probability that a group is answered as one row
SIZES = {"2": (2,), "5": (5,), "unequal": (1, 1, 1, 2, 3, 5, 12)}  # rows of the groups, again and again
CLASSES = ("a", "b", "c")
_ERRORS = 3  # standard errors; were all 48 figures at their bounds, 15 of 16 runs would find them kept


class Bound(NamedTuple):
    """least, most: of the share, before the simulation's own error."""

    least: float = 0.0
    most: float = 1.0

    def is_kept(self, share: float, draws: int) -> bool:
        if self.least:
            return share >= self.least - _ERRORS * math.sqrt(self.least * (1 - self.least) / draws)
        return share <= self.most + _ERRORS * math.sqrt(self.most * (1 - self.most) / draws)


def group_names(rows: int, sizes: tuple[int, ...]) -> list[str]:
    """The group of each row, the last one cut where the rows end."""
    names: list[str] = []
    while len(names) < rows:
        number = len(set(names))
        names += [f"g{number}"] * sizes[number % len(sizes)]
    return names[:rows]


def draw(groups: list[str], one: Callable[[], float]) -> list[float]:
    """A value of each row, of many groups one for all of their rows."""
    shared = {name: one() if random.random() < ALIKE else None for name in dict.fromkeys(groups)}
    return [one() if (value := shared[name]) is None else value for name in groups]


def right(rate: float) -> Callable[[], float]:
    return lambda: float(random.random() < rate)


def graded() -> float:
    """Mean 0.75, most of them near 1."""
    return random.betavariate(1.5, 0.5)


def is_two_sided(groups: list[str]) -> Iterator[bool]:
    a, b = draw(groups, right(0.7)), draw(groups, right(0.7))
    return (stats.paired_test(a, b, "two-sided", groups=known) < 0.05 for known in (None, groups))


def is_mid(groups: list[str]) -> Iterator[bool]:
    a, b = draw(groups, right(0.7)), draw(groups, right(0.7))
    return (stats.paired_test(a, b, groups=known, is_mid=True) < 0.05 for known in (None, groups))


def is_graded(groups: list[str]) -> Iterator[bool]:
    a, b = draw(groups, graded), draw(groups, graded)
    tests = (stats.paired_test(a, b, "two-sided", groups=known) for known in (None, groups))
    return (p_value < 0.05 for p_value in tests)


def holds(interval: stats.Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def rate_held(groups: list[str]) -> Iterator[bool]:
    values = draw(groups, right(0.8))
    return (holds(stats.mean_interval(values, groups=known), 0.8) for known in (None, groups))


def high_rate_held(groups: list[str]) -> Iterator[bool]:
    values = draw(groups, right(0.95))
    return (holds(stats.mean_interval(values, groups=known), 0.95) for known in (None, groups))


def gain_held(groups: list[str]) -> Iterator[bool]:
    a, b = draw(groups, right(0.6)), draw(groups, right(0.8))
    return (holds(stats.paired_difference_interval(a, b, groups=known), 0.2) for known in (None, groups))


def mean_held(groups: list[str]) -> Iterator[bool]:
    values = draw(groups, graded)
    found = (stats.mean_interval(values, groups=known, resamples=500) for known in (None, groups))
    return (holds(interval, 0.75) for interval in found)


def f1_held(groups: list[str]) -> Iterator[bool]:
    """Three classes, rows of a group of one class and mostly of one answer; each answer right at 0.7."""
    class_of = {name: random.choice(CLASSES) for name in dict.fromkeys(groups)}
    targets = [class_of[name] for name in groups]
    hits, others = draw(groups, right(0.7)), draw(groups, random.random)
    answers = [
        target if hit else [name for name in CLASSES if name != target][int(2 * other)]
        for target, hit, other in zip(targets, hits, others, strict=True)
    ]
    found = (
        stats.aggregate_interval(answers, targets, stats.macro_f1, groups=known, resamples=500)
        for known in (None, groups)
    )
    return (holds(interval, 0.7) for interval in found)


FALSE, FALSE_MID, COVERED, COVERED_BY_DRAWS = Bound(most=0.05), Bound(most=0.06), Bound(0.93), Bound(0.93)
COVERED_BY_FEW = Bound(0.91)
# What is drawn, its bound, and one of how many draws are made: those of the bootstrap take their time.
MEASURES: dict[str, tuple[Callable[[list[str]], Iterator[bool]], Bound, int]] = {
    "told apart, exact, two-sided": (is_two_sided, FALSE, 1),
    "told apart, mid-p, one-sided": (is_mid, FALSE_MID, 1),
    "told apart, graded, two-sided": (is_graded, FALSE, 2),
    "interval of a rate of 0.80": (rate_held, COVERED, 1),
    "interval of a rate of 0.95": (high_rate_held, COVERED, 1),
    "interval of a gain of 0.20": (gain_held, COVERED, 1),
    "interval of a graded mean": (mean_held, COVERED_BY_DRAWS, 2),
    "interval of macro F1": (f1_held, COVERED_BY_DRAWS, 2),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000, help="of each figure; of the bootstrap's half")
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--json", action="store_true", help="the figures as JSON on stdout")
    options = parser.parse_args()
    figures = []
    for rows in options.rows:
        for name, sizes in SIZES.items():
            groups = group_names(rows, sizes)
            number = len(set(groups))
            for measure, (once, bound, part) in MEASURES.items():
                random.seed(f"{rows} {name} {measure}")
                draws = max(1, options.draws // part)
                found = [list(once(groups)) for _ in range(draws)]
                before, now = (sum(side) / draws for side in zip(*found, strict=True))
                limit = COVERED_BY_FEW if bound is COVERED_BY_DRAWS and number < 15 else bound
                is_kept = limit.is_kept(now, draws)
                figures.append(
                    {
                        "rows": rows,
                        "sizes": name,
                        "groups": number,
                        "measure": measure,
                        "as_single_rows": round(before, 3),
                        "with_groups": round(now, 3),
                        "is_kept": is_kept,
                    }
                )
                say(
                    f"{rows} rows, groups of {name} ({number}), {measure}: {before:.3f} as single rows, "
                    f"{now:.3f} with groups{'' if is_kept else ': NOT KEPT'}"
                )
    if options.json:
        print(json.dumps(figures))
    return int(not all(figure["is_kept"] for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
