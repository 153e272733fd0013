"""What every statistic asks of its values."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

NORMAL = NormalDist()
TIE = 1e-9  # sums of floats that should be equal differ by less than this


def difference(new: float, old: float) -> float:
    """Return new - old; 0 if only rounding keeps the two apart, as it does 0.1 + 0.2 and 0.3."""
    found = new - old
    return found if abs(found) > TIE else 0.0


def is_binary(values: Sequence[float]) -> bool:
    """Return whether all values are 0 or 1."""
    return all(value in (0, 1) for value in values)


def check_lengths(a: Sequence[object], b: Sequence[object]) -> None:
    """Raise ValueError if paired data do not have one value each for every row."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values against {len(b)}: paired data needs one of each for every row")
