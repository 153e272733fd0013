"""Joining two candidates: one's text with another's demonstrations, or what each changed of a program."""

from __future__ import annotations

from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate
from autoprompt.text.answers.reasoning import asks_to_reason
from autoprompt.text.names import counted


def partner_of(context: SearchContext, entry: Entry) -> Entry | None:
    """The best accepted candidate that `entry` can be joined with; None where there is none."""
    ids = context.plan.race_ids
    fits = _has_more if len(entry.candidate.components) > 1 else _differs
    others = [e for e in context.pool.accepted() if fits(context, entry.candidate, e.candidate)]
    return max(others, key=lambda e: e.mean_merit(ids), default=None)


def _differs(_: SearchContext, one: Candidate, other: Candidate) -> bool:
    """Another text, for its text joined with this one's demonstrations; those of answers given at once do not
    go with one that reasons."""
    is_alike = asks_to_reason(one.prompt) == asks_to_reason(other.prompt)
    return is_alike and dict(other.components) != dict(one.components) and other.demos != one.demos


def _has_more(context: SearchContext, one: Candidate, other: Candidate) -> bool:
    """Changes in components that `one` has left as they were, and `one` has changed something itself."""
    original = context.pool.original.candidate
    mine = one.changed_since(original)
    return bool(mine) and not set(other.changed_since(original)) <= set(mine)


def joined(context: SearchContext, parent: Entry, partner: Entry, iteration: int) -> Candidate:
    if len(parent.candidate.components) > 1:
        return _merged(context, parent.candidate, partner.candidate, iteration)
    source = parent.candidate if parent.candidate.demos else partner.candidate
    shown = counted(len(source.demos), "demonstration")
    text = partner.candidate if source is parent.candidate else parent.candidate
    return Candidate(
        components=text.components,
        demos=source.demos,
        parents=(parent.candidate.id, partner.candidate.id),
        operator="combine",
        iteration=iteration,
        change=f"the instruction of one candidate with the {shown} of another",
    )


def _merged(context: SearchContext, one: Candidate, other: Candidate, iteration: int) -> Candidate:
    """`one` with the components of `other` that `one` has left as they were."""
    original = context.pool.original.candidate
    mine = set(one.changed_since(original))
    taken = [name for name in other.changed_since(original) if name not in mine]
    texts = {name: (other if name in taken else one).components[name] for name in one.components}
    demos = [d for name in texts for d in (other if name in taken else one).demos_of(name)]
    return Candidate(
        components=texts,
        demos=tuple(demos),
        parents=(one.id, other.id),
        operator="combine",
        iteration=iteration,
        change=f"one candidate with {', '.join(taken)} of another",
    )
