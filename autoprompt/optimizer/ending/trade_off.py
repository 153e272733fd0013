"""Score against length: other candidates of a run that its user may rather have than the best."""

from __future__ import annotations

from typing import Any

from autoprompt.optimizer.context import SearchContext
from autoprompt.search.pool import Entry
from autoprompt.tokens import estimate_tokens
from autoprompt.types import Candidate

MOST = 5  # beside the original and the best
_TURN = 4  # tokens that a message takes beside its text, as in `estimate_tokens`


def prompt_tokens(candidate: Candidate) -> int:
    """About how many tokens its texts and demonstrations add to the requests of a row (an estimate)."""
    texts = sum(estimate_tokens(text) for text in candidate.components.values())
    return texts + sum(
        estimate_tokens(demo.input) + estimate_tokens(demo.output) + 2 * _TURN for demo in candidate.demos
    )


def trade_off(context: SearchContext, best: Entry) -> dict[str, Any] | None:
    """The original, the best and the choices between, the shortest first; None where there is no choice.

    A choice ran the whole race, was ahead of the original, and no other candidate is both better and
    shorter. Its score is a mean on the `rows` rows of the race, which chose the best: no proof of anything.
    Nothing but the best is measured on the sealed test.
    """
    ids, original = context.plan.race_ids, context.pool.original
    raced = [e for e in context.pool.entries if all(i in e.scores for i in ids)]
    if original not in raced:  # a cap ended the run before that
        return None
    sizes = {e.candidate.id: prompt_tokens(e.candidate) for e in raced}
    choices, highest = [], original.mean(ids)
    for entry in sorted(raced, key=lambda e: (sizes[e.candidate.id], -e.mean(ids))):
        if entry.mean(ids) > highest:
            highest = entry.mean(ids)
            choices.append(entry)
    choices = [e for e in choices if e not in (original, best)][-MOST:]
    if not choices:
        return None
    shown = {e.candidate.id: e for e in (original, *choices, best) if e in raced}
    return {
        "rows": len(ids),
        "candidates": [
            {
                "id": name,
                "operator": shown[name].candidate.operator,
                "demos": len(shown[name].candidate.demos),
                "prompt_tokens": sizes[name],
                "score": shown[name].mean(ids),
                "is_best": shown[name] is best,
            }
            for name in sorted(shown, key=lambda name: sizes[name])
        ],
    }
