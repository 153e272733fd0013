"""Which row goes into which part: stratified, whole groups, from the rows' content alone.

Rows are ordered by a hash of seed and input, never by their place in the file, and each stratum is cut in
that order: first test, then val, then train. So a shuffled file gives the same split, added rows move only
those at the two cuts, and a row that crosses a cut does not pass between train and test directly.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from autoprompt.dataset.checks import content_key
from autoprompt.types import Example

Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows that stay together: a group, or one row."""

    order: str
    rows: tuple[Example, ...]


def in_hash_order(examples: Sequence[Example], seed: int) -> list[Example]:
    """The rows in an order that depends on seed and content alone."""
    return sorted(examples, key=lambda example: _hash(seed, f"row:{content_key(example.input)}"))


def assign(
    examples: Sequence[Example], sizes: Counts, caps: Counts, seed: int, *, by_target: bool
) -> tuple[list[Example], list[Example], list[Example]]:
    """The rows of test, val and the rest, each in hash order.

    sizes: rows wanted in each, summing to all rows. Met exactly without groups, and every stratum's share is
    then met within one row; with groups they are met as near as whole groups allow, never over `caps`.
    by_target: stratify by target (a group by its most frequent one).
    """
    strata = _strata(examples, seed, by_target)
    rows_of = {name: sum(len(unit.rows) for unit in units) for name, units in strata.items()}
    quota = quotas(rows_of, sizes)
    parts: tuple[list[_Unit], list[_Unit], list[_Unit]] = ([], [], [])
    room = [0, 0]
    free = [caps[0], caps[1]]
    for name in sorted(strata):
        # What whole groups left over or overdrew in one stratum is made good in the next.
        room = [room[0] + quota[name][0], room[1] + quota[name][1]]
        for unit in strata[name]:
            part = next((p for p in (0, 1) if len(unit.rows) < 2 * room[p] and len(unit.rows) <= free[p]), 2)
            parts[part].append(unit)
            if part < 2:
                room[part] -= len(unit.rows)
                free[part] -= len(unit.rows)
    _fill_empty(parts, sizes, caps)
    test, val, rest = (in_hash_order([row for unit in part for row in unit.rows], seed) for part in parts)
    return test, val, rest


def quotas(strata: Mapping[str, int], totals: Counts) -> dict[str, Counts]:
    """Rows of each stratum in each part: the sums are exact and no cell is a whole row off its exact share.

    Controlled rounding (Cox 1987): all cells start at the floor of their exact share; each stratum's missing
    rows go to the parts with the largest remainders for which the strata after it can still be served. With
    three columns the Gale-Ryser condition for that is only that no column needs more than one row of each.
    """
    total = sum(totals)
    floors = {name: [size * part // total for part in totals] for name, size in strata.items()}
    left = [part - sum(floor[i] for floor in floors.values()) for i, part in enumerate(totals)]
    open_strata = sorted(
        (name for name, size in strata.items() if size > sum(floors[name])),
        key=lambda name: (strata[name], name),
    )
    for index, name in enumerate(open_strata):
        remainders = [strata[name] * part % total for part in totals]
        after = len(open_strata) - index - 1
        choices = combinations(range(3), strata[name] - sum(floors[name]))
        for choice in sorted(choices, key=lambda chosen: -sum(remainders[i] for i in chosen)):
            if all(0 <= left[i] - (i in choice) <= after for i in range(3)):
                break
        for i in choice:
            floors[name][i] += 1
            left[i] -= 1
    return {name: (floor[0], floor[1], floor[2]) for name, floor in floors.items()}


def _strata(examples: Sequence[Example], seed: int, by_target: bool) -> dict[str, list[_Unit]]:
    groups: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        single = f"row:{content_key(example.input)}"
        groups[single if example.group is None else f"group:{example.group}"].append(example)
    strata: dict[str, list[_Unit]] = defaultdict(list)
    for key, rows in groups.items():
        stratum = ""
        if by_target:
            counts = Counter(row.target for row in rows)
            stratum = min(counts, key=lambda target: (-counts[target], target))
        strata[stratum].append(_Unit(_hash(seed, key), tuple(rows)))
    for units in strata.values():
        units.sort(key=lambda unit: unit.order)
    return strata


def _fill_empty(parts: tuple[list[_Unit], list[_Unit], list[_Unit]], sizes: Counts, caps: Counts) -> None:
    """A part that large groups left empty gets the smallest group of the part with the most groups."""
    for i in range(3):
        if sizes[i] and not parts[i]:
            giver = max(parts, key=len)
            smallest = min(giver, key=lambda unit: (len(unit.rows), unit.order))
            if len(giver) > 1 and len(smallest.rows) <= caps[i]:
                giver.remove(smallest)
                parts[i].append(smallest)


def _hash(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()
