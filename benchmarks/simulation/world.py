"""What is true in a simulated task: chances of a right answer, by the prompt and the demonstrations."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from autoprompt.dataset.splits import Splits
from autoprompt.records import Example
from autoprompt.text.answers.reasoning import asks_to_reason

LABELS = ("A", "B")
RULES = tuple(f"rule{n}" for n in range(6))
HARMS = tuple(f"myth{n}" for n in range(4))
FILLERS = ("be careful", "think well", "be precise", "read it twice", "take your time", "stay calm")


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
    varies with which they are. reason_gain: what reasoning before the answer adds. noise: share of the rows
    whose luck a sentence, or a set of demonstrations, draws anew. good, harmful: chances of a proposal that
    states a rule, or a myth.
    """

    name: str
    base: float
    rule_gain: float
    harm: float
    demo_gain: float
    demo_spread: float
    demo_full: int = 16
    demo_power: float = 1.0
    reason_gain: float = 0.0
    noise: float = 0.4
    good: float = 0.35
    harmful: float = 0.3
    rules: tuple[str, ...] = RULES

    def chance(self, row: int, text: str, demos: Iterable[str]) -> float:
        needed = self.rules[row % len(self.rules)]
        chance = self.base + (self.rule_gain if needed in text else 0.0)
        chance -= self.harm * sum(h in text for h in HARMS)
        if asks_to_reason(text):
            chance += self.reason_gain
        shown = sorted(demos)
        if shown:
            luck = 2 * unit(self.name, "demos", *shown) - 1
            share = min(1.0, len(shown) / self.demo_full) ** self.demo_power
            chance += self.demo_gain * share + self.demo_spread * luck
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
        luckless = [self.chance(row, text, shown) for row in range(len(self.rules))]
        return statistics.fmean(luckless)


WORLDS = {
    w.name: w
    for w in (
        World(
            "instructions",
            base=0.55,
            rule_gain=0.40,
            harm=0.12,
            demo_gain=0.02,
            demo_spread=0.04,
            rules=RULES[:3],
        ),
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
        # Demonstrations are worth nothing: a winner that shows some wastes their tokens.
        World(
            "worthless",
            base=0.55,
            rule_gain=0.40,
            harm=0.12,
            demo_gain=0.0,
            demo_spread=0.0,
            rules=RULES[:3],
        ),
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
    )
}


def make_rows(world: World, seed: int, sizes: dict[str, int]) -> Splits:
    """Rows whose number is their hidden nature; every seed draws others."""
    rng = random.Random(f"{world.name}/{seed}")
    numbers = rng.sample(range(10**6), sum(sizes.values()))
    rows = [Example(f"r{n}", f"item {n}", LABELS[n % 7 % 2], {"input": f"item {n}"}) for n in numbers]
    cut = [0, sizes["train"], sizes["train"] + sizes["val"], len(rows)]
    train, val, test = (tuple(rows[a:b]) for a, b in itertools.pairwise(cut))
    return Splits(train, val, test, LABELS, 0, {}, "", {})
