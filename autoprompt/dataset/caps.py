"""How many rows of val and test are used, who says so, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoprompt.dataset.assign import capped
from autoprompt.records import Example, Part
from autoprompt.settings.records import DataSettings

MOST: Mapping[Part, int] = {"val": 200, "test": 500}  # where nobody says otherwise


@dataclass(frozen=True, slots=True)
class Cap:
    """At most so many rows of a part.

    whose: what sets it, if not the user or the default. remedies: the flags that would use all rows, if not
    the part's own alone.
    """

    rows: int
    whose: str = ""
    remedies: tuple[str, ...] = ()


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
) -> list[str]:
    """Cuts those of val and test that are `wanted` down to their caps; says how many rows go unused, if any.

    They stay unused: in train they could be looked at today and be sealed tomorrow, under a larger cap.
    """
    unused = dict[Part, int]()
    remedies = list[str]()
    for part, cap in caps.items():
        rows = len(parts[part])
        if part in wanted and rows > cap.rows:
            parts[part] = capped(parts[part], cap.rows, seed, by_target=by_target)
            unused[part] = rows - cap.rows
            remedies += cap.remedies or (f"--max-{part} {rows}",)
    return [_unused({part: caps[part] for part in unused}, sum(unused.values()), remedies)] if unused else []


def _unused(caps: Mapping[Part, Cap], rows: int, remedies: Sequence[str]) -> str:
    are = "rows are" if rows > 1 else "row is"
    capped_are = f"{' and '.join(caps)} {'are' if len(caps) > 1 else 'is'} capped"
    reasons: dict[str, list[str]] = {}
    for part, cap in caps.items():
        if cap.whose:
            reasons.setdefault(_named(cap), []).append(part)
    if reasons:
        at = [f"{' and '.join(those)} at the {reason}" for reason, those in reasons.items()]
        capped_are += f" ({' and '.join(at)})"
    flags = list(dict.fromkeys(remedies))
    use = f"use{'' if len(flags) > 1 else 's'} {'them' if rows > 1 else 'it'}"
    return f"{rows} {are} not used: {capped_are}. {' '.join(flags)} {use}."


def _named(cap: Cap) -> str:
    return f"{cap.rows} rows that {cap.whose} has room for" if cap.remedies else f"cap of {cap.whose}"


def caps_without_effect(parts: Mapping[Part, Sequence[Example]], settings: DataSettings) -> list[str]:
    """Warnings of caps that the user has set for a part with a file of its own."""
    return [
        f"--max-{part} {rows} caps what is cut from a dataset: all {len(parts[part])} rows of the "
        f"--{part} file are used."
        for part, rows in own_caps(settings).items()
        if rows is not None and getattr(settings, part) is not None and len(parts[part]) > rows
    ]
