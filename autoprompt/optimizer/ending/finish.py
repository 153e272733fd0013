"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoprompt.errors import BudgetExhausted, Problem
from autoprompt.measure.compare import LOPSIDED
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.ending.choosing import held_out, is_remembered, rows_to_ask
from autoprompt.optimizer.search.gate import confirm
from autoprompt.optimizer.search.plan import FEWEST_FRESH, interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Evaluation, Example, warning_event
from autoprompt.runs.folder import SEALED
from autoprompt.text.names import counted

Update = AutoPromptState

# Where the budget ends among the sealed rows, a verdict takes half of them, or so many.
_ENOUGH_TESTED = FEWEST_FRESH


def confirm_winner(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """The winner if it is better than the original beyond luck, else the original."""
    plan, original = context.plan, context.pool.original
    asked = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, plan.fresh, "fresh rows: winner and original", keeps_rest=True)
        context.evaluate(both, plan.race, "raced rows: winner and original", keeps_rest=True)
        of_train = rows_to_ask(context, state, winner, context.budget.calls_left())
        asked += of_train.unseen
        what = "unseen rows of train: winner and original"
        context.evaluate(both, of_train.unseen, what, keeps_rest=True)
        asked += of_train.shown
        _ask_without_themselves(context, winner, of_train.shown)
        _count_failures(context, winner, [*plan.race, *asked])
    except BudgetExhausted as error:
        update["stop_reason"] = error.cap
    fresh = {row.id for row in asked if all(row.id in entry.scores for entry in both)}
    confirmation = confirm(
        context.pool,
        winner,
        plan.race_ids,
        [row.id for row in asked if row.id in fresh],
        is_remembered=is_remembered(context, winner, state["has_memory"]),
    )
    update["confirmation"] = {
        **confirmation.to_dict(),
        "candidate": winner.candidate.id,
        "train_rows": len(fresh.difference(plan.fresh_ids)),
        "held_out_rows": len(fresh & {demo.example_id for demo in winner.candidate.demos}),
    }
    context.emit({"event": "confirmation", **update["confirmation"]})
    return winner if confirmation.is_confirmed else original


def _count_failures(context: SearchContext, winner: Entry, rows: Sequence[Example]) -> None:
    """Where the winner fails far more rows than the original, they count as wrong.

    Left out, a prompt whose answers take too long on the rows that are hard would be confirmed by the others.
    """
    original = context.pool.original
    failed = [row.id for row in rows if row.id in original.scores and row.id not in winner.scores]
    of_original = sum(row.id in winner.scores and row.id not in original.scores for row in rows)
    if len(failed) - of_original <= LOPSIDED * len(rows):
        return
    winner.scores.update(dict.fromkeys(failed, 0.0))
    context.changed.add(winner.candidate.id)
    said = (
        f"the winner failed on {len(failed)} of {counted(len(rows), 'row')} that the original answered; "
        "the confirmation counts them as wrong"
    )
    context.emit(warning_event(Problem("model.winner-failed", said), about="answers"))


def _ask_without_themselves(context: SearchContext, winner: Entry, rows: Sequence[Example]) -> None:
    original = context.pool.original
    folds = held_out(winner.candidate, rows, context.splits.train)
    jobs = [(original, original.candidate, rows), *((winner, c, asked) for c, asked in folds)]
    what = "rows of train, each left out of what the winner shows: winner and original"
    context.evaluate_as(jobs, what, keeps_rest=True)


def open_test(
    context: SearchContext, original: Entry, winner: Entry, update: Update, stop_reason: str = ""
) -> None:
    """Best and original on the sealed rows. It chooses nothing: it gives the verdict.

    Where the budget ends on the way, it is that of the rows that both have, unless these are too few.
    stop_reason: what had ended the search before.
    """
    rows = context.splits.test
    update["test"] = {}
    was_stopped = bool(update.get("stop_reason") or stop_reason)
    if not rows or (was_stopped and not _has_measured(context)):
        return
    opened = context.open_test()
    # The original first, which is short as a rule: of what is cut off, more rows have both then. In an order
    # of which every beginning holds the targets in their shares.
    entries = [original] if winner is original else [original, winner]
    asked, total = interleave(rows), len(entries) * len(rows)
    ended: list[BudgetExhausted] = []
    try:
        # Kept back for this: better opened with a row that fails for want of a retry than not at all. One
        # block for both: what one has to ask again must not take the rows of the other.
        with context.budget.block(context.plan.calls(total), leaves_room=False):
            evaluations = context.ask(
                [(entry.candidate, asked) for entry in entries],
                on_row=context.tally("test: best and original", total).add,
                on_exhausted=ended.append,
            )
    except BudgetExhausted as error:
        update["stop_reason"], update["test"] = error.cap, {"opened": opened}
        return
    if ended:
        update["stop_reason"] = ended[0].cap
    if len(_asked_of_all(evaluations)) < min(_ENOUGH_TESTED, len(rows) / 2):
        update["test"] = {"opened": opened}
        return
    places = {row.id: place for place, row in enumerate(rows)}
    for entry, evaluation in zip(entries, evaluations, strict=True):
        name = "best" if entry is winner else "original"
        in_order = sorted(evaluation.rows, key=lambda row: places[row.example_id])
        update["test"][name] = context.save_results(
            f"{SEALED}{name}", replace(evaluation, rows=tuple(in_order))
        )
    update["test"].setdefault("original", update["test"]["best"])
    update["test"]["opened"] = opened
    update["results"] = update["test"]["best"]


def _has_measured(context: SearchContext) -> bool:
    """Whether another prompt than the original was; if not, the test is worth more to the next run."""
    race_ids = context.plan.race_ids
    others = (entry for entry in context.pool.entries if entry is not context.pool.original)
    return any(not entry.scores.keys().isdisjoint(race_ids) for entry in others)


def _asked_of_all(evaluations: Sequence[Evaluation]) -> set[str]:
    """The rows that the budget had calls and time for, whoever asked."""
    unasked = {row.example_id for evaluation in evaluations for row in evaluation.rows if row.is_unasked}
    return {row.example_id for row in evaluations[0].rows} - unasked
