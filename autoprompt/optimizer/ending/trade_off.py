"""Score against length: other candidates of a run that its user may rather have than the best."""

from __future__ import annotations

import math
from typing import Any

from autoprompt.measure.cost import row_tokens
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.search.pool import Entry
from autoprompt.stats import difference

MOST = 5  # beside the original and the best


def trade_off(context: SearchContext, best: Entry, leader: Entry | None = None) -> dict[str, Any] | None:
    """The original, the best and the choices between, the shortest first; None where there is no choice.

    leader: the one that led the race, where the best was confirmed in its place.

    A choice was ahead of the original on the raced rows, is shorter than the best (if that is not the
    original itself), and no other candidate is both better and shorter. None left the race early.
    `score`: mean on the `rows` rows of the race, which chose the best, so no proof of anything: only the best
    is confirmed and measured on the sealed test.
    """
    original = context.pool.original
    # Not those that the endpoint lost for one of the two.
    ids = [i for i in context.plan.race_ids if i in original.scores and i in best.scores]
    if not ids:
        return None
    raced = [e for e in context.pool.entries if all(i in e.scores for i in ids)]
    sizes = {e.candidate.id: row_tokens(e.candidate, context.settings.input_field) for e in raced}
    limit = math.inf if best is original else sizes[best.candidate.id]
    choices, highest = [], original.mean(ids)
    for entry in sorted(raced, key=lambda e: (sizes[e.candidate.id], -e.mean(ids))):
        if difference(entry.mean(ids), highest) > 0 and sizes[entry.candidate.id] < limit:
            highest = entry.mean(ids)
            choices.append(entry)
    choices = choices[-MOST:]
    led = [leader] if leader in raced and best is not original else []
    if not choices and not led:
        return None
    shown = {e.candidate.id: e for e in (original, *choices, best, *led)}
    return {
        "rows": len(ids),
        "candidates": [
            {
                "id": name,
                "operator": entry.candidate.operator,
                "demos": len(entry.candidate.demos),
                "tokens": sizes[name],
                "score": entry.mean(ids),
                "is_best": entry is best,
            }
            for name, entry in sorted(shown.items(), key=lambda item: sizes[item[0]])
        ],
    }
