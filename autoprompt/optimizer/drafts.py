"""Drafting one candidate by one operator: a text from the writer or the memory, demonstrations, or both
joined."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from autoprompt.optimizer.brief import (
    Brief,
    Place,
    analysis_for,
    blamed_first,
    component_of,
    is_single,
    named,
    shown_with,
    step_view,
)
from autoprompt.optimizer.context import SearchContext, demo_tokens
from autoprompt.optimizer.merging import joined, partner_of
from autoprompt.optimizer.refusal import Refused, check_text, kept_passages
from autoprompt.optimizer.telling import described, tell, with_lines
from autoprompt.program import placeholders
from autoprompt.search import demos as demo_sets
from autoprompt.search.operators import WRITERS, OperatorName
from autoprompt.search.pool import Entry
from autoprompt.tokens import estimate_tokens
from autoprompt.types import Candidate, Demo, Example

MOST_SHOWN = 0.9  # of the rows there are: some must be left to look for errors, and to confirm with
TEXT_ALONE = 3  # every third telling comes without demonstrations: both add up, but are not always wanted


def draft(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    """One candidate by one operator. Raises Refused, or the writer's error."""
    if operator in ("describe", "cues"):
        return _tell(context, brief, operator, parent, place, rng)
    if operator in WRITERS:
        return _write(context, brief, operator, parent, place, rng)
    if operator == "recall":
        return _recall(context, brief, parent, place)
    if operator == "combine":
        partner = partner_of(context, parent)
        if partner is None:
            raise Refused("no other candidate to combine with")
        return joined(context, parent, partner, brief.iteration)
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
    name = component_of(context, brief, place, rng)
    original = context.program.components[name]
    proposal = context.rewriting.rewrite(
        original,
        components[name],
        analysis_for(brief, name),
        brief.iteration,
        brief.experiences,
        operator="patch" if operator == "patch" else "rewrite",
        rejected=brief.rejected,
        keep=kept_passages(context, original, components[name]),
        step=step_view(context, brief, name),
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
        change=named(context, name, proposal.change),
    )


def _tell(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    """The parent saying what the answers mean; two of three times with demonstrations, if it has none."""
    name, train = _told_from(context, brief, place)
    before = parent.candidate.components[name]
    lines, told = tell(context, operator, name, train, place, rng)
    text = with_lines(before, lines, placeholders(before, tuple(context.splits.train[0].fields)))
    check_text(context, context.program.components[name], before, text)
    candidate = Candidate(
        components={**parent.candidate.components, name: text},
        demos=parent.candidate.demos,
        parents=(parent.candidate.id,),
        operator=operator,
        iteration=brief.iteration,
        change=named(context, name, described(operator, before, text, lines)),
        told=told,
    )
    is_alone = place.told % TEXT_ALONE == TEXT_ALONE - 1
    if is_alone or parent.candidate.demos_of(name) or not _can_demo(context):
        return candidate
    shown = _show(context, brief, "demos", Entry(candidate), place, rng)
    change = f"{candidate.change}; and {shown.change}"
    told = tuple(dict.fromkeys((*told, *shown.told)))
    return replace(shown, parents=candidate.parents, operator=operator, told=told, change=change)


def _told_from(context: SearchContext, brief: Brief, place: Place) -> tuple[str, Sequence[Example]]:
    """As `shown_with`, but of a single prompt always the rows' own answers: what is right, not how it is
    put."""
    if is_single(context):
        return next(iter(context.program.components)), context.splits.train
    return shown_with(context, brief, place)


def _can_demo(context: SearchContext) -> bool:
    return context.settings.can_demo and context.settings.max_demos > 0


def recallable(brief: Brief, text: str) -> list[str]:
    """What helped before and is not in `text` yet, whatever its line breaks there, the best first."""
    known = " ".join(text.split())
    return [s for s in dict.fromkeys(brief.helped) if " ".join(s.split()) not in known]


def _recall(context: SearchContext, brief: Brief, parent: Entry, place: Place) -> Candidate:
    """The parent with what helped before: first all of it together, then one sentence at a time. Asks no
    model."""
    name = blamed_first(context, brief)
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
        change=named(context, name, "added: " + " ".join(choices[place.recall])),
    )


def _show(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    settings = context.settings
    name, train = shown_with(context, brief, place)
    current = parent.candidate.demos_of(name)
    size = _size(context, brief, name, len(train), place.draw, rng)
    rows: list[Example]
    if operator == "demos_varied" and current:
        rows = demo_sets.varied(train, [d.example_id for d in current], rng)
        change = f"a quarter of the {len(rows)} demonstrations exchanged"
    elif operator == "demos_rebalanced" and current:
        answered, expected = leaning(context, parent)
        rows = demo_sets.rebalanced(train, [d.example_id for d in current], answered, expected, rng)
        change = f"{len(rows)} demonstrations, more of the answers that came too seldom"
    elif operator == "demos_errors":
        rows = demo_sets.with_errors(train, brief.wrong_ids, size, rng)
        change = f"{len(rows)} demonstrations, among them rows that it got wrong"
    else:
        rows = demo_sets.balanced(train, size, rng)
        change = f"{len(rows)} demonstrations, balanced over the answers"
    text = parent.candidate.components[name]
    label = "" if is_single(context) else name
    made = [replace(demo_sets.to_demo(r), component=label) for r in rows]
    demos = _fitting(text, made, settings.max_prompt_tokens)
    if not demos:
        raise Refused(f"no demonstration fits into {settings.max_prompt_tokens} tokens")
    if len(demos) < len(rows):
        change = change.replace(str(len(rows)), str(len(demos)), 1)
    return Candidate(
        components=parent.candidate.components,
        demos=(*(d for d in parent.candidate.demos if d not in current), *demos),
        parents=(parent.candidate.id,),
        operator=operator,
        iteration=brief.iteration,
        change=named(context, name, change),
        told=_looked_at(context, brief, train),
    )


def leaning(context: SearchContext, entry: Entry) -> tuple[Counter[str], Counter[str]]:
    """How often each label was answered, and was right, on the raced rows that the entry has."""
    raced = [row for row in context.plan.race if row.id in entry.answers]
    return Counter(entry.answers[row.id] for row in raced), Counter(row.target for row in raced)


def _looked_at(context: SearchContext, brief: Brief, examples: Sequence[Example]) -> tuple[str, ...]:
    """The rows whose answers decided which examples there are; none where all of train is shown from."""
    if len(examples) == len(context.splits.train):
        return ()
    return tuple(dict.fromkeys(row.example_id for row in brief.seen))


def _size(
    context: SearchContext, brief: Brief, name: str, available: int, number: int, rng: random.Random
) -> int:
    """How many demonstrations: sizes take turns where the best has none, else they are drawn near its own."""
    most = min(context.settings.max_demos, max(1, round(MOST_SHOWN * available)))
    current = len(context.pool[brief.incumbent].candidate.demos_of(name))
    if current:
        return min(most, max(2, rng.choice((current // 2, current, current, current * 2))))
    sizes = [min(s, most) for s in demo_sets.SIZES]
    if most < min(demo_sets.SIZES):
        sizes = [most, max(1, most // 2), max(1, most // 4)]
    return sizes[number % len(sizes)]


def _fitting(text: str, demos: Sequence[Demo], most_tokens: int) -> tuple[Demo, ...]:
    """The longest beginning of `demos` with which the prompt stays within `most_tokens` (estimated)."""
    left = most_tokens - estimate_tokens(text)
    kept: list[Demo] = []
    for demo in demos:
        left -= demo_tokens(demo)
        if left < 0:
            break
        kept.append(demo)
    return tuple(kept)
