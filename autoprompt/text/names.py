"""Names, numbers and other parts as messages tell them."""

from __future__ import annotations

from collections.abc import Sequence

MOST_LISTED = 12
# The caps of a run by their settings, as sentences name them.
CAPS = {
    "max_calls": "the cap on calls",
    "max_tokens": "the cap on tokens",
    "max_cost": "the cap on cost",
    "max_seconds": "the cap on time",
}


def named(names: Sequence[str], limit: int = MOST_LISTED) -> str:
    """Return "'a', 'b', 'c' and 4 more": names as messages list them.

    Examples:
        >>> named(["a", "b", "c"], 2)
        "'a', 'b' and 1 more"
    """
    return listed([repr(name) for name in names], limit)


def listed(parts: Sequence[str], limit: int = MOST_LISTED, *, total: int | None = None) -> str:
    """Return "a, b, c and 4 more".

    Args:
        parts: All of them, or the first.
        limit: How many are listed.
        total: How many there are, if only the first of them are given.
    """
    more = (len(parts) if total is None else total) - len(parts[:limit])
    return ", ".join(parts[:limit]) + (f" and {more} more" if more else "")


def counted(number: int, one: str, many: str = "") -> str:
    """Return "1 row", "1,200 rows". many: The plural, if it is more than `one` with an s.

    Examples:
        >>> counted(1200, "row")
        '1,200 rows'
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def cut_to(most: int, text: str) -> str:
    """Return the first `most` characters of a text; the last of them is "…" if it has more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def quoted(text: str, most: int = 60) -> str:
    """Return a text in quotes, cut to `most` characters."""
    return repr(cut_to(most, text))
