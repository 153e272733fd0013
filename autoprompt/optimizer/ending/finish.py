"""The end of a run: the winner meets the original on fresh rows, then the sealed test is opened once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autoprompt.errors import BudgetExhausted
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.ending.held_out import has_folds, held_out
from autoprompt.optimizer.ending.lineage import FreshRows, ancestors, fresh_of_train, is_remembered
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.search.gate import confirm
from autoprompt.search.plan import FEWEST_FRESH
from autoprompt.search.pool import Entry
from autoprompt.search.prospects import Prospect, foresee
from autoprompt.search.race import is_behind
from autoprompt.stats import count_groups
from autoprompt.store.folder import SEALED
from autoprompt.types import Example

Update = AutoPromptState

# By how much more gain must be foreseen of another than of the best of the race: below it neither has a
# chance worth the question why the better one did not go.
_WORTH_CHOOSING = 0.01
# One that the best was made from goes instead where so many times the best one's rows are fresh for it, and
# the best one's chance is in doubt.
_TIMES_FRESHER, _IN_DOUBT = 2, 0.9
# With as many groups of fresh rows those of train that it shows are not asked, whatever its chance: of 150
# simulated rows, 30 of them fresh, they cost 14 calls and gained nothing.
_ENOUGH_FRESH = 30


@dataclass(frozen=True, slots=True)
class _Choice:
    """One that may go to the confirmation, and what that may bring."""

    entry: Entry
    rows: int  # that would be fresh for it
    groups: int  # in which these are
    prospect: Prospect


def choose_winner(context: SearchContext, state: AutoPromptState, best: Entry) -> Entry:
    """Who goes to the confirmation: the best of the race, or one that the other rows can say more of.

    What its writers were told takes rows of train, and so do demonstrations that cannot be left out: those of
    a child are of no use for its confirmation. Where rows are few, what it was made from may be confirmed,
    and it not. So one that the best was made from goes where it is about as good and far more rows are fresh
    for it; else the one of which most gain is foreseen, by a margin.
    """
    plan, pool = context.plan, context.pool
    raced = [e for e in pool.accepted() if e is not pool.original and e is not best]
    left = context.budget.calls_left()  # beside what is held for the fresh rows of validation
    choices = [
        _choice(context, state, entry, left)
        for entry in (best, *(e for e in raced if all(i in e.scores for i in plan.race_ids)))
    ]
    of_best = choices[0]
    chosen = max(
        _fresher_ancestors(context, of_best, choices) or choices,
        key=lambda choice: choice.prospect.value - (choice is not of_best) * _WORTH_CHOOSING,
    )
    if chosen is not of_best:
        context.emit(
            {
                "event": "winner_chosen",
                "id": chosen.entry.candidate.id,
                "instead_of": best.candidate.id,
                "fresh_rows": chosen.rows,
                "fresh_rows_of_best": of_best.rows,
            }
        )
    return chosen.entry


def _choice(context: SearchContext, state: AutoPromptState, entry: Entry, calls_left: int | None) -> _Choice:
    fresh = _to_ask(context, state, entry, calls_left)
    return _foreseen(context, state, entry, [*fresh.unseen, *fresh.shown])


def _foreseen(
    context: SearchContext, state: AutoPromptState, entry: Entry, of_train: Sequence[Example]
) -> _Choice:
    """The entry with what confirming it may bring where these rows of train are fresh for it."""
    plan = context.plan
    fresh = [*plan.fresh, *of_train]
    groups = count_groups([row.group for row in fresh])
    is_known = is_remembered(context, entry, state["has_memory"])
    prospect = foresee(context.pool, entry, plan.race_ids, groups, is_remembered=is_known)
    return _Choice(entry, len(fresh), groups, prospect)


def _fresher_ancestors(context: SearchContext, best: _Choice, choices: Sequence[_Choice]) -> list[_Choice]:
    """Those that the best was made from, about as good by the race's own test, with far more fresh rows.

    None where the best is as good as sure, nor where no row of validation is fresh, as there it cost gain: of
    44 simulated rows +0.094 instead of +0.100.
    """
    plan = context.plan
    if not plan.fresh or best.prospect.chance >= _IN_DOUBT:
        return []
    line = {candidate.id for candidate in ancestors(context, best.entry.candidate)}
    return [
        choice
        for choice in choices
        if choice is not best
        and choice.entry.candidate.id in line
        and choice.groups >= _TIMES_FRESHER * best.groups
        and choice.prospect.value > _WORTH_CHOOSING
        and not is_behind(context.pool, best.entry, choice.entry, plan.race_ids)
    ]


def _to_ask(
    context: SearchContext, state: AutoPromptState, winner: Entry, calls_left: int | None
) -> FreshRows:
    """As many rows of train as raced, as far as the calls reach: more rows see smaller gains.

    Those that it shows count only where the others leave its chance in doubt. The chance has no say where
    fewer than FEWEST_FRESH are fresh: as their weight goes by their number, a race that is lucky would choose
    the weight that suits it. Of coin flips 7% were confirmed so where none was fresh, and 5% without.
    """
    most = len(context.plan.race)
    if calls_left is not None:
        most = min(most, calls_left // (2 * context.plan.calls_per_row))
    fresh = fresh_of_train(context, winner, state["history"], state["has_memory"])
    unseen = fresh.unseen[:most]
    found = _foreseen(context, state, winner, unseen)
    is_sure = found.groups >= FEWEST_FRESH and found.prospect.chance >= _IN_DOUBT
    if is_sure or found.groups >= _ENOUGH_FRESH or not has_folds(winner.candidate, context.splits.train):
        return FreshRows(unseen, [])
    return FreshRows(unseen, fresh.shown[: most - len(unseen)])


def confirm_winner(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> Entry:
    """The winner if it is better than the original beyond luck, else the original."""
    plan, original = context.plan, context.pool.original
    fresh = list(plan.fresh)
    both = [original, winner]
    try:
        # First what the calls were kept back for.
        context.evaluate(both, fresh, "fresh rows: winner and original")
        context.evaluate(both, plan.race, "raced rows: winner and original")
        of_train = _to_ask(context, state, winner, context.budget.calls_left())
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
