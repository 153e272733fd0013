"""Choosing demonstrations from train: balanced over labels, near what goes wrong, varied around what works.

Measured on the embedded model (clickbait, 100 unseen rows, demonstrations as chat turns): none 0.54; 8:
0.67-0.83 by draw; 16: 0.85-0.96. Which ones matters as much as how many, so candidates differ in both.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from autoprompt.types import Demo, Example

# In the order in which a first round tries them.
SIZES = (16, 32, 16, 32, 8)


def to_demo(example: Example, outputs: Mapping[str, str] | None = None) -> Demo:
    """A worked example from a row; `outputs` (row id -> the model's own right answer) replaces the target."""
    return Demo(example.input, (outputs or {}).get(example.id, example.target), example.id)


def balanced(examples: Sequence[Example], size: int, rng: random.Random) -> list[Example]:
    """Up to `size` rows, as even over the targets as the rows allow, in random order.

    Targets take turns until `size` is reached or none is left; a rare target gives all it has. With free-text
    targets (all different) this is a plain random draw.
    """
    by_target: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_target[example.target].append(example)
    queues = [by_target[target] for target in sorted(by_target)]
    for queue in queues:
        rng.shuffle(queue)
    rng.shuffle(queues)
    chosen: list[Example] = []
    while len(chosen) < size and any(queues):
        for queue in queues:
            if queue and len(chosen) < size:
                chosen.append(queue.pop())
    rng.shuffle(chosen)
    return chosen


def with_errors(
    examples: Sequence[Example], wrong_ids: Collection[str], size: int, rng: random.Random
) -> list[Example]:
    """A balanced set of which up to half are rows that the model gets wrong now."""
    wrong = [e for e in examples if e.id in wrong_ids]
    hard = balanced(wrong, size // 2, rng)
    taken = {e.id for e in hard}
    counts = Counter(e.target for e in hard)
    rest = balanced([e for e in examples if e.id not in taken], len(examples), rng)
    chosen = list(hard)
    while rest and len(chosen) < size:
        # The rest fills the labels that the errors left short, so that the set stays balanced.
        place = min(range(len(rest)), key=lambda i: counts[rest[i].target])
        counts[rest[place].target] += 1
        chosen.append(rest.pop(place))
    rng.shuffle(chosen)
    return chosen


def varied(
    examples: Sequence[Example], current: Sequence[str], rng: random.Random, share: float = 0.25
) -> list[Example]:
    """The current set (row ids) with about `share` of it exchanged, each for a row of the same target.

    Order is drawn anew: the last demonstrations weigh most, and which they are is part of the search.
    """
    by_id = {e.id: e for e in examples}
    kept = [by_id[i] for i in current if i in by_id]
    for place in rng.sample(range(len(kept)), max(1, round(len(kept) * share))) if kept else []:
        taken = {e.id for e in kept}
        others = [e for e in examples if e.target == kept[place].target and e.id not in taken]
        if others:
            kept[place] = rng.choice(others)
    rng.shuffle(kept)
    return kept
