"""More demonstrations for a winner: the rows that chose it have done their work, and can be shown too.

How many demonstrations a model is shown matters most (see `search.demos`), and validation takes half of the
rows from them. Once a winner is confirmed, the raced rows are free; the fresh ones judge what comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from autoprompt.errors import BudgetExhausted
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose import tell_proposed
from autoprompt.optimizer.settle import tell_best, tell_settled
from autoprompt.optimizer.showing import fitting
from autoprompt.search import demos as demo_sets
from autoprompt.search.gate import Comparison, compare
from autoprompt.search.plan import FEWEST_FRESH
from autoprompt.search.pool import Entry
from autoprompt.types import Candidate, Example

OPERATOR = "demos_widened"
LEAST_GROWTH = (
    1.25  # times the demonstrations that it has: for less, a second look at the fresh rows is too much
)


def widen(context: SearchContext, winner: Entry, fresh: Sequence[Example]) -> tuple[Entry, Comparison | None]:
    """The winner with raced rows among its demonstrations, if it does no worse on `fresh`; else the winner.

    fresh: rows that are in no demonstration and chose nothing. Beside the entry: the wider one against the
    winner, None where it could not be tried.
    """
    made = _widened(context, winner.candidate, fresh) if len(fresh) >= FEWEST_FRESH else None
    if made is None:
        return winner, None
    tell_proposed(context, made)
    entry, ids = context.add(made), [row.id for row in fresh]
    entry.status = "rejected"
    best = winner
    try:
        context.hold_test(made)
        context.evaluate([entry], fresh, "fresh rows: more demonstrations")
    except BudgetExhausted:
        comparison = None
    else:
        comparison = compare(context.pool, made.id, winner.candidate.id, ids)
        # A tie goes to more demonstrations: they are the better ones until rows say otherwise.
        if comparison.rows and entry.mean_merit(ids) >= winner.mean_merit(ids):
            entry.status, best = "accepted", entry
        tell_settled(context, made.id, best is entry, comparison)
    if best is entry:
        tell_best(context, entry, ids)
    else:
        with suppress(BudgetExhausted):
            context.hold_test(winner.candidate)
    return best, comparison


def _widened(context: SearchContext, winner: Candidate, fresh: Sequence[Example]) -> Candidate | None:
    """The candidate with more demonstrations, in the winner's shares of answers.

    None where there are hardly more, and where the demonstrations are no rows as they stand: what a step in
    the middle gets and answers, or how the model works an answer out, is not known of raced rows.
    """
    known = {row.id: demo_sets.to_demo(row) for row in context.splits.train}
    if not winner.demos or any(known.get(demo.example_id) != demo for demo in winner.demos):
        return None
    hidden = {row.id for row in fresh}
    rows = [row for row in (*context.splits.train, *context.plan.race) if row.id not in hidden]
    name = next(iter(winner.components))
    rng = context.rng("widen", winner.id)
    shown = [demo.example_id for demo in winner.demos]
    # The winner's share of its rows, of more rows: where it needed few, it stays with few.
    most = round(len(shown) * len(rows) / len(context.splits.train))
    chosen = demo_sets.widened(rows, shown, min(most, context.settings.max_demos), rng)
    text, most_tokens = winner.components[name], context.settings.max_prompt_tokens
    demos = fitting(text, [demo_sets.to_demo(row) for row in chosen], most_tokens)
    if len(demos) < LEAST_GROWTH * len(winner.demos):
        return None
    raced = sum(demo.example_id not in known for demo in demos)
    return replace(
        winner,
        demos=demos,
        parents=(winner.id,),
        operator=OPERATOR,
        change=f"{len(demos)} demonstrations, {raced} of them raced rows",
        id="",
    )
