"""Whether an answer is right, by one rule for all tools; the peers' interpreter has no more than this."""

import math
import re
from typing import Any

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")


def is_right(answer: str, target: str, settings: dict[str, Any]) -> bool:
    """settings: those of a cell: `metric`, and `labels`, without which a last full stop is passed over."""
    if settings["metric"] == "numeric":
        number, right = last_number(answer), last_number(target)
        return number is not None and right is not None and math.isclose(number, right, rel_tol=1e-6)
    text = answer.strip()
    if not settings["labels"]:
        text = text.rstrip(".")
    return text.lower() == target.strip().lower()


def last_number(text: str) -> float | None:
    """The last one that is written in it, as English groups digits."""
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None
