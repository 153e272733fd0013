"""Which row goes into which part: stratified, whole groups, from the rows' content alone.

Rows are ordered by a hash of seed and input, never by their place in the file, and each stratum is cut in
that order: first test, then val, then train. So a shuffled file gives the same split, added rows move only
those at the two cuts, and a row that crosses a cut does not pass between train and test directly. The cuts
know of no cap: a capped part is some of its region's rows, and the others go nowhere (`take_stratified`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from autoprompt.dataset.checks import content_key
from autoprompt.errors import Place, Problem
from autoprompt.records import Example, Part
from autoprompt.settings.records import DataSettings
from autoprompt.text.names import counted

Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows that stay together: a group, or one row."""

    order: str
    rows: tuple[Example, ...]


def in_hash_order(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return the rows in an order that depends on seed and content alone."""
    return sorted(examples, key=lambda example: _hash(seed, f"row:{content_key(example.content)}"))


def take_stratified(examples: Sequence[Example], cap: int, seed: int, *, by_target: bool) -> list[Example]:
    """Return at most `cap` of the rows, in hash order: the first of every stratum, in proportion.

    What a smaller cap takes, a larger one takes too. Rows of a group may be left out singly: those that stay
    are still in one part.
    """
    strata: dict[str, list[Example]] = defaultdict(list)
    ordered = in_hash_order(examples, seed)
    for example in ordered:
        strata[example.target_text if by_target else ""].append(example)
    # Middle of the row's place in its stratum, in (0, 1): taken in this order, all strata fill evenly.
    place = {
        example.id: (2 * rank + 1) / (2 * len(rows))
        for rows in strata.values()
        for rank, example in enumerate(rows)
    }
    return in_hash_order(sorted(ordered, key=lambda example: place[example.id])[:cap], seed)


def assign(
    examples: Sequence[Example], sizes: Counts, seed: int, *, by_target: bool
) -> tuple[list[Example], list[Example], list[Example]]:
    """Return the rows of test, val and the rest, each in hash order.

    Args:
        examples: All rows.
        sizes: Rows wanted in each, summing to all rows. Without groups they are met exactly, and every
            stratum's share within one row; with groups as near as whole groups allow.
        seed: Of the order.
        by_target: Stratify by target (a group by its most frequent one).
    """
    strata = _strata(examples, seed, by_target)
    rows_of = {name: sum(len(unit.rows) for unit in units) for name, units in strata.items()}
    quota = quotas(rows_of, sizes)
    parts: tuple[list[_Unit], list[_Unit], list[_Unit]] = ([], [], [])
    room = [0, 0]
    for name in sorted(strata):
        # What whole groups left over or overdrew in one stratum is made good in the next.
        room = [room[0] + quota[name][0], room[1] + quota[name][1]]
        for unit in strata[name]:
            part = next((p for p in (0, 1) if len(unit.rows) < 2 * room[p]), 2)
            parts[part].append(unit)
            if part < 2:
                room[part] -= len(unit.rows)
    _fill_empty(parts, sizes)
    test, val, rest = (in_hash_order([row for unit in part for row in unit.rows], seed) for part in parts)
    return test, val, rest


def quotas(strata: Mapping[str, int], totals: Counts) -> dict[str, Counts]:
    """Return the rows of each stratum in each part.

    The sums are exact, and no cell is a whole row off its exact share.

    Controlled rounding (Cox 1987): all cells start at the floor of their exact share; each stratum's missing
    rows go to the parts with the largest remainders, never to one without a remainder, and only such that the
    strata after it can still be served. For three columns the max-flow condition for that comes down to: no
    column needs more rows than there are strata left with a remainder in it.
    """
    total = sum(totals)
    cells = {name: [size * part // total for part in totals] for name, size in strata.items()}
    remainders = {name: [size * part % total for part in totals] for name, size in strata.items()}
    need = [part - sum(floor[i] for floor in cells.values()) for i, part in enumerate(totals)]
    takers = [sum(left[i] > 0 for left in remainders.values()) for i in range(3)]
    # The smallest first: to them a row more or less matters most.
    for name in sorted(strata, key=lambda name: (strata[name], name)):
        columns = [i for i in range(3) if remainders[name][i]]
        for i in columns:
            takers[i] -= 1
        choices = combinations(columns, strata[name] - sum(cells[name]))
        for choice in sorted(choices, key=lambda chosen: -sum(remainders[name][i] for i in chosen)):
            if all(0 <= need[i] - (i in choice) <= takers[i] for i in range(3)):
                for i in choice:
                    cells[name][i] += 1
                    need[i] -= 1
                break
    return {name: (found[0], found[1], found[2]) for name, found in cells.items()}


def _strata(examples: Sequence[Example], seed: int, by_target: bool) -> dict[str, list[_Unit]]:
    groups: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        single = f"row:{content_key(example.content)}"
        groups[single if example.group is None else f"group:{example.group}"].append(example)
    strata: dict[str, list[_Unit]] = defaultdict(list)
    for key, rows in groups.items():
        stratum = ""
        if by_target:
            counts = Counter(row.target_text for row in rows)
            stratum = min(counts, key=lambda target: (-counts[target], target))
        strata[stratum].append(_Unit(_hash(seed, key), tuple(rows)))
    for units in strata.values():
        units.sort(key=lambda unit: unit.order)
    return strata


def _fill_empty(parts: tuple[list[_Unit], list[_Unit], list[_Unit]], sizes: Counts) -> None:
    """Give a part that large groups left empty the smallest group of the part with the most groups."""
    for i in range(3):
        if sizes[i] and not parts[i]:
            giver = max(parts, key=len)
            smallest = min(giver, key=lambda unit: (len(unit.rows), unit.order))
            if len(giver) > 1:
                giver.remove(smallest)
                parts[i].append(smallest)


def _hash(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()


MOST: Mapping[Part, int] = {"val": 200, "test": 500}  # where nobody says otherwise


@dataclass(frozen=True, slots=True)
class Cap:
    """At most so many rows of a part.

    Args:
        rows: The limit.
        whose: What sets it, if not the user or the default.
        remedies: Settings that would use all rows, with their values, if not the part's own alone.
    """

    rows: int
    whose: str = ""
    remedies: Mapping[str, int] = field(default_factory=dict, hash=False)


NO_CAPS: Mapping[Part, Cap] = {}


def user_caps(settings: DataSettings) -> dict[Part, int | None]:
    """Return the caps of val and test that the user sets; None for one that is not set."""
    return {"test": settings.max_test, "val": settings.max_val}


def chosen_caps(settings: DataSettings, caps: Mapping[Part, Cap]) -> dict[Part, Cap]:
    """Return the caps of val and test: the user's own, else that of `caps`, else the default."""
    return {
        part: caps.get(part, Cap(MOST[part])) if rows is None else Cap(rows)
        for part, rows in user_caps(settings).items()
    }


def cap_parts(
    parts: dict[Part, list[Example]],
    wanted: Sequence[Part],
    caps: Mapping[Part, Cap],
    seed: int,
    *,
    by_target: bool,
) -> list[Problem]:
    """Cut those of val and test that are `wanted` down to their caps; return a warning if rows go unused.

    Rows over a cap stay unused: in train they could be looked at today and be sealed tomorrow, under a larger
    cap.
    """
    unused = dict[Part, int]()
    remedies = dict[str, int]()
    for part, cap in caps.items():
        rows = len(parts[part])
        if part in wanted and rows > cap.rows:
            parts[part] = take_stratified(parts[part], cap.rows, seed, by_target=by_target)
            unused[part] = rows - cap.rows
            remedies |= cap.remedies or {f"max_{part}": rows}
    return [_unused({part: caps[part] for part in unused}, sum(unused.values()), remedies)] if unused else []


def _unused(caps: Mapping[Part, Cap], rows: int, remedies: Mapping[str, int]) -> Problem:
    limits = [
        f"{part} is limited to {cap.rows}" + (f" by {cap.whose}" if cap.whose else "")
        for part, cap in caps.items()
    ]
    said = f"{counted(rows, 'row is', 'rows are')} not used: {' and '.join(limits)}"
    fix = f"To use {'them' if rows > 1 else 'it'}, give {' and '.join(f'{{{name}}}' for name in remedies)}."
    return Problem("dataset.rows-unused", said, fix=fix, settings=remedies)


def caps_without_effect(parts: Mapping[Part, Sequence[Example]], settings: DataSettings) -> list[Problem]:
    """Return warnings of limits that the user has set for a part with a file of its own."""
    return [
        Problem(
            "dataset.limit-without-effect",
            "this limit has no effect: the run uses all "
            f"{counted(len(parts[part]), 'row')} of the {part} file",
            Place(setting=f"max_{part}"),
        )
        for part, rows in user_caps(settings).items()
        if rows is not None and getattr(settings, part) is not None and len(parts[part]) > rows
    ]
