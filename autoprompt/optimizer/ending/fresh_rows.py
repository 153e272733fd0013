"""Rows of train that can confirm a candidate: unseen ones, and its own demonstrations, each left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.search.plan import interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Example

# Operators whose author learns how rows of train were answered, or read what earlier ones made of them.
_WRITTEN = frozenset(("patch", "rewrite", "recall"))
_INFORMED = _WRITTEN | {"demos_errors"}  # and the choice of wrong rows
# Operators that choose demonstrations, and do nothing else.
_SHOWN = frozenset(("demos", "demos_errors", "demos_varied", "demos_rebalanced"))


def ancestors(context: SearchContext, candidate: Candidate) -> list[Candidate]:
    """The candidate and all that it descends from, each once."""
    found: dict[str, Candidate] = {}
    waiting = [candidate]
    while waiting:
        current = waiting.pop()
        if current.id not in found:
            found[current.id] = current
            waiting += [context.pool[i].candidate for i in current.parents if i in context.pool]
    return list(found.values())


def is_remembered(context: SearchContext, winner: Entry, has_memory: bool) -> bool:
    """Whether the winner's makers may have used what earlier runs measured.

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
    """A step's demonstrations are chosen by which rows ended right, so the others are no fair sample."""
    return candidate.operator in _INFORMED or any(demo.component for demo in candidate.demos)


# Into how many parts its demonstrations fall, of which one is left out at a time. Leaving out single ones
# would be nearer to the whole, but has a model read nearly all of them anew for each row.
FOLDS = 4


def has_folds(candidate: Candidate, train: Iterable[Example]) -> bool:
    """Whether enough is left of it without a fold: of three demonstrations one is too many."""
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
