"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once."""

from __future__ import annotations

from autoprompt.errors import BudgetExhausted
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.ending.lineage import ancestors, is_remembered, unseen
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.search.gate import compare, confirm
from autoprompt.search.pool import Entry
from autoprompt.search.prospects import foreseen_gain
from autoprompt.search.race import DROP_ALPHA
from autoprompt.stats import count_groups
from autoprompt.store.folder import SEALED
from autoprompt.types import Example

Update = AutoPromptState

# Gain that is foreseen of another than the best of the race, from which it goes to the confirmation: below it
# neither has a chance worth the question why the better one did not go.
_WORTH_CHOOSING = 0.01
# Times the best one's fresh rows for which one that it was made from goes instead, unless that is so far
# behind it that the race would have dropped it.
_MORE_FRESH = 2


def choose_winner(context: SearchContext, state: AutoPromptState, best: Entry) -> Entry:
    """Who goes to the confirmation: the best of the race, or one that the other rows can say more of.

    Demonstrations take rows of train, and so does an analyst's look at errors: those of a child are of no use
    for its confirmation. Where rows are few, what it was made from may be confirmed, and it not.
    """
    plan, pool = context.plan, context.pool
    raced = [e for e in pool.accepted() if e is not pool.original and e is not best]
    entries = [best, *(e for e in raced if all(i in e.scores for i in plan.race_ids))]
    left = context.budget.calls_left()  # beside what is held for the fresh rows of validation
    fresh = {
        entry.candidate.id: count_groups(
            [row.group for row in (*plan.fresh, *_more_fresh(context, state, entry, left))]
        )
        for entry in entries
    }
    values = {
        entry.candidate.id: foreseen_gain(
            pool,
            entry,
            plan.race_ids,
            fresh[entry.candidate.id],
            is_remembered=is_remembered(context, entry, state["has_memory"]),
        )
        - (entry is not best) * _WORTH_CHOOSING
        for entry in entries
    }

    def is_better_known(entry: Entry) -> bool:
        """Whether it is about as good as the best, with many more rows that are fresh."""
        ids = best.candidate.id, entry.candidate.id
        return (
            values[entry.candidate.id] > 0
            and fresh[entry.candidate.id] >= _MORE_FRESH * fresh[best.candidate.id]
            and compare(pool, *ids, plan.race_ids).p_value >= DROP_ALPHA
        )

    line = {candidate.id for candidate in ancestors(context, best.candidate)} - {best.candidate.id}
    # Where none of validation is fresh it cost gain: of 44 simulated rows +0.094 instead of +0.100.
    known = [e for e in entries if plan.fresh and e.candidate.id in line and is_better_known(e)]
    winner = max(known or entries, key=lambda entry: values[entry.candidate.id])
    if winner is not best:
        context.emit({"event": "winner_chosen", "id": winner.candidate.id, "instead_of": best.candidate.id})
    return winner


def _more_fresh(
    context: SearchContext, state: AutoPromptState, winner: Entry, calls_left: int | None
) -> list[Example]:
    """Rows of train that nobody who made it has seen are as fresh, and more rows see smaller gains."""
    more = unseen(context, winner, state["history"], state["has_memory"])[: len(context.plan.race)]
    return more if calls_left is None else more[: calls_left // (2 * context.plan.calls_per_row)]


def confirm_winner(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """The winner if it is better than the original beyond luck, else the original."""
    plan, original = context.plan, context.pool.original
    fresh = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, fresh, "fresh rows: best and original")
        context.evaluate(both, plan.race, "raced rows: best and original")
        more = _more_fresh(context, state, winner, context.budget.calls_left())
        context.evaluate(both, more, "unseen rows of train: best and original")
        fresh += more
    except BudgetExhausted as error:
        update["stop_reason"] = error.cap
    confirmation = confirm(
        context.pool,
        winner,
        plan.race_ids,
        [r.id for r in fresh],
        is_remembered=is_remembered(context, winner, state["has_memory"]),
    )
    update["confirmation"] = {
        **confirmation.to_dict(),
        "candidate": winner.candidate.id,
        "train_rows": len(fresh) - len(plan.fresh),
    }
    context.emit({"event": "confirmation", **update["confirmation"]})
    return winner if confirmation.is_confirmed else original


def open_test(context: SearchContext, original: Entry, winner: Entry, update: Update) -> None:
    """Best and original on the sealed rows. It chooses nothing: it gives the verdict."""
    rows = context.splits.test
    update["test"] = {}
    if not rows:
        return
    opened = context.open_test()
    entries = [original] if winner is original else [winner, original]
    try:
        # Kept back for this: better opened with a row that fails for want of a retry than not at all. One
        # block for both: the questions that one has to repeat must not take the rows of the other.
        calls = context.plan.calls_per_row * len(entries) * len(rows)
        with context.budget.block(calls, leaves_room=False):
            for entry in entries:
                name = "best" if entry is winner else "original"
                evaluation = context.prediction.predict(
                    entry.candidate, rows, on_row=context.row_counter(f"test: {name}", len(rows))
                )
                update["test"][name] = context.save_results(f"{SEALED}{name}", evaluation)
    except BudgetExhausted as error:
        update["stop_reason"], update["test"] = error.cap, {"opened": opened}
        return
    update["test"].setdefault("original", update["test"]["best"])
    update["test"]["opened"] = opened
    update["results"] = update["test"]["best"]
