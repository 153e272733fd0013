"""Who goes to the confirmation, which rows of train can speak there, and what else a user may rather have."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from autoprompt.measure.compare import LOPSIDED
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.search.gate import Prospect, foresee
from autoprompt.optimizer.search.operators import SIMPLIFIERS
from autoprompt.optimizer.search.plan import FEWEST_FRESH, interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.optimizer.search.race import is_behind
from autoprompt.records import Candidate, Example
from autoprompt.runs.events import WinnerChosen
from autoprompt.runs.result import Choice, TradeOff
from autoprompt.stats import count_groups, difference

# By how much more gain must be foreseen of another than of the best of the race: below it neither has a
# chance worth the question why the better one did not go.
_WORTH_CHOOSING = 0.01
# One that the best was made from goes instead where so many times the best one's rows are fresh for it, and
# the best one's chance is in doubt.
_TIMES_FRESHER, _IN_DOUBT = 2, 0.9
# With as many groups of fresh rows those of train that it shows are not asked, whatever its chance: of 150
# simulated rows, 30 of them fresh, they cost 14 calls and gained nothing.
_ENOUGH_FRESH = 30

Reason = Literal["fresher", "memory", "prospect"]
# Operators whose author learns how rows of train were answered, or read what earlier ones made of them.
_WRITTEN = frozenset(("patch", "rewrite", "recall"))
_INFORMED = _WRITTEN | {"demos_errors"}  # and the choice of wrong rows
# Operators that choose demonstrations, and do nothing else.
_SHOWN = frozenset(("demos", "demos_errors", "demos_varied", "demos_rebalanced"))
# Into how many parts its demonstrations fall, of which one is left out at a time. Leaving out single ones
# would be nearer to the whole, but has a model read nearly all of them anew for each row.
FOLDS = 4
MOST_CHOICES = 5  # that the result lists, beside the original and the best


@dataclass(frozen=True, slots=True)
class _Choice:
    """One that may go to the confirmation, and what that may bring.

    rows: that would be fresh for it; groups: in which these are. score: its mean on the raced rows.
    """

    entry: Entry
    rows: int
    groups: int
    prospect: Prospect
    score: float


def choose_winner(context: SearchContext, state: AutoPromptState, best: Entry) -> Entry:
    """Who goes to the confirmation: the best of the race, or one that the other rows can say more of.

    What its writers learned takes rows of train, and so do demonstrations that cannot be left out: those of
    a child are of no use for its confirmation. Where rows are few, what it was made from may be confirmed,
    and it not. So one that the best was made from goes where it is about as good and far more rows are fresh
    for it; else the one of which most gain is foreseen, by a margin where it is of another line.
    """
    # Not simpler forms of the best: one that is ahead is so by luck, and can be the cheaper end.
    others = [
        entry
        for entry in finishers(context, best)
        if entry.status == "accepted" and entry.candidate.operator not in SIMPLIFIERS
    ]
    left = context.budget.block_calls_left()  # beside what is held for the fresh rows of validation
    choices = [_choice(context, state, entry, left) for entry in (best, *others)]
    of_best = choices[0]
    line = {candidate.id for candidate in ancestors(context, best.candidate)}
    fresher = _fresher_ancestors(context, of_best, [c for c in choices if c.entry.candidate.id in line])
    chosen = max(
        fresher or choices,
        # What it was made from was chosen by less luck, so that it needs no margin.
        key=lambda choice: choice.prospect.value - (choice.entry.candidate.id not in line) * _WORTH_CHOOSING,
    )
    if chosen is not of_best:
        known = [is_remembered(context, choice.entry, state["has_memory"]) for choice in (of_best, chosen)]
        reason: Reason = "fresher" if fresher else "memory" if known == [True, False] else "prospect"
        _tell(context, chosen, of_best, reason)
    return chosen.entry


def _tell(context: SearchContext, chosen: _Choice, of_best: _Choice, reason: Reason) -> None:
    context.emit(
        WinnerChosen(
            id=chosen.entry.candidate.id,
            instead_of=of_best.entry.candidate.id,
            reason=reason,
            score=chosen.score,
            score_of_best=of_best.score,
            fresh_rows=chosen.rows,
            fresh_rows_of_best=of_best.rows,
        ).to_dict()
    )


def _choice(context: SearchContext, state: AutoPromptState, entry: Entry, calls_left: int | None) -> _Choice:
    fresh = rows_to_ask(context, state, entry, calls_left)
    return _foreseen(context, state, entry, [*fresh.unseen, *fresh.shown])


def _foreseen(
    context: SearchContext, state: AutoPromptState, entry: Entry, of_train: Sequence[Example]
) -> _Choice:
    """Return the entry with what confirming it may bring where these rows of train are fresh for it."""
    plan = context.plan
    fresh = [*plan.fresh, *of_train]
    groups = count_groups([row.group for row in fresh])
    is_known = is_remembered(context, entry, state["has_memory"])
    prospect = foresee(context.pool, entry, plan.race_ids, groups, is_remembered=is_known)
    return _Choice(entry, len(fresh), groups, prospect, entry.mean(plan.race_ids))


def _fresher_ancestors(context: SearchContext, best: _Choice, line: Sequence[_Choice]) -> list[_Choice]:
    """Return those of its line that are about as good by the race's own test, with far more fresh rows.

    None where the best is as good as sure, nor where no row of validation is fresh, as there it cost gain: of
    44 simulated rows +0.094 instead of +0.100.
    """
    plan = context.plan
    if not plan.fresh or best.prospect.chance >= _IN_DOUBT:
        return []
    return [
        choice
        for choice in line
        if choice is not best
        and choice.groups >= _TIMES_FRESHER * best.groups
        and choice.prospect.value > _WORTH_CHOOSING
        and not is_behind(context.pool, best.entry, choice.entry, plan.race_ids)
    ]


def rows_to_ask(
    context: SearchContext, state: AutoPromptState, winner: Entry, calls_left: int | None
) -> FreshRows:
    """As many rows of train as raced, as far as the calls reach: more rows see smaller gains.

    Those that it shows count only where the others leave its chance in doubt. The chance has no say where
    fewer than FEWEST_FRESH are fresh: as their weight goes by their number, a race that is lucky would choose
    the weight that suits it. Of coin flips 7% were confirmed so where none was fresh, and 5% without.
    """
    most = len(context.plan.race)
    if calls_left is not None:
        most = min(most, int(calls_left / (2 * context.plan.calls_per_row)))
    fresh = fresh_of_train(context, winner, state["history"], state["has_memory"])
    unseen = fresh.unseen[:most]
    found = _foreseen(context, state, winner, unseen)
    is_sure = found.groups >= FEWEST_FRESH and found.prospect.chance >= _IN_DOUBT
    if is_sure or found.groups >= _ENOUGH_FRESH or not has_folds(winner.candidate, context.splits.train):
        return FreshRows(unseen, [])
    return FreshRows(unseen, fresh.shown[: most - len(unseen)])


def finishers(context: SearchContext, best: Entry) -> list[Entry]:
    """Return the others that have finished the race: all its rows, but for those that the endpoint lost.

    None if more than a tenth is missing: then a budget has ended the race of the best on its way.
    """
    ids = _raced_ids(context, best)
    if not ids or len(ids) < (1 - LOPSIDED) * len(context.plan.race):
        return []
    others = (entry for entry in context.pool.entries if entry not in (best, context.pool.original))
    return [entry for entry in others if all(i in entry.scores for i in ids)]


def _raced_ids(context: SearchContext, best: Entry) -> list[str]:
    """Return the rows of the race that the endpoint has lost for neither `best` nor the original."""
    original = context.pool.original
    return [i for i in context.plan.race_ids if i in original.scores and i in best.scores]


def trade_off(
    context: SearchContext,
    best: Entry,
    other: Entry | None = None,
    leader: Entry | None = None,
    *,
    is_test_opened: bool = True,
) -> TradeOff | None:
    """Return the original, both ends and the choices between, the cheapest first; None without a choice.

    A choice was ahead of the original on the raced rows, costs less than the dearer end, and no other
    candidate is both better and cheaper. None left the race early. `score`: mean on the `rows` rows of the
    race, which chose the ends, so no proof of anything: only what `is_tested` met the sealed test.

    Args:
        best: What the run returns.
        other: The other tested end.
        leader: The one that led the race, if another was confirmed in its place.
        is_test_opened: Whether the ends and the original met a sealed test.
    """
    original, ids = context.pool.original, _raced_ids(context, best)
    if not ids:
        return None
    raced = [e for e in context.pool.entries if all(i in e.scores for i in ids)]
    costs = {e.candidate.id: context.costs.of(e) for e in raced}
    ends = [best, *([other] if other in raced else [])]
    limit = math.inf if best is original else max(costs[e.candidate.id].amount for e in ends)
    choices, highest = [], original.mean(ids)
    for entry in sorted(raced, key=lambda e: (costs[e.candidate.id], -e.mean(ids))):
        if difference(entry.mean(ids), highest) > 0 and costs[entry.candidate.id].amount < limit:
            highest = entry.mean(ids)
            choices.append(entry)
    choices = choices[-MOST_CHOICES:]
    led = [leader] if leader in raced and best is not original else []
    shown = {e.candidate.id: e for e in (original, *choices, *ends, *led)}
    if len(shown) <= 1 + (best is not original):
        return None
    shown_in_order = sorted(shown.items(), key=lambda item: costs[item[0]])
    return TradeOff(
        rows=len(ids),
        candidates=tuple(
            Choice(
                id=name,
                operator=entry.candidate.operator,
                demos=len(entry.candidate.demos),
                tokens=context.costs.tokens(entry),
                score=entry.mean(ids),
                is_best=entry is best,
                is_tested=is_test_opened and (entry is original or entry in ends),
                cost=costs[name],
            )
            for name, entry in shown_in_order
        ),
    )


def ancestors(context: SearchContext, candidate: Candidate) -> list[Candidate]:
    """Return the candidate and all that it descends from, each once."""
    found: dict[str, Candidate] = {}
    waiting = [candidate]
    while waiting:
        current = waiting.pop()
        if current.id not in found:
            found[current.id] = current
            waiting += [context.pool[i].candidate for i in current.parents if i in context.pool]
    return list(found.values())


def is_remembered(context: SearchContext, winner: Entry, has_memory: bool) -> bool:
    """Return whether the winner's makers may have used what earlier runs measured.

    has_memory: whether the run began with experiences, which its writers were then shown.
    """
    operators = {candidate.operator for candidate in ancestors(context, winner.candidate)}
    return has_memory and bool(operators & _WRITTEN)


@dataclass(frozen=True, slots=True)
class FreshRows:
    """Rows of train that can speak for a candidate, each part in its targets' shares from the beginning on.

    unseen: no demonstration of it or of an ancestor, and no author learned of them. shown: the others that
    no author learned of, if each is asked without itself (see `held_out`). They may be demonstrations, and
    may have decided which rows are: what is left of these hardly depends on such a row.
    Neither belongs together with a row that an author learned of, which would tell as much, or with one of
    validation.
    """

    unseen: list[Example]
    shown: list[Example]


def fresh_of_train(
    context: SearchContext, winner: Entry, history: Sequence[Mapping[str, Any]], has_memory: bool
) -> FreshRows:
    """history: the state's; its entries name the rows that each round's authors learned of."""
    if is_remembered(context, winner, has_memory):
        return FreshRows([], [])  # the authors of earlier runs may have been told of any row of train
    family = ancestors(context, winner.candidate)
    told_until = max((c.iteration for c in family if _is_informed(c)), default=0)
    written_until = max((c.iteration for c in family if c.operator in _WRITTEN), default=0)
    told = {row_id for c in family if c.operator not in _SHOWN for row_id in c.told}
    seen = {row_id for c in family for row_id in (*c.told, *(demo.example_id for demo in c.demos))}
    for entry in history:
        if entry["iteration"] <= told_until:
            looked_at = {row.example_id for row in context.read_results(entry["results"])}
            seen |= looked_at
            told |= looked_at if entry["iteration"] <= written_until else set()
    unseen = _apart_from(context, seen)
    known = {row.id for row in unseen}
    return FreshRows(unseen, [row for row in _apart_from(context, told) if row.id not in known])


def _apart_from(context: SearchContext, row_ids: Collection[str]) -> list[Example]:
    """Rows of train that are none of these, and belong together with none of them, nor of validation."""
    train = context.splits.train
    known = {row.group for row in train if row.id in row_ids} | {row.group for row in context.splits.val}
    known.discard(None)
    return interleave([row for row in train if row.id not in row_ids and row.group not in known])


def _is_informed(candidate: Candidate) -> bool:
    """Return whether rows that ended right chose its demonstrations: the others are no fair sample then."""
    return candidate.operator in _INFORMED or any(demo.component for demo in candidate.demos)


def has_folds(candidate: Candidate, train: Iterable[Example]) -> bool:
    """Return whether enough is left of it without a fold: of three demonstrations one is too many."""
    return len({row.unit for row in _shown(candidate, train)}) >= FOLDS


def held_out(
    candidate: Candidate, rows: Iterable[Example], train: Iterable[Example]
) -> list[tuple[Candidate, list[Example]]]:
    """`rows` of train, and for each what to ask it with: `candidate` less the demonstrations of its fold.

    Rows that do not belong to a demonstration are asked with all of them. Rows of one group are in one fold,
    as they would give each other away; each fold has about the same share of every target.
    """
    by_target = sorted(_shown(candidate, train), key=lambda row: row.target_text)
    units = dict.fromkeys(row.unit for row in by_target)
    folds = {unit: number % FOLDS for number, unit in enumerate(units)}
    fold_of = {row.id: folds[row.unit] for row in by_target}
    asked: dict[int | None, list[Example]] = {}
    for row in rows:
        asked.setdefault(folds.get(row.unit), []).append(row)
    return [
        (candidate if fold is None else _without(candidate, fold, fold_of), of_fold)
        for fold, of_fold in asked.items()
    ]


def _shown(candidate: Candidate, train: Iterable[Example]) -> list[Example]:
    ids = {demo.example_id for demo in candidate.demos}
    return [row for row in train if row.id in ids]


def _without(candidate: Candidate, fold: int, fold_of: Mapping[str, int]) -> Candidate:
    left = tuple(demo for demo in candidate.demos if fold_of.get(demo.example_id) != fold)
    return replace(candidate, demos=left, id="")
