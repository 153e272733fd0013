"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once."""

from __future__ import annotations

from autoprompt.errors import BudgetExhausted
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.ending.lineage import is_remembered, unseen
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.search.gate import confirm
from autoprompt.search.pool import Entry
from autoprompt.store.folder import SEALED

Update = AutoPromptState


def confirm_winner(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """The winner if it is better than the original beyond luck, else the original."""
    plan, original = context.plan, context.pool.original
    fresh = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, fresh, "fresh rows: best and original")
        context.evaluate(both, plan.race, "raced rows: best and original")
        # Rows of train that nobody who made the winner has seen are as fresh, and more rows see smaller
        # gains.
        left = context.budget.calls_left()
        more = unseen(context, winner, state["history"], state["has_memory"])[: len(plan.race)]
        if left is not None:
            more = more[: left // (2 * plan.calls_per_row)]
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
