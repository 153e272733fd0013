"""How many rows of val and test are used, what limits them, and the warning of rows that are not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoprompt.dataset.assign import capped
from autoprompt.errors import Place, Problem
from autoprompt.records import Example, Part
from autoprompt.settings.records import DataSettings
from autoprompt.text.names import counted

MOST: Mapping[Part, int] = {"val": 200, "test": 500}  # where nobody says otherwise


@dataclass(frozen=True, slots=True)
class Cap:
    """At most so many rows of a part.

    whose: What sets it, if not the user or the default. remedies: Settings that would use all rows, with
    their values, if not the part's own alone.
    """

    rows: int
    whose: str = ""
    remedies: Mapping[str, int] = field(default_factory=dict, hash=False)


NO_CAPS: Mapping[Part, Cap] = {}


def own_caps(settings: DataSettings) -> dict[Part, int | None]:
    """Those of the user."""
    return {"test": settings.max_test, "val": settings.max_val}


def chosen_caps(settings: DataSettings, caps: Mapping[Part, Cap]) -> dict[Part, Cap]:
    """Of val and test: the user's own, else that of `caps`, else the default."""
    return {
        part: caps.get(part, Cap(MOST[part])) if rows is None else Cap(rows)
        for part, rows in own_caps(settings).items()
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

    They stay unused: in train they could be looked at today and be sealed tomorrow, under a larger cap.
    """
    unused = dict[Part, int]()
    remedies = dict[str, int]()
    for part, cap in caps.items():
        rows = len(parts[part])
        if part in wanted and rows > cap.rows:
            parts[part] = capped(parts[part], cap.rows, seed, by_target=by_target)
            unused[part] = rows - cap.rows
            remedies |= cap.remedies or {f"max_{part}": rows}
    return [_unused({part: caps[part] for part in unused}, sum(unused.values()), remedies)] if unused else []


def _unused(caps: Mapping[Part, Cap], rows: int, remedies: Mapping[str, int]) -> Problem:
    limits = [
        f"{part} is limited to {cap.rows}" + (f" by {cap.whose}" if cap.whose else "")
        for part, cap in caps.items()
    ]
    said = f"{counted(rows, 'row is', 'rows are')} not used: {' and '.join(limits)}"
    fix = f"To use {'them' if rows > 1 else 'it'}, set {' and '.join(f'{{{name}}}' for name in remedies)}."
    return Problem("dataset.rows-unused", said, fix=fix, settings=remedies)


def caps_without_effect(parts: Mapping[Part, Sequence[Example]], settings: DataSettings) -> list[Problem]:
    """Return warnings of limits that the user has set for a part with a file of its own."""
    return [
        Problem(
            "dataset.limit-without-effect",
            f"this limits rows that are cut from a dataset; all {counted(len(parts[part]), 'row')} of the "
            f"{part} file "
            "are used",
            Place(setting=f"max_{part}"),
        )
        for part, rows in own_caps(settings).items()
        if rows is not None and getattr(settings, part) is not None and len(parts[part]) > rows
    ]
