"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once."""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.errors import BudgetExhausted
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.ending.choosing import rows_to_ask
from autoprompt.optimizer.ending.held_out import held_out
from autoprompt.optimizer.ending.lineage import is_remembered
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.search.gate import confirm
from autoprompt.search.pool import Entry
from autoprompt.store.folder import SEALED
from autoprompt.types import Example

Update = AutoPromptState


def confirm_winner(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """The winner if it is better than the original beyond luck, else the original."""
    plan, original = context.plan, context.pool.original
    fresh = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, fresh, "fresh rows: winner and original")
        context.evaluate(both, plan.race, "raced rows: winner and original")
        of_train = rows_to_ask(context, state, winner, context.budget.calls_left())
        context.evaluate(both, of_train.unseen, "unseen rows of train: winner and original")
        fresh += of_train.unseen
        _ask_without_themselves(context, winner, of_train.shown)
        fresh += of_train.shown
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
        "held_out_rows": len(
            {row.id for row in fresh} & {demo.example_id for demo in winner.candidate.demos}
        ),
    }
    context.emit({"event": "confirmation", **update["confirmation"]})
    return winner if confirmation.is_confirmed else original


def _ask_without_themselves(context: SearchContext, winner: Entry, rows: Sequence[Example]) -> None:
    original = context.pool.original
    folds = held_out(winner.candidate, rows, context.splits.train)
    jobs = [(original, original.candidate, rows), *((winner, c, asked) for c, asked in folds)]
    context.evaluate_as(jobs, "rows of train, each left out of what the winner shows: winner and original")


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
        # block for both: what one has to ask again must not take the rows of the other.
        total = len(entries) * len(rows)
        with context.budget.block(context.plan.calls_per_row * total, leaves_room=False):
            evaluations = context.prediction.predict_jobs(
                [(entry.candidate, rows) for entry in entries],
                on_row=context.row_counter("test: best and original", total),
            )
        for entry, evaluation in zip(entries, evaluations, strict=True):
            name = "best" if entry is winner else "original"
            update["test"][name] = context.save_results(f"{SEALED}{name}", evaluation)
    except BudgetExhausted as error:
        update["stop_reason"], update["test"] = error.cap, {"opened": opened}
        return
    update["test"].setdefault("original", update["test"]["best"])
    update["test"]["opened"] = opened
    update["results"] = update["test"]["best"]
