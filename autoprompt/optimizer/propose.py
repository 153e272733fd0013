"""Proposing a round's candidates: which operators, from which parents, and which drafts are let through."""

from __future__ import annotations

from collections import Counter

from autoprompt.errors import EndpointError, RequestRefusedError
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.drafts import Brief, Place, draft, partner_of, recalled
from autoprompt.optimizer.refusal import Refused, check_candidate
from autoprompt.search.operators import WRITERS, Means, choose_operators
from autoprompt.search.pareto import pick_parent
from autoprompt.search.pool import Entry
from autoprompt.types import Candidate


def propose(context: SearchContext, brief: Brief) -> list[Candidate]:
    """Up to `brief.number` new candidates, all different from each other and from those tried before.

    Raises the writer's error where nothing at all could be proposed because of it.
    """
    rng = context.rng("propose", brief.iteration)
    incumbent = context.pool[brief.incumbent]
    operators = choose_operators(
        brief.number, _means(context, incumbent, brief), brief.tally, brief.plateau, rng
    )
    proposals: list[Candidate] = []
    failure: EndpointError | RequestRefusedError | None = None
    drawn: Counter[str] = Counter()
    for slot, operator in enumerate(operators):
        # Demonstrations are varied around the best; texts start from a candidate that is best somewhere.
        is_text = operator in WRITERS
        parent = pick_parent(context.pool, context.plan.race_ids, rng) if is_text else incumbent
        if brief.plateau >= 3:
            parent = incumbent
        try:
            place = Place(slot, drawn["demos"] + drawn["demos_errors"], drawn["recall"])
            drawn[operator] += 1
            candidate = draft(context, brief, operator, parent, place, rng)
            check_candidate(context, candidate, proposals)
        except Refused as refusal:
            context.emit({"event": "candidate_refused", "operator": operator, "reason": str(refusal)})
            continue
        except (EndpointError, RequestRefusedError) as error:
            if getattr(error, "is_fatal", False):
                raise
            failure = error
            context.emit(
                {"event": "warning", "message": f"no proposal from the writer ({operator}): {error}"}
            )
            continue
        proposals.append(candidate)
        context.emit(
            {
                "event": "candidate_proposed",
                "id": candidate.id,
                "operator": operator,
                "parents": list(candidate.parents),
                "change": candidate.change,
            }
        )
    if failure is not None and not proposals:
        raise failure
    return proposals


def _means(context: SearchContext, incumbent: Entry, brief: Brief) -> Means:
    settings = context.settings
    text = incumbent.candidate.prompt
    return Means(
        recalls=sum(s not in text for s in recalled(brief.experiences)),
        writers=settings.depth.writers,
        can_demo=settings.can_demo and settings.max_demos > 0 and len(context.splits.train) > 0,
        has_demos=bool(incumbent.candidate.demos),
        has_errors=bool(brief.wrong_ids),
        has_partner=partner_of(context, incumbent) is not None,
    )
