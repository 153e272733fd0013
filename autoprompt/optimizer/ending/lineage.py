"""Where a candidate comes from, and which rows nobody who made it has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.optimizer.context import SearchContext
from autoprompt.search.plan import interleave
from autoprompt.search.pool import Entry
from autoprompt.types import Candidate, Example

# Operators whose author is told how rows of train were answered, or read what earlier ones made of them.
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


def unseen(
    context: SearchContext,
    winner: Entry,
    history: Sequence[Mapping[str, Any]],
    has_memory: bool,
    *,
    holds_out: bool = False,
) -> list[Example]:
    """Rows of train that are no demonstration of `winner` or an ancestor, and of which no author was told.

    Nor do they belong together with such a row, which would tell as much, or with one of validation.
    history: the state's; its entries name the rows that each round's authors were told of.
    holds_out: whether each row will be asked without itself (see `held_out`). Then it may be a demonstration,
    and may have decided which rows are: what is left of these hardly depends on it.
    """
    if is_remembered(context, winner, has_memory):
        return []  # the authors of earlier runs may have been told of any row of train
    family = ancestors(context, winner.candidate)
    seen = {row_id for c in family if not (holds_out and c.operator in _SHOWN) for row_id in c.told}
    if not holds_out:
        seen |= {demo.example_id for candidate in family for demo in candidate.demos}
    is_told = _is_written if holds_out else _is_informed
    told_until = max((c.iteration for c in family if is_told(c)), default=0)
    for entry in history:
        if entry["iteration"] <= told_until:
            seen |= {row.example_id for row in context.read_results(entry["results"])}
    train = context.splits.train
    known = {row.group for row in train if row.id in seen} | {row.group for row in context.splits.val}
    known.discard(None)
    return interleave([row for row in train if row.id not in seen and row.group not in known])


def _is_written(candidate: Candidate) -> bool:
    return candidate.operator in _WRITTEN


def _is_informed(candidate: Candidate) -> bool:
    """A step's demonstrations are chosen by which rows ended right, so the others are no fair sample."""
    return candidate.operator in _INFORMED or any(demo.component for demo in candidate.demos)
