"""Choosing demonstrations from train: balanced over labels, near what goes wrong, varied around what works.

Measured on the embedded model (clickbait, 100 unseen rows, demonstrations as chat turns): none 0.54; 8:
0.67-0.83 by draw; 16: 0.85-0.96. Six kinds of question, 50 rows: 16 0.54, 48 0.72, 96 0.84. Subjectivity, 50
rows, 48 demonstrations: as many of both labels 0.64, with 42 of the answers one label; two thirds of the
neglected label 0.74. Which ones matters as much as how many, so candidates differ in both. Rows that have
chosen a winner were tried as further demonstrations for it, 150 unseen rows: question types 0.82 with 68,
0.79 with 108, intents 0.81 and 0.83, subjectivity 0.79 and 0.80 (88): not worth their tokens.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from autoprompt.records import Candidate, Demo, Example, text_of

# In the order in which a first round tries them.
SIZES = (16, 64, 32, 96, 48, 128)
# The same where no prompt is written, and fewer sets are tried: two small ones, which differ by draw and cost
# least. Simulated, 128 in place of the second one finds as much, at 1.05 to 1.5 times the tokens.
LARGER = (16, 64, 32, 96, 16, 48)
# Of a set, this share is common to all sets of a round. llama.cpp keeps the rest of a prompt that it leaves
# where that is more than half, and else forgets it.
SHARED = 0.375
BLOCK = 8
SHIFT = (
    0.5  # how far the shares of labels follow answers that lean to one side: 1 overshot (2.2:1, not 4.8:1)
)


def to_demo(
    example: Example,
    outputs: Mapping[str, str] | None = None,
    names: Collection[str] = (),
    input_field: str = "input",
) -> Demo:
    """Return a worked example from a row.

    outputs: row id -> the model's own right answer, which replaces the target. names: of the fields that the
    prompt asks for; `input_field` is held as the input, where it is all of it.
    """
    answer = (outputs or {}).get(example.id, example.target_text)
    if example.turns and input_field not in names:
        names = ()  # the system message has the values of the row that is asked
    fields = {name: text_of(example.fields[name]) for name in names}
    if example.turns or fields.get(input_field) == example.input_text:
        fields.pop(input_field, None)
    return Demo(example.input_text, answer, example.id, fields=fields, turns=example.turns)


def balanced(examples: Sequence[Example], size: int, rng: random.Random) -> list[Example]:
    """Return up to `size` rows, as even over the targets as the rows allow, in random order.

    Targets take turns until `size` is reached or none is left; a rare target gives all it has. With free-text
    targets (all different) this is a plain random draw.
    """
    by_target: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_target[example.target_text].append(example)
    queues = [by_target[target] for target in sorted(by_target)]
    for queue in queues:
        rng.shuffle(queue)
    rng.shuffle(queues)
    chosen: list[Example] = []
    while len(chosen) < size and queues:
        chosen += [queue.pop() for queue in queues[: size - len(chosen)]]
        queues = [queue for queue in queues if queue]  # free text leaves thousands of empty ones behind
    rng.shuffle(chosen)
    return chosen


def with_errors(
    examples: Sequence[Example], wrong_ids: Collection[str], size: int, rng: random.Random
) -> list[Example]:
    """Return a balanced set of which up to half are rows that the model gets wrong now."""
    wrong = [e for e in examples if e.id in wrong_ids]
    hard = balanced(wrong, size // 2, rng)
    chosen = [*hard, *_filling(examples, hard, size, rng)]
    rng.shuffle(chosen)
    return chosen


def beginning(examples: Sequence[Example], size: int, rng: random.Random) -> list[Example]:
    """Up to `size` rows so ordered that every beginning is about balanced: block by block, each in random
    order."""
    order: list[Example] = []
    while len(order) < min(size, len(examples)):
        order += _filling(examples, order, min(size, len(order) + BLOCK), rng)
    return order


def begun(
    examples: Sequence[Example], size: int, common: Sequence[Example], rng: random.Random
) -> list[Example]:
    """Return a balanced set whose first rows are those of `common` (see `beginning`).

    A model that keeps what it has read of a prompt then reads them once for all sets of a round.

    Where a label would all but run out in the beginning the set is `balanced` and no more: the last
    demonstrations weigh most.
    """
    shared = list(common[: int(size * SHARED)])
    rest = _filling(examples, shared, size, rng)
    whole = [*shared, *rest]
    return whole if is_spread(whole, len(shared)) else balanced(examples, size, rng)


def is_spread(rows: Sequence[Example], edge: int) -> bool:
    """Return whether each label has at least half of its share of the rows in those from `edge` on, too."""
    last = Counter(row.target_text for row in rows[edge:])
    return all(
        2 * last[label] * len(rows) >= count * (len(rows) - edge)
        for label, count in Counter(row.target_text for row in rows).items()
        if count > 1
    )


def _filling(
    examples: Sequence[Example], chosen: Sequence[Example], size: int, rng: random.Random
) -> list[Example]:
    """Return rows that make a set of `size` out of `chosen`, in random order, of labels with too few."""
    taken = {e.id for e in chosen}
    counts = Counter(e.target_text for e in chosen)
    rest = balanced([e for e in examples if e.id not in taken], len(examples), rng)
    places: dict[str, list[int]] = defaultdict(list)  # in `rest`, the first one last
    for place in range(len(rest) - 1, -1, -1):
        places[rest[place].target_text].append(place)
    # Of the targets with the lowest count, the one whose next row comes first.
    turns = [(counts[target], queue[-1]) for target, queue in places.items()]
    heapify(turns)
    added: list[Example] = []
    while turns and len(chosen) + len(added) < size:
        count, place = turns[0]
        added.append(rest[place])
        queue = places[rest[place].target_text]
        queue.pop()
        if queue:
            heapreplace(turns, (count + 1, queue[-1]))
        else:
            heappop(turns)
    rng.shuffle(added)
    return added


def varied(
    examples: Sequence[Example],
    current: Sequence[str],
    rng: random.Random,
    share: float = 0.25,
    *,
    is_free: bool = False,
) -> list[Example]:
    """Return the current set (row ids) with about `share` of it exchanged, each for a row of the same target.

    is_free: the targets are no labels, so any other row will do. Order is drawn anew: the last demonstrations
    weigh most, and which they are is part of the search.
    """
    by_id = {e.id: e for e in examples}
    kept = [by_id[i] for i in current if i in by_id]
    for place in rng.sample(range(len(kept)), max(1, round(len(kept) * share))) if kept else []:
        taken = {e.id for e in kept}
        target = kept[place].target_text
        others = [e for e in examples if e.id not in taken and (is_free or e.target_text == target)]
        if others:
            kept[place] = rng.choice(others)
    rng.shuffle(kept)
    return kept


def rebalanced(
    examples: Sequence[Example],
    current: Sequence[str],
    answered: Mapping[str, int],
    expected: Mapping[str, int],
    rng: random.Random,
) -> list[Example]:
    """Return the set (row ids), of the same size, with more of the labels that are answered too seldom.

    answered, expected: label -> how often it was answered, and was right, on the same rows. As few rows are
    exchanged as it takes; a label with too few rows in `examples` gives all it has. Order is drawn anew.
    """
    by_id = {e.id: e for e in examples}
    shown = [by_id[i] for i in current if i in by_id]
    counts = Counter(e.target_text for e in shown)
    labels = sorted({e.target_text for e in examples})
    weights = {
        label: max(counts[label], 1) * ((expected.get(label, 0) + 1) / (answered.get(label, 0) + 1)) ** SHIFT
        for label in labels
    }
    available = Counter(e.target_text for e in examples)
    wanted = _apportioned(weights, len(shown), available)
    chosen: list[Example] = []
    for label in labels:
        kept = [e for e in shown if e.target_text == label]
        taken = {e.id for e in kept}
        more = [e for e in examples if e.target_text == label and e.id not in taken]
        rng.shuffle(kept)
        rng.shuffle(more)
        chosen += [*kept, *more][: wanted[label]]
    rng.shuffle(chosen)
    return chosen


def _apportioned(weights: Mapping[str, float], size: int, most: Mapping[str, int]) -> dict[str, int]:
    """`size` places shared out by `weights`, one by one to who is furthest behind; at most `most` of each."""
    shares = dict.fromkeys(weights, 0)
    for _ in range(size):
        open_ = [label for label in sorted(weights) if shares[label] < most[label]]
        if not open_:
            break
        label = min(open_, key=lambda name: (shares[name] + 0.5) / weights[name])
        shares[label] += 1
    return shares


def part(demos: Sequence[Demo], divisor: int) -> tuple[Demo, ...]:
    """Return the last of them, one in `divisor`, each answer by its share; all if answers differ.

    The last demonstrations weigh most: on the embedded model the last 32 of 122 kept 0.875 of 0.925 (question
    types, 40 rows), where 32 chosen to cover each label had 0.825 and 16 drawn anew 0.59.
    """
    size = len(demos) // divisor
    counts = Counter(demo.output for demo in demos)
    if 2 * len(counts) > len(demos):
        return tuple(demos[len(demos) - size :])
    wanted = _apportioned(counts, size, counts)
    kept: list[Demo] = []
    for demo in reversed(demos):
        if wanted[demo.output] > 0:
            wanted[demo.output] -= 1
            kept.append(demo)
    return tuple(reversed(kept))


def lean(answered: Mapping[str, int], expected: Mapping[str, int]) -> float:
    """Return how far the answers lean: the share of them that would have to be another label, in [0, 1]."""
    total = sum(expected.values())
    if not total or not sum(answered.values()):
        return 0.0
    scale = total / sum(answered.values())
    apart = sum(abs(answered.get(k, 0) * scale - expected.get(k, 0)) for k in {*answered, *expected})
    return min(1.0, apart / 2 / total)  # a sum of fractions may come out a hair above


def asking_order(candidates: Sequence[Candidate]) -> list[int]:
    """Places of the candidates in the order in which they are asked: prompts that begin alike one after the
    other, of these the one with the most demonstrations first; else as they come.

    llama.cpp goes back to the beginning that two prompts share, and keeps the rest of the first one only
    where that is the larger part of it. From the short to the long it would read the rest of the long one
    again each time.
    """
    families: dict[Hashable, list[int]] = {}
    for place, candidate in enumerate(candidates):
        families.setdefault(_beginning(candidate, place), []).append(place)
    return [
        place
        for family in families.values()
        for place in sorted(family, key=lambda p: -len(candidates[p].demos))
    ]


def _beginning(candidate: Candidate, place: int) -> Hashable:
    """Equal for prompts that share at least a demonstration."""
    if not candidate.demos:
        return place
    first = candidate.demos[0]
    texts = tuple(sorted(candidate.components.items()))
    return texts, first.component, first.input, first.output
