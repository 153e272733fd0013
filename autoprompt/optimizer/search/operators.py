"""Which kinds of change a round tries: a portfolio whose shares follow what has worked in this run."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

OperatorName = Literal[
    "patch",
    "rewrite",
    "describe",
    "cues",
    "reason",
    "demos",
    "demos_errors",
    "demos_varied",
    "demos_rebalanced",
    "recall",
    "strip",
    "prune",
]

WRITERS: tuple[OperatorName, ...] = ("patch", "rewrite", "describe")  # each asks a model once
TELLERS: tuple[OperatorName, ...] = ("describe", "cues")
SIMPLIFIERS: tuple[OperatorName, ...] = ("strip", "prune")  # of the best, once the search has ended
# Of each of these in a round: a third description has little new to tell of the same rows. Where the writer
# writes no prompts, words make up for them: they differ by their number as well, see `additions.CUES`.
MOST: dict[OperatorName, int] = {"describe": 2, "cues": 2, "demos_rebalanced": 2, "reason": 1}
MOST_UNWRITTEN: dict[OperatorName, int] = {**MOST, "cues": 3}

# The first round, when nothing is known yet: one of each kind before a second of any. Saying what the answers
# mean and showing demonstrations add up, so most that tell bring demonstrations along (see `drafts`).
# Measured on the embedded model, 50 rows: question types 0.36, with cues 0.44, with 16 demonstrations 0.54,
# with both 0.62.
FIRST: tuple[OperatorName, ...] = (
    "recall",
    "demos",
    "rewrite",
    "cues",
    "reason",
    "describe",
    "demos",
    "patch",
    "recall",
    "describe",
    "demos_errors",
    "demos",
    "cues",
)
# Where the writer writes no prompts. Words are counted and not written, so they cost no call: the first set
# and every other one bring some along (worth 0.04 beside 16 demonstrations: benchmarks/docs/search.md). No
# set of rows that go wrong: it begins unlike the others, so the embedded model would read all of it.
FIRST_UNWRITTEN: tuple[OperatorName, ...] = (
    "recall",
    "cues",
    "demos",
    "cues",
    "reason",
    "describe",
    "demos",
    "cues",
    "demos",
    "demos",
)


@dataclass(frozen=True, slots=True)
class Means:
    """What is possible for the parent of a round.

    writers: proposals that may be asked of the writer model. can_rewrite: of any kind, not descriptions
    alone. has_demos: the parent shows demonstrations.
    can_demo: demonstrations fit the prompt and there are rows for them. recalls: sentences that helped
    before and are not in the parent yet. can_tell: there are rows enough to say what the answers mean;
    has_labels: the answers are labels, whose words can be counted. is_leaning: with its demonstrations
    the parent answers some labels too often. can_reason: the parent answers at once, and could reason first.
    """

    writers: int
    can_demo: bool
    has_demos: bool
    has_errors: bool
    recalls: int = 0
    can_tell: bool = False
    has_labels: bool = False
    is_leaning: bool = False
    can_reason: bool = False
    can_rewrite: bool = True


def record_outcome(tally: Mapping[str, Sequence[int]], operator: str, accepted: bool) -> dict[str, list[int]]:
    """`tally` (operator -> [tried, accepted]; plain data for the state) with one more outcome."""
    updated = {name: list(counts) for name, counts in tally.items()}
    tried, won = updated.get(operator, [0, 0])
    updated[operator] = [tried + 1, won + int(accepted)]
    return updated


def choose_operators(
    number: int, means: Means, tally: Mapping[str, Sequence[int]], rng: random.Random
) -> list[OperatorName]:
    """Return the operators of a round, one for each of `number` candidates.

    Each slot draws by Thompson sampling over the operators' acceptance so far (Beta(1 + accepted, 1 + lost));
    the first round follows FIRST; labels that are answered too often are fixed first, until that has lost
    twice. Writers get at most `means.writers` slots. What lost is drawn less, so a plateau moves on by
    itself: a switch on top of that gained nothing (+0.003 [-0.002, +0.007] in 720 simulated pairs).
    """
    possible = _possible(means)
    if not possible:
        return []
    chosen: list[OperatorName] = []
    left = means.writers
    # All that is to be recalled together, and each alone where there are several.
    recalls = means.recalls + 1 if means.recalls > 1 else means.recalls
    order, most = (FIRST, MOST) if means.can_rewrite else (FIRST_UNWRITTEN, MOST_UNWRITTEN)
    first = deque(o for o in order if o in possible) or deque(possible)
    for slot in range(number):
        options = [
            o
            for o in possible
            if (o not in WRITERS or left > 0)
            and (o != "recall" or recalls > 0)
            and chosen.count(o) < most.get(o, number)
        ]
        if not options:
            break
        if not tally:
            operator = _next(first, options)
        elif slot % 2 == 0 and "demos_rebalanced" in options and _lost(tally, "demos_rebalanced") < 2:
            operator = "demos_rebalanced"
        else:
            operator = max(options, key=lambda o: _draw(tally.get(o, (0, 0)), rng))
        left -= operator in WRITERS
        recalls -= operator == "recall"
        chosen.append(operator)
    return chosen


def _possible(means: Means) -> list[OperatorName]:
    possible: list[OperatorName] = []
    if means.recalls > 0:
        possible.append("recall")
    if means.writers > 0:
        if means.can_rewrite:
            possible += ["rewrite", "patch"]
        if means.can_tell:
            possible.append("describe")
    if means.can_tell and means.has_labels:
        possible.append("cues")
    if means.can_reason:
        possible.append("reason")
    if means.can_demo:
        possible.append("demos")
        if means.has_errors:
            possible.append("demos_errors")
        if means.has_demos:
            possible.append("demos_varied")
            if means.is_leaning:
                possible.append("demos_rebalanced")
    return possible


def _next(order: deque[OperatorName], options: Sequence[OperatorName]) -> OperatorName:
    """Return the next of `order` whose means are not used up; it goes on behind that one."""
    for _ in range(len(order)):
        order.rotate(-1)
        if order[-1] in options:
            return order[-1]
    return options[0]


def _lost(tally: Mapping[str, Sequence[int]], operator: OperatorName) -> int:
    tried, accepted = tally.get(operator, (0, 0))
    return tried - accepted


def _draw(counts: Sequence[int], rng: random.Random) -> float:
    tried, accepted = counts
    return rng.betavariate(1 + accepted, 1 + tried - accepted)
