"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autoprompt.errors import BudgetExhausted, Problem
from autoprompt.measure.compare import LOPSIDED
from autoprompt.measure.rows import scored
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.ending.choosing import held_out, is_remembered, rows_to_ask
from autoprompt.optimizer.ending.pick import (
    calls_for_cheaper,
    confirm_cheaper,
    ends_event,
    fewest_tested,
    find_cheaper,
    rows_for_cheaper,
)
from autoprompt.optimizer.search.gate import confirm
from autoprompt.optimizer.search.plan import interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Evaluation, Example, Prediction, warning_event
from autoprompt.runs.folder import SEALED
from autoprompt.text.names import counted

Update = AutoPromptState


def finish(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """Confirm both ends of the search on fresh rows, open the sealed test, and return what the user gets.

    In this order: the highest score against the original, then the cheaper end, which is asked only if the
    highest is confirmed.
    The cheaper end is returned if there is one. `ends` in the state: the ids of both, `cheapest` "" if there
    is one end; `reason`, why there is no cheaper one; `level`, how that did on raced and fresh rows.
    """
    original = context.pool.original
    cheaper, reason = find_cheaper(context, winner) if winner is not original else (None, "none")
    context.hold_test(winner.candidate)
    highest = winner
    if winner is not original:
        highest = confirm_winner(context, state, winner, update, keeps_calls=cheaper is not None)
    level: dict[str, Any] = {}
    if highest is original:
        cheaper, reason = None, "none"
    if cheaper is not None:
        level, reason = confirm_cheaper(context, state, highest, cheaper)
        cheaper = None if reason else cheaper
    is_tested = open_test(context, original, highest, update, state.get("stop_reason", ""), cheaper)
    context.budget.release_hold()  # where no test was opened
    if cheaper is not None and not is_tested:
        cheaper, reason = None, "no_budget"
    returned = highest if cheaper is None else cheaper
    update["ends"] = {
        "highest": highest.candidate.id,
        "cheapest": "" if cheaper is None else cheaper.candidate.id,
        "reason": reason,
        "level": level,
    }
    if highest is not original:
        context.emit(ends_event(context, update["ends"]))
    return returned


def confirm_winner(
    context: SearchContext,
    state: AutoPromptState,
    winner: Entry,
    update: Update,
    *,
    keeps_calls: bool = False,
) -> Entry:
    """Return the winner if it is better than the original beyond luck, else the original.

    keeps_calls: rows of train leave calls for the cheaper end.
    """
    plan, original = context.plan, context.pool.original
    asked = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, plan.fresh, "fresh rows: winner and original", keeps_rest=True)
        context.evaluate(both, plan.race, "raced rows: winner and original", keeps_rest=True)
        if keeps_calls and (calls := calls_for_cheaper(context)):
            context.hold_test(winner.candidate, calls)
        of_train = rows_to_ask(context, state, winner, context.budget.block_calls_left())
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
    context: SearchContext,
    original: Entry,
    highest: Entry,
    update: Update,
    stop_reason: str = "",
    cheaper: Entry | None = None,
) -> bool:
    """Ask highest, original and the cheaper end the sealed rows. It chooses nothing: it gives the verdict.

    If the budget ends on the way, the verdict is of the rows that both have, unless these are too few.

    Args:
        stop_reason: What had ended the search before.
        cheaper: Asked for as many rows as the budget has beside the two others.

    Returns:
        Whether the cheaper end has answered enough of the test, or there is no test. What is returned is
        `best` in the state's `test`, and the highest, if that is another one, `other`.
    """
    rows = context.splits.test
    update["test"] = {}
    was_stopped = bool(update.get("stop_reason") or stop_reason)
    if not rows or (was_stopped and not _has_measured(context)):
        return True
    opened = context.open_test()
    # The original first, which is short as a rule: of what is cut off, more rows have both then. In an order
    # of which every beginning holds the targets in their shares.
    asked = interleave(rows)
    jobs = [(original, asked)] if highest is original else [(original, asked), (highest, asked)]
    if cheaper is not None and (reached := rows_for_cheaper(context, highest, cheaper)):
        jobs.append((cheaper, asked[:reached]))
    context.budget.release_hold()
    total = sum(len(of_one) for _, of_one in jobs)
    ended: list[BudgetExhausted] = []
    try:
        # Kept back for this: better opened with a row that fails for want of a retry than not at all. One
        # block for all: what one has to ask again must not take the rows of another.
        with context.budget.block(context.plan.calls(total), leaves_room=False):
            evaluations = context.ask(
                [(entry.candidate, of_one) for entry, of_one in jobs],
                on_row=context.tally(f"sealed test: {counted(len(jobs), 'prompt')}", total).add,
                on_exhausted=ended.append,
            )
    except BudgetExhausted as error:
        update["stop_reason"], update["test"] = error.cap, {"opened": opened}
        return False
    if ended:
        update["stop_reason"] = ended[0].cap
    found = [_whole(context, evaluation, rows) for evaluation in evaluations]
    if _asked_of_all(found[:2]) < fewest_tested(len(rows)):
        update["test"] = {"opened": opened}
        return False
    is_cheaper_tested = len(found) > 2 and _asked_of_all(found[2:]) >= fewest_tested(len(rows))
    sides = {"original": found[0], "best": found[1 if highest is not original else 0]}
    if is_cheaper_tested:
        sides |= {"best": found[2], "other": found[1]}
    for name, evaluation in sides.items():
        if name == "original" and highest is original:
            continue
        update["test"][name] = context.save_results(f"{SEALED}{name}", evaluation)
    update["test"].setdefault("original", update["test"]["best"])
    update["test"]["opened"] = opened
    update["results"] = update["test"]["best"]
    return is_cheaper_tested


def _whole(context: SearchContext, evaluation: Evaluation, rows: Sequence[Example]) -> Evaluation:
    """Return the evaluation in the order of the rows.

    Those that it was not asked for lack of calls are lost.
    """
    known = {row.example_id: row for row in evaluation.rows}
    unasked = Prediction("", None, error="no budget was left", failure="not asked")
    found = (known.get(row.id) or scored(unasked, row, context.metric) for row in rows)
    return replace(evaluation, rows=tuple(found))


def _has_measured(context: SearchContext) -> bool:
    """Return whether another prompt than the original was; if not, the test is worth more to the next run."""
    race_ids = context.plan.race_ids
    others = (entry for entry in context.pool.entries if entry is not context.pool.original)
    return any(not entry.scores.keys().isdisjoint(race_ids) for entry in others)


def _asked_of_all(evaluations: Sequence[Evaluation]) -> int:
    """Return how many rows the budget had calls and time for, whoever asked."""
    unasked = {row.example_id for evaluation in evaluations for row in evaluation.rows if row.is_unasked}
    return len(evaluations[0].rows) - len(unasked)
