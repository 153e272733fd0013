"""Score against length: other candidates of a run that its user may rather have than the best."""

from __future__ import annotations

from typing import Any

from autoprompt.optimizer.context import SearchContext, prompt_tokens
from autoprompt.reasoning import USUAL_TOKENS, asks_to_reason
from autoprompt.search.pool import Entry
from autoprompt.types import Candidate

MOST = 5  # beside the original and the best


def row_tokens(candidate: Candidate) -> int:
    """About how many tokens a row takes beside its input: texts, demonstrations, and reasoning asked for."""
    return prompt_tokens(candidate) + (USUAL_TOKENS if asks_to_reason(candidate.prompt) else 0)


def trade_off(context: SearchContext, best: Entry) -> dict[str, Any] | None:
    """The original, the best and the choices between, the shortest first; None where there is no choice.

    A choice was ahead of the original on the raced rows, is shorter than the best (if that is not the
    original itself), and no other candidate is both better and shorter. None left the race early.
    `score`: mean on the `rows` rows of the race, which chose the best, so no proof of anything: only the best
    is confirmed and measured on the sealed test.
    """
    original = context.pool.original
    # Not those that the endpoint lost for one of the two.
    ids = [i for i in context.plan.race_ids if i in original.scores and i in best.scores]
    sizes = {
        e.candidate.id: row_tokens(e.candidate)
        for e in context.pool.entries
        if ids and all(i in e.scores for i in ids)
    }
    choices, highest = [], original.mean(ids)
    for name in sorted(sizes, key=lambda name: (sizes[name], -context.pool[name].mean(ids))):
        entry = context.pool[name]
        if entry.mean(ids) > highest:
            highest = entry.mean(ids)
            choices.append(entry)
    longest = float("inf") if best is original else sizes.get(best.candidate.id, 0)
    choices = [e for e in choices if e is not best and sizes[e.candidate.id] < longest][-MOST:]
    if not choices:
        return None
    shown = {e.candidate.id: e for e in (original, *choices, best)}
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
