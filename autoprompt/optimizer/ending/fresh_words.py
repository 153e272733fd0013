"""Of which parts the fresh rows of a confirmation are, in words for the run's message and every report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SEVERAL = "demonstrations of its own, left out when they were"


def parts_of(confirmation: Mapping[str, Any]) -> str:
    """` (16 of validation, 22 of train, 9 of them demonstrations of its own, left out when they were asked)`.

    "" where all are of validation. confirmation: as `result.json` has it.
    """
    train, shown = confirmation.get("train_rows") or 0, confirmation.get("held_out_rows") or 0
    if not train:
        return ""
    kind = "a demonstration of its own, left out when it was" if shown == 1 else _SEVERAL
    held_out = f", {shown} of them {kind} asked" if shown else ""
    return f" ({confirmation['fresh']['rows'] - train} of validation, {train} of train{held_out})"
