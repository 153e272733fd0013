"""Drafting one candidate by one operator: a text from the writer or the memory, demonstrations, or both
joined."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.refusal import Refused, check_text, kept_passages
from autoprompt.search import demos as demo_sets
from autoprompt.search.operators import WRITERS, OperatorName
from autoprompt.search.pool import Entry
from autoprompt.tokens import estimate_tokens
from autoprompt.types import Candidate, Demo, Example


@dataclass(frozen=True, slots=True)
class Brief:
    """What the rewrite node hands over: the state's part in a round of proposals.

    experiences: text for the writer. helped: sentences that helped where they were added, in this run or in
    earlier ones on such tasks, the best first.
    """

    iteration: int
    incumbent: str
    number: int
    analysis: Mapping[str, Any]
    experiences: str
    rejected: Sequence[str]
    tally: Mapping[str, Sequence[int]]
    plateau: int
    wrong_ids: frozenset[str]
    helped: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Which proposal of the round this is: of all, of those that draw demonstrations, of those that
    recall."""

    slot: int
    draw: int
    recall: int


def draft(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    """One candidate by one operator. Raises Refused, or the writer's error."""
    if operator in WRITERS:
        return _write(context, brief, operator, parent, place, rng)
    if operator == "recall":
        return _recall(context, brief, parent, place)
    if operator == "combine":
        partner = partner_of(context, parent)
        if partner is None:
            raise Refused("no other candidate to combine with")
        source = parent.candidate if parent.candidate.demos else partner.candidate
        text = partner.candidate if source is parent.candidate else parent.candidate
        return Candidate(
            components=text.components,
            demos=source.demos,
            parents=(parent.candidate.id, partner.candidate.id),
            operator=operator,
            iteration=brief.iteration,
            change=f"the instruction of one candidate with the {len(source.demos)} demonstrations of another",
        )
    return _show(context, brief, operator, parent, place, rng)


def _write(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    components = dict(parent.candidate.components)
    name = rng.choice(sorted(components))
    original = context.program.components[name]
    proposal = context.rewriting.rewrite(
        original,
        components[name],
        dict(brief.analysis),
        brief.iteration,
        brief.experiences,
        operator="patch" if operator == "patch" else "rewrite",
        rejected=brief.rejected,
        keep=kept_passages(context, original, components[name]),
        seed=context.seed("write", brief.iteration, place.slot),
    )
    if proposal.is_cut:
        raise Refused("the writer's answer was cut")
    check_text(context, original, components[name], proposal.text)
    return Candidate(
        components={**components, name: proposal.text},
        demos=parent.candidate.demos,
        parents=(parent.candidate.id,),
        operator=operator,
        iteration=brief.iteration,
        change=proposal.change,
    )


def recallable(brief: Brief, text: str) -> list[str]:
    """What helped before and is not in `text` yet, whatever its line breaks there, the best first."""
    known = " ".join(text.split())
    return [s for s in dict.fromkeys(brief.helped) if " ".join(s.split()) not in known]


def _recall(context: SearchContext, brief: Brief, parent: Entry, place: Place) -> Candidate:
    """The parent with what helped before: first all of it together, then one sentence at a time. Asks no
    model."""
    name = sorted(parent.candidate.components)[0]
    before = parent.candidate.components[name]
    missing = recallable(brief, before)
    choices = [missing, *([s] for s in missing)] if len(missing) > 1 else [missing]
    if not missing or place.recall >= len(choices):
        raise Refused("nothing more to recall")
    text = before.rstrip() + "\n" + "\n".join(choices[place.recall])
    check_text(context, context.program.components[name], before, text)
    return Candidate(
        components={**parent.candidate.components, name: text},
        demos=parent.candidate.demos,
        parents=(parent.candidate.id,),
        operator="recall",
        iteration=brief.iteration,
        change="added: " + " ".join(choices[place.recall]),
    )


def partner_of(context: SearchContext, entry: Entry) -> Entry | None:
    """The best accepted candidate with another text, for its text joined with this one's demonstrations."""
    ids = context.plan.race_ids
    others = [
        e
        for e in context.pool.accepted()
        if dict(e.candidate.components) != dict(entry.candidate.components)
        and e.candidate.demos != entry.candidate.demos
    ]
    return max(others, key=lambda e: e.mean_merit(ids), default=None)


def _show(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    train, settings = context.splits.train, context.settings
    size = _size(context, brief, place.draw, rng)
    rows: list[Example]
    if operator == "demos_varied" and parent.candidate.demos:
        rows = demo_sets.varied(train, [d.example_id for d in parent.candidate.demos], rng)
        change = f"a quarter of the {len(rows)} demonstrations exchanged"
    elif operator == "demos_errors":
        rows = demo_sets.with_errors(train, brief.wrong_ids, size, rng)
        change = f"{len(rows)} demonstrations, among them rows that it got wrong"
    else:
        rows = demo_sets.balanced(train, size, rng)
        change = f"{len(rows)} demonstrations, balanced over the answers"
    demos = _fitting(parent.candidate, [demo_sets.to_demo(r) for r in rows], settings.max_prompt_tokens)
    if not demos:
        raise Refused(f"no demonstration fits into {settings.max_prompt_tokens} tokens")
    if len(demos) < len(rows):
        change = change.replace(str(len(rows)), str(len(demos)), 1)
    return Candidate(
        components=parent.candidate.components,
        demos=demos,
        parents=(parent.candidate.id,),
        operator=operator,
        iteration=brief.iteration,
        change=change,
    )


def _size(context: SearchContext, brief: Brief, number: int, rng: random.Random) -> int:
    """How many demonstrations: sizes take turns where the best has none, else they are drawn near its own."""
    most = min(context.settings.max_demos, len(context.splits.train))
    current = len(context.pool[brief.incumbent].candidate.demos)
    if current:
        return min(most, max(2, rng.choice((current // 2, current, current, current * 2))))
    sizes = [s for s in demo_sets.SIZES if s <= most] or [most]
    return sizes[number % len(sizes)]


def _fitting(candidate: Candidate, demos: Sequence[Demo], most_tokens: int) -> tuple[Demo, ...]:
    """The longest beginning of `demos` with which the prompt stays within `most_tokens` (estimated)."""
    left = most_tokens - sum(estimate_tokens(text) for text in candidate.components.values())
    kept: list[Demo] = []
    for demo in demos:
        left -= estimate_tokens(demo.input) + estimate_tokens(demo.output) + 8  # 8: the turns' own markers
        if left < 0:
            break
        kept.append(demo)
    return tuple(kept)
