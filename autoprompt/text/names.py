"""Names and other parts as messages list them: the first ones, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence


def named(names: Sequence[str], limit: int = 12) -> str:
    """'a', 'b', 'c' and 4 more: names as messages list them."""
    return listed([repr(name) for name in names], limit)


def listed(parts: Sequence[str], limit: int = 12) -> str:
    """a, b, c and 4 more."""
    return ", ".join(parts[:limit]) + (f" and {len(parts) - limit} more" if len(parts) > limit else "")
