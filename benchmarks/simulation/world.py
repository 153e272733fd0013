"""What is true in a simulated task: chances of a right answer, by the prompt and the demonstrations."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoprompt.dataset.splits import Splits
from autoprompt.records import Example
from autoprompt.text.answers.reasoning import asks_to_reason

LABELS = ("A", "B")
SIDES = ("A1", "A2", "B1", "B2", "C1", "C2", "D1", "D2")  # labels of which two each are taken for each other
RULES = tuple(f"rule{n}" for n in range(6))
HARMS = tuple(f"myth{n}" for n in range(4))
FILLERS = ("be careful", "think well", "be precise", "read it twice", "take your time", "stay calm")
BOTH_SIDES = 2  # rows of each side of a boundary that show it


def unit(*key: object) -> float:
    """A fixed draw from [0, 1) for a key."""
    digest = hashlib.blake2b("|".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class World:
    """What is true.

    base: chance of a right answer with no rule stated. rule_gain: what a stated rule adds on the rows that it
    is about (each row needs one rule). harm: what each myth takes. demo_gain: what `demo_full` demonstrations
    add on average, and fewer by their share of it to the power `demo_power`; demo_spread: how much that
    varies with which 16 they are, and less with more by the power `demo_fade` of their number. reason_gain:
    what reasoning before the answer adds. noise: share of the rows whose luck a sentence, or a set of
    demonstrations, draws anew. good, harmful: chances of a proposal that states a rule, or a myth.

    insight: chance that an author understands the rule of a row that it is shown with its right answer, among
    ten rows at most; None: it writes the same whatever it is shown. With it, `harmful` is the chance that an
    author misunderstands a row that it understands something of.
    is_told: the feedback on a wrong row names its rule.
    """

    name: str
    base: float
    rule_gain: float
    harm: float
    demo_gain: float
    demo_spread: float
    demo_full: int = 16
    demo_power: float = 1.0
    demo_fade: float = 0.0
    reason_gain: float = 0.0
    noise: float = 0.4
    good: float = 0.35
    harmful: float = 0.3
    rules: tuple[str, ...] = RULES
    labels: tuple[str, ...] = LABELS
    insight: float | None = None
    is_told: bool = False

    def target(self, row: int) -> str:
        return self.labels[row % 7 % 2]

    def mistake(self, row: int) -> str:
        """What is answered if the row is answered wrong."""
        place = self.labels.index(self.target(row))
        return self.labels[place + 1 - 2 * (place % 2)]

    def rule_of(self, row: int) -> str:
        return self.rules[row % len(self.rules)]

    def lesson(self, row: int, shown: Collection[int]) -> str:
        """What an author learns from a row that it understands. shown: all rows that it is shown."""
        return self.rule_of(row)

    @property
    def natures(self) -> range:
        """Rows of every kind, each once."""
        return range(len(self.rules))

    def gained(self, row: int, text: str, shown: Sequence[str]) -> float:
        """What the rules in a prompt add to the chance of a row."""
        return self.rule_gain if self.rule_of(row) in text else 0.0

    def chance(self, row: int, text: str, demos: Iterable[str]) -> float:
        shown = sorted(demos)
        chance = self.base + self.gained(row, text, shown)
        chance -= self.harm * sum(h in text for h in HARMS)
        if asks_to_reason(text):
            chance += self.reason_gain
        if shown:
            luck = 2 * unit(self.name, "demos", *shown) - 1
            share = min(1.0, len(shown) / self.demo_full) ** self.demo_power
            spread = self.demo_spread * (16 / len(shown)) ** self.demo_fade
            chance += self.demo_gain * share + spread * luck
        return min(1.0, max(0.0, chance))

    def is_right(self, row: int, text: str, demos: tuple[str, ...]) -> bool:
        return self.luck(row, text, demos) < self.chance(row, text, demos)

    def luck(self, row: int, text: str, demos: tuple[str, ...]) -> float:
        """Inherited: each sentence draws it anew for a share `noise` of the rows, the others keep theirs.

        So a lucky parent has lucky children, and luck on the raced rows adds up over the rounds.
        """
        luck = unit(self.name, "row", row)
        parts = [part for part in re.split(r"(?<=[.!?])\s+|\n+", text.strip()) if part]
        for part in [*parts, "|".join(sorted(demos))]:
            if part and unit(self.name, "touched", row, part) < self.noise:
                luck = unit(self.name, "drawn", row, part)
        return luck

    def accuracy(self, text: str, demos: Iterable[str]) -> float:
        """The true accuracy: the mean chance over the population."""
        shown = tuple(demos)
        return statistics.fmean(self.chance(row, text, shown) for row in self.natures)


@dataclass(frozen=True)
class Interacting(World):
    """Rules are exceptions of each other: one alone spoils in its partner's rows half of what it gains."""

    def gained(self, row: int, text: str, shown: Sequence[str]) -> float:
        place = row % len(self.rules)
        own, partner = self.rules[place] in text, self.rules[place ^ 1] in text
        if own and partner:
            return self.rule_gain
        return (own - 0.5 * partner) * self.rule_gain / 2


@dataclass(frozen=True)
class Boundaries(World):
    """Labels that are taken for each other in pairs.

    Only an author who is shown two rows of either side learns the boundary. From one side it learns to lean
    there, which spoils as much on the other side.
    """

    def target(self, row: int) -> str:
        return self.labels[row % len(self.labels)]

    def rule_of(self, row: int) -> str:
        return self.rules[row % len(self.labels) // 2]

    def lesson(self, row: int, shown: Collection[int]) -> str:
        sides = Counter(self.target(other) for other in shown)
        if min(sides[self.target(row)], sides[self.mistake(row)]) >= BOTH_SIDES:
            return self.rule_of(row)
        return f"lean{self.labels.index(self.target(row))}"

    @property
    def natures(self) -> range:
        return range(len(self.labels))

    def gained(self, row: int, text: str, shown: Sequence[str]) -> float:
        if self.rule_of(row) in text:
            return self.rule_gain
        own, other = (
            f"lean{self.labels.index(label)}" in text for label in (self.target(row), self.mistake(row))
        )
        return (own - other) * self.rule_gain / 2


@dataclass(frozen=True)
class Examples(World):
    """Two demonstrations of a rule say as much as its words."""

    def gained(self, row: int, text: str, shown: Sequence[str]) -> float:
        rule = self.rule_of(row)
        alike = sum(self.rule_of(number_of(demo)) == rule for demo in shown)
        return self.rule_gain * max(rule in text, min(1.0, alike / 2))


def number_of(text: str) -> int:
    """The number of the row whose input this is."""
    return int(text.rsplit(" ", 1)[1])


EIGHT = tuple(f"rule{n}" for n in range(8))
_READ: dict[str, Any] = {
    "base": 0.5,
    "rule_gain": 0.4,
    "harm": 0.1,
    "demo_gain": 0.0,
    "demo_spread": 0.04,
    "insight": 0.3,
    "harmful": 0.2,
    "rules": EIGHT,
}
_INSTRUCTIONS = World(
    "instructions", base=0.55, rule_gain=0.40, harm=0.12, demo_gain=0.02, demo_spread=0.04, rules=RULES[:3]
)

WORLDS = {
    w.name: w
    for w in (
        _INSTRUCTIONS,
        World("demonstrations", base=0.55, rule_gain=0.06, harm=0.12, demo_gain=0.22, demo_spread=0.10),
        # Question types on the embedded model: 0.36 with none, 0.54 with 16, 0.72 with 48, 0.84 with 96.
        World(
            "many",
            base=0.36,
            rule_gain=0.10,
            harm=0.12,
            demo_gain=0.48,
            demo_spread=0.05,
            demo_full=96,
            demo_power=0.5,
        ),
        # About headlines on the embedded model: 0.54 without, 8 have 0.67 to 0.83 by draw, 16 0.85 to 0.96.
        World(
            "draws",
            base=0.54,
            rule_gain=0.06,
            harm=0.12,
            demo_gain=0.37,
            demo_spread=0.055,
            demo_fade=0.5,
        ),
        # Demonstrations are worth nothing: a winner that shows some wastes their tokens.
        replace(_INSTRUCTIONS, name="worthless", demo_gain=0.0, demo_spread=0.0),
        World("both", base=0.55, rule_gain=0.22, harm=0.12, demo_gain=0.12, demo_spread=0.06),
        World(
            "reasoning",
            base=0.50,
            rule_gain=0.15,
            harm=0.12,
            demo_gain=0.05,
            demo_spread=0.04,
            reason_gain=0.25,
        ),
        # Nothing helps: whatever is returned but the original was luck.
        World("random", base=0.50, rule_gain=0.0, harm=0.0, demo_gain=0.0, demo_spread=0.0, noise=1.0),
        World("heirs", base=0.50, rule_gain=0.0, harm=0.0, demo_gain=0.0, demo_spread=0.0, noise=0.1),
        World("heirs80", base=0.80, rule_gain=0.0, harm=0.0, demo_gain=0.0, demo_spread=0.0, noise=0.2),
        World("rare", base=0.10, rule_gain=0.0, harm=0.0, demo_gain=0.0, demo_spread=0.0, noise=1.0),
        World("perfect", base=1.0, rule_gain=0.0, harm=0.12, demo_gain=0.0, demo_spread=0.0),
        World("good", base=0.94, rule_gain=0.02, harm=0.12, demo_gain=-0.02, demo_spread=0.03),
        # Authors know what they read: eight rules, of which a summary of the errors has four lines.
        World("shown", **_READ),
        Interacting("interacting", **{**_READ, "rules": EIGHT[:6]}),
        Boundaries("boundaries", **{**_READ, "rules": EIGHT[:4], "labels": SIDES}),
        Examples("examples", **{**_READ, "demo_spread": 0.0}),
        World("told", **{**_READ, "insight": 0.0, "is_told": True}),
        World("untold", **{**_READ, "insight": 0.0}),
    )
}


def make_rows(world: World, seed: int, sizes: dict[str, int]) -> Splits:
    """Rows whose number is their hidden nature; every seed draws others."""
    rng = random.Random(f"{world.name}/{seed}")
    numbers = rng.sample(range(10**6), sum(sizes.values()))
    rows = [Example(f"r{n}", f"item {n}", world.target(n), {"input": f"item {n}"}) for n in numbers]
    cut = [0, sizes["train"], sizes["train"] + sizes["val"], len(rows)]
    train, val, test = (tuple(rows[a:b]) for a, b in itertools.pairwise(cut))
    return Splits(train, val, test, world.labels, 0, {}, "", {})
