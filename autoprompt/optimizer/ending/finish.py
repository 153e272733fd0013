"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once.

A run has two ends: the highest score, and the cheapest candidate that is about as good. Only these two meet
fresh rows and the sealed test, in a fixed sequence: the cheaper one is compared with the original only if the
highest one was better than it (Maurer, Hothorn & Lehmacher 1995), so that both together err as often as the
highest alone. The one that is returned is the best prompt of the run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from autoprompt.errors import BudgetExhausted, Problem
from autoprompt.llm.prices import COLD, WARM
from autoprompt.measure.compare import LOPSIDED
from autoprompt.measure.rows import scored
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.ending.choosing import (
    finishers,
    fresh_of_train,
    held_out,
    is_remembered,
    rows_to_ask,
)
from autoprompt.optimizer.search.gate import confirm
from autoprompt.optimizer.search.plan import FEWEST_FRESH, interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.optimizer.search.race import is_level
from autoprompt.records import Evaluation, Example, Prediction, plain, warning_event
from autoprompt.runs.events import PickChosen
from autoprompt.runs.folder import SEALED
from autoprompt.runs.result import CallCost
from autoprompt.stats import count_groups, difference, paired_error, rows_to_show
from autoprompt.text.names import counted

Update = AutoPromptState


def finish(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """Confirm both ends of the search on fresh rows, open the sealed test, and return what the user gets.

    In this order: the highest score against the original, then the cheaper end, which is asked only if the
    highest is confirmed.
    The cheaper end is returned if there is one. `ends` in the state: the ids of both, `cheapest` "" if there
    is one end; `reason`, why there is no cheaper one; `passed_over`, the id of one that was about as good in
    the race and is not returned, else ""; `level`, how that did on raced and fresh rows.
    """
    original = context.pool.original
    cheaper, reason = find_cheaper(context, winner) if winner is not original else (None, "none")
    context.hold_test(winner.candidate)
    highest = winner
    if winner is not original and not state.get("confirmation"):  # else confirmed before the run continued
        highest = confirm_winner(context, state, winner, update, cheaper)
    level: dict[str, Any] = {}
    if highest is original:
        cheaper, reason = None, "none"
    considered = cheaper
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
        "passed_over": considered.candidate.id if considered is not None and cheaper is None else "",
        "level": level,
    }
    if highest is not original:
        chosen = PickChosen(
            highest.candidate.id,
            update["ends"]["cheapest"],
            returned.candidate.id,
            reason,
            call_cost(context, highest),
            None if cheaper is None else call_cost(context, cheaper),
        )
        context.emit(chosen.to_dict())
    return returned


def confirm_winner(
    context: SearchContext,
    state: AutoPromptState,
    winner: Entry,
    update: Update,
    cheaper: Entry | None = None,
) -> Entry:
    """Return the winner if it is better than the original beyond luck, else the original.

    cheaper: rows of train leave calls for this one.
    """
    plan, original = context.plan, context.pool.original
    asked = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, plan.fresh, "fresh rows: winner and original", keeps_rest=True)
        context.evaluate(both, plan.race, "raced rows: winner and original", keeps_rest=True)
        if cheaper is not None and (calls := calls_for_cheaper(context, cheaper)):
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
    confirmation = replace(
        confirmation,
        train_rows=len(fresh.difference(plan.fresh_ids)),
        held_out_rows=len(fresh & {demo.example_id for demo in winner.candidate.demos}),
    )
    update["confirmation"] = plain(confirmation)
    context.emit(confirmation.to_dict())
    return winner if confirmation.confirmed else original


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
        cheaper: Asked for as many rows as the budget has beside the two others, if these can show its gain.

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
    is_cheaper_tested = (
        cheaper is not None
        and len(found) > 2
        and _asked_of_all(found[2:]) >= fewest_for_cheaper(context, cheaper)
    )
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


# What costs hardly less is no choice: answers alone differ by a token from one candidate to the next.
_LESS = 0.95

Reason = Literal["", "setting", "none", "no_budget", "not_level", "not_confirmed"]
"""Why the highest is returned: asked for, nothing cheaper is level, no calls, or behind on fresh rows.

"": it is not."""


def find_cheaper(context: SearchContext, highest: Entry) -> tuple[Entry | None, Reason]:
    """Return the cheapest candidate that is level with the highest on the raced rows, if there is one.

    Of all that finished the race, accepted or not.
    """
    if context.settings.pick == "highest":
        return None, "setting"
    pool, ids = context.pool, context.plan.race_ids
    most = _LESS * context.costs.amount(highest)
    level = [
        entry
        for entry in finishers(context, highest)
        if context.costs.amount(entry) <= most and is_level(pool, entry, highest, ids)
    ]
    if not level:
        return None, "none"
    return min(level, key=lambda entry: (context.costs.amount(entry), -entry.mean(ids))), ""


def calls_for_cheaper(context: SearchContext, cheaper: Entry) -> int:
    """Return the calls to keep back for the cheaper end when highest and original have their fresh rows.

    Those of the plan, and half of what else is left. 0 if they do not reach for its fresh rows and a part of
    the test: then rows of train, which can confirm the highest, get them.
    """
    plan, fresh, test = context.plan, len(context.plan.fresh), len(context.splits.test)
    wanted, left = plan.calls(fresh + test), context.budget.calls_left()
    if left is not None:
        kept = min(plan.pick_calls, left)
        wanted = min(wanted, kept + (left - kept) // 2)
    return wanted if wanted >= plan.calls(fresh + fewest_for_cheaper(context, cheaper)) else 0


def rows_for_cheaper(context: SearchContext, highest: Entry, cheaper: Entry) -> int:
    """Return how many test rows the budget has for the cheaper end beside the two others and their retries.

    0 if they are too few to show its gain.
    """
    if not context.hold_test(highest.candidate):
        return 0
    rows, plan = len(context.splits.test), context.plan

    def is_too_much(wanted: int) -> bool:
        try:
            context.check_calls(plan.calls(wanted), [cheaper.candidate])
        except BudgetExhausted:
            return True
        return False

    found = bisect_left(range(rows + 1), True, key=is_too_much) - 1
    return found if found >= fewest_for_cheaper(context, cheaper) else 0


def fewest_tested(rows: int) -> int:
    """Return how many rows of a sealed test say something of a candidate, where the budget is short."""
    return math.ceil(min(FEWEST_FRESH, rows / 2))


# A part of the test is enough for the cheaper end where it shows the gain of the rows before it so surely.
_POWER = 0.95


def fewest_for_cheaper(context: SearchContext, cheaper: Entry) -> int:
    """Return how many rows of the sealed test show the cheaper end's gain: all, where no part is sure to.

    Fewer would turn a gain that the highest confirms on the whole test into one that is not confirmed. By its
    gain on the raced and fresh rows, so no answer of the test has a say in it.
    """
    test, pool = context.splits.test, context.pool
    before = [*context.plan.race_ids, *context.plan.fresh_ids]
    ours, theirs, _ = pool.shared(cheaper.candidate.id, pool.original.candidate.id, before)
    apart = [difference(a, b) for a, b in zip(ours, theirs, strict=True)]
    fixed, broken = sum(d > 0 for d in apart), sum(d < 0 for d in apart)
    needed = rows_to_show(fixed, broken, len(apart), _POWER)
    if needed is None:
        return len(test)
    per_group = len(test) / max(1, count_groups([row.group for row in test]))
    return min(len(test), max(fewest_tested(len(test)), math.ceil(needed * per_group)))


def confirm_cheaper(
    context: SearchContext, state: AutoPromptState, highest: Entry, cheaper: Entry
) -> tuple[dict[str, Any], Reason]:
    """Return how the cheaper end does on raced and fresh rows, and why it is out; "" if it is not.

    It must be level with the highest and better than the original beyond luck, as the highest was.
    """
    plan, pool = context.plan, context.pool
    if not context.hold_test(highest.candidate, plan.calls(fewest_for_cheaper(context, cheaper))):
        return {}, "no_budget"
    asked = list(plan.fresh)
    if not asked:  # rows of train that the two others have answered, if they are fresh for this one as well
        unseen = fresh_of_train(context, cheaper, state["history"], state["has_memory"]).unseen
        asked = [row for row in unseen if row.id in highest.scores and row.id not in highest.held_out]
    try:
        context.evaluate([cheaper], asked, "fresh rows: the cheaper prompt", keeps_rest=True)
    except BudgetExhausted:
        if plan.fresh:
            return {}, "no_budget"
    fresh = [row.id for row in asked if row.id in cheaper.scores]
    both = [*plan.race_ids, *fresh]
    ours, theirs, groups = pool.shared(cheaper.candidate.id, highest.candidate.id, both)
    known = is_remembered(context, cheaper, state["has_memory"])
    confirmation = confirm(pool, cheaper, plan.race_ids, fresh, is_remembered=known)
    rows = max(1, len(ours))
    found = {
        "rows": len(ours),
        "score": sum(ours) / rows,
        "highest_score": sum(theirs) / rows,
        "behind": difference(sum(theirs), sum(ours)) / rows,
        "standard_error": paired_error(ours, theirs, groups),
        "confirmation": plain(replace(confirmation, train_rows=len(set(fresh).difference(plan.fresh_ids)))),
    }
    if not is_level(pool, cheaper, highest, both):
        return found, "not_level"
    return found, "" if confirmation.confirmed else "not_confirmed"


def call_cost(context: SearchContext, entry: Entry) -> CallCost:
    """Return what a call costs: under the run's traffic, and if every call is cold or warm."""
    cost = context.costs.of(entry)
    cold, warm = (context.costs.of(entry, traffic).amount for traffic in (COLD, WARM))
    return CallCost(cost.unit, cost.amount, cold, warm)
