"""One proposal of a round: what it is made from, and the candidate that comes of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.brief import Brief, Place
from autoprompt.optimizer.search.operators import OperatorName
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Demo


@dataclass(frozen=True, slots=True)
class Turn:
    """An operator's turn in a round, upon `parent`."""

    context: SearchContext
    brief: Brief
    operator: OperatorName
    parent: Entry
    place: Place
    rng: random.Random = field(repr=False)

    def child(
        self,
        change: str,
        *,
        texts: Mapping[str, str] | None = None,
        demos: tuple[Demo, ...] | None = None,
        told: tuple[str, ...] = (),
    ) -> Candidate:
        """The parent with other texts (by component) or other demonstrations; the rest is as it was."""
        candidate = self.parent.candidate
        return Candidate(
            components={**candidate.components, **(texts or {})},
            demos=candidate.demos if demos is None else demos,
            parents=(candidate.id,),
            operator=self.operator,
            iteration=self.brief.iteration,
            change=change,
            told=told,
        )
