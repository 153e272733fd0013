"""The rounds of a run, for its result: what each began with and found, in a bounded number of characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoprompt.optimizer.agents.analyst import spread
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.records import Round

# A result of 15 rounds, the most of a preset, has every text of up to 4,000 characters whole; one of 1,000
# rounds stays under a megabyte.
_CHARACTERS = 200_000  # of all texts together
_TEXT_CHARACTERS = 4_000  # of a prompt, and of suggestions
_CASES = 3
_CASE_CHARACTERS = 200  # of each text of a wrong row


def read_rounds(state: AutoPromptState, context: SearchContext, test_score: float | None) -> list[Round]:
    """Return the rounds in their order, the sealed test last if it was opened.

    It reads the run's files alone, so a resumed run has the same rounds.
    """
    history = state.get("history", [])
    room = _CHARACTERS // max(1, len(history))
    return [_round(entry, context, room, test_score) for entry in history]


def _round(entry: Mapping[str, Any], context: SearchContext, room: int, test_score: float | None) -> Round:
    is_test = entry["split"] == "test"
    rows = [] if is_test else [row for row in context.read_results(entry["results"]) if not row.is_lost]
    of_case = min(_CASE_CHARACTERS, room // (9 * _CASES))
    cases = [
        {"input": row.input, "prediction": row.prediction, "ground_truth": row.ground_truth}
        for row in spread([row for row in rows if not row.is_correct], _CASES)
    ]
    most = min(_TEXT_CHARACTERS, room // 3)
    prompt, suggestions = entry["prompt"], entry["suggestions"]
    return Round(
        iteration=entry["iteration"],
        split=entry["split"],
        candidate=entry["candidate"],
        prompt=_cut(prompt, most),
        demos=entry["demos"],
        error_count=entry["error_count"],
        total_count=entry["total_count"],
        error_cases=tuple({name: _cut(text, of_case) for name, text in case.items()} for case in cases),
        suggestions=_cut(suggestions, most),
        score=test_score if is_test else round(sum(r.score for r in rows) / len(rows), 6) if rows else None,
        validation=_validation(context, entry["candidate"]),
        is_cut=len(prompt) > most or len(suggestions) > most,
        calls=entry["calls"],
        predictions=entry["results"]["path"],
    )


def _validation(context: SearchContext, candidate: str) -> float | None:
    """The mean by the run's end: the first round begins before the original has raced."""
    entry, ids = context.pool[candidate], context.plan.race_ids
    return round(entry.mean(ids), 6) if any(i in entry.scores for i in ids) else None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
