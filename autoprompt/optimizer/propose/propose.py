"""Proposing a round's candidates: which operators, and which drafts are let through.

All start from the best so far. Parents that are best on some rows (Pareto, as in GEPA) gained less in
simulation: benchmarks/docs/search.md.
"""

from __future__ import annotations

from collections import Counter, deque

from autoprompt.errors import EndpointError, RequestRefusedError
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.brief import (
    FEWEST_EXAMPLES,
    Brief,
    Place,
    answers_to_show,
    blamed_first,
    demonstrable,
)
from autoprompt.optimizer.propose.drafts import draft, recallable
from autoprompt.optimizer.propose.merging import partner_of
from autoprompt.optimizer.propose.refusal import Refused, check_candidate
from autoprompt.optimizer.propose.showing import can_show, leaning
from autoprompt.optimizer.propose.turn import Turn
from autoprompt.optimizer.search.demos import lean
from autoprompt.optimizer.search.operators import TELLERS, Means, OperatorName, choose_operators
from autoprompt.optimizer.search.plan import FEWEST_TOLD
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, warning_event
from autoprompt.text.answers.reasoning import asks_to_reason

# From this share of answers that should be another label the demonstrations' labels are shifted, seen on so
# many rows at least: with fewer, chance leans as far.
LEANS, FEWEST_ANSWERS = 0.1, 20


def propose(context: SearchContext, brief: Brief) -> list[Candidate]:
    """Up to `brief.number` new candidates, all different from each other and from those tried before.

    Raises the writer's error where nothing at all could be proposed because of it.
    """
    rng = context.rng("propose", brief.iteration)
    incumbent = context.pool[brief.incumbent]
    means = _means(context, incumbent, brief)
    operators = deque(choose_operators(brief.number, means, brief.tally, rng))
    proposals: list[Candidate] = []
    failure: EndpointError | RequestRefusedError | None = None
    drawn: Counter[str] = Counter()
    untold = 0  # descriptions and words that were refused leave their number of demonstrations to the next
    while operators:
        operator = operators.popleft()
        told = drawn["describe"] + drawn["cues"]
        sets = drawn["demos"] + drawn["demos_errors"] + told - untold
        place = Place(drawn.total(), sets, drawn["recall"], told)
        drawn[operator] += 1
        try:
            candidate = draft(Turn(context, brief, operator, incumbent, place, rng))
            check_candidate(context, candidate, proposals)
        except (Refused, EndpointError, RequestRefusedError) as error:
            if isinstance(error, Refused):
                context.emit({"event": "candidate_refused", "operator": operator, "reason": str(error)})
            else:
                if getattr(error, "is_fatal", False):
                    raise
                failure = error
                text = f"no proposal from the writer ({operator}): {error}"
                context.emit(warning_event(text))
            untold += operator in TELLERS
            operators.extend(_instead(operator, means))
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


def _instead(operator: OperatorName, means: Means) -> list[OperatorName]:
    """What takes the place of a refused draft: the race is paid for.

    A text for a text that told nothing; else another draw of demonstrations, which costs no call.
    """
    if operator in TELLERS and means.writers > 0 and means.can_rewrite:
        return ["rewrite"]
    return ["demos"] if means.can_demo and operator != "demos" else []


def _means(context: SearchContext, incumbent: Entry, brief: Brief) -> Means:
    settings = context.settings
    name = blamed_first(context, brief)
    can_demo = can_show(context) and len(context.splits.train) > 0
    return Means(
        recalls=len(recallable(brief, incumbent.candidate.components[name])),
        writers=settings.depth.writers,
        can_rewrite=settings.depth.rewrites,
        can_demo=can_demo and _has_examples(context, incumbent, brief),
        has_demos=bool(incumbent.candidate.demos),
        has_errors=bool(brief.wrong_ids),
        has_partner=partner_of(context, incumbent) is not None,
        can_tell=len(context.splits.train) >= FEWEST_TOLD,
        has_labels=len(context.settings.labels) > 1,
        is_leaning=context.settings.answers_rows and _is_leaning(context, incumbent),
        can_reason=_can_reason(context, incumbent, brief),
    )


def _has_examples(context: SearchContext, incumbent: Entry, brief: Brief) -> bool:
    if not context.settings.answers_rows:
        return bool(demonstrable(context, brief))
    prompt = incumbent.candidate.prompt
    if not asks_to_reason(prompt):
        return True
    return len(answers_to_show(context, brief, prompt) or {}) >= FEWEST_EXAMPLES


def _can_reason(context: SearchContext, incumbent: Entry, brief: Brief) -> bool:
    """Raced at most once in a run, and not where the model reasons anyway: its answers are dear."""
    prompt = incumbent.candidate.prompt
    is_new = "reason" not in brief.tally and not asks_to_reason(prompt)
    return context.settings.can_reason and is_new and answers_to_show(context, brief, prompt) is None


def _is_leaning(context: SearchContext, incumbent: Entry) -> bool:
    answered, expected = leaning(context, incumbent)
    return expected.total() >= FEWEST_ANSWERS and lean(answered, expected) >= LEANS
