"""Proposing a round's candidates: texts from the writer, demonstrations from train, and both combined."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoprompt.errors import EndpointError, RequestRefusedError
from autoprompt.optimizer.context import SearchContext
from autoprompt.program import estimate_tokens, placeholders
from autoprompt.search import demos as demo_sets
from autoprompt.search.operators import WRITERS, Means, OperatorName, choose_operators
from autoprompt.search.pareto import pick_parent
from autoprompt.search.pool import Entry
from autoprompt.types import Candidate, Demo, Example

DEMO_DRAWS = ("demos", "demos_errors")
COPIED_WORDS = 8  # a run of so many words taken from a train row: the writer copied instead of describing


@dataclass(frozen=True, slots=True)
class Brief:
    """What the rewrite node hands over: the state's part in a round of proposals."""

    iteration: int
    incumbent: str
    number: int
    analysis: Mapping[str, Any]
    experiences: str
    rejected: Sequence[str]
    tally: Mapping[str, Sequence[int]]
    plateau: int
    wrong_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    """Which proposal of the round this is: of all, and of those that draw demonstrations."""

    slot: int
    draw: int


class Refused(Exception):
    """A proposal that is not worth a call; the message says why."""


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
    shown = 0
    for slot, operator in enumerate(operators):
        # Demonstrations are varied around the best; texts start from a candidate that is best somewhere.
        is_text = operator in WRITERS
        parent = pick_parent(context.pool, context.plan.race_ids, rng) if is_text else incumbent
        if brief.plateau >= 3:
            parent = incumbent
        try:
            candidate = _make(context, brief, operator, parent, Place(slot, shown), rng)
            shown += operator in DEMO_DRAWS
            _check(context, candidate, proposals)
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
    return Means(
        writers=settings.depth.writers,
        can_demo=settings.can_demo and settings.max_demos > 0 and len(context.splits.train) > 0,
        has_demos=bool(incumbent.candidate.demos),
        has_errors=bool(brief.wrong_ids),
        has_partner=_partner(context, incumbent) is not None,
    )


def _partner(context: SearchContext, entry: Entry) -> Entry | None:
    """The best accepted candidate with another text, for its text joined with this one's demonstrations."""
    ids = context.plan.race_ids
    others = [
        e
        for e in context.pool.accepted()
        if dict(e.candidate.components) != dict(entry.candidate.components)
        and e.candidate.demos != entry.candidate.demos
    ]
    return max(others, key=lambda e: e.mean_merit(ids), default=None)


def _make(
    context: SearchContext,
    brief: Brief,
    operator: OperatorName,
    parent: Entry,
    place: Place,
    rng: random.Random,
) -> Candidate:
    if operator in WRITERS:
        return _write(context, brief, operator, parent, place, rng)
    if operator == "combine":
        partner = _partner(context, parent)
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
    keep = [*context.settings.locked, *_braced(context, original)]
    proposal = context.rewriting.rewrite(
        original,
        components[name],
        dict(brief.analysis),
        brief.iteration,
        brief.experiences,
        operator="patch" if operator == "patch" else "rewrite",
        rejected=brief.rejected,
        keep=keep,
        seed=context.seed("write", brief.iteration, place.slot),
    )
    if not proposal.text:
        raise Refused("the writer's answer holds no prompt")
    lost = [k for k in keep if k in components[name] and k not in proposal.text]
    if lost:
        raise Refused(f"it loses {', '.join(lost)}")
    _refuse_copies(context, parent.candidate.components[name], proposal.text)
    return Candidate(
        components={**components, name: proposal.text},
        demos=parent.candidate.demos,
        parents=(parent.candidate.id,),
        operator=operator,
        iteration=brief.iteration,
        change=proposal.change,
    )


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


def _check(context: SearchContext, candidate: Candidate, proposals: Sequence[Candidate]) -> None:
    settings = context.settings
    if candidate.id in context.pool or any(candidate.id == p.id for p in proposals):
        raise Refused("it was tried before")
    tokens = sum(estimate_tokens(text) for text in candidate.components.values())
    tokens += sum(estimate_tokens(d.input) + estimate_tokens(d.output) + 8 for d in candidate.demos)
    if tokens > settings.max_prompt_tokens:
        raise Refused(
            f"about {tokens} tokens, {settings.max_prompt_tokens} are allowed (--max-prompt-tokens)"
        )


def _braced(context: SearchContext, text: str) -> list[str]:
    """The placeholders as they stand in a prompt: `{field}` of rows, `{{#node.variable#}}` of workflows."""
    example = next(iter(context.splits.train), None) or context.splits.val[0]
    names = placeholders(text, tuple(example.fields))
    return ["{" + name + "}" for name in names] + re.findall(r"\{\{#[^{}]+#\}\}", text)


def _refuse_copies(context: SearchContext, before: str, text: str) -> None:
    """Refuse a text that quotes train rows: what it gains on their like it does not gain on others."""
    words = _words(text)
    runs = {tuple(words[i : i + COPIED_WORDS]) for i in range(len(words) - COPIED_WORDS + 1)}
    known = _words(before)
    runs -= {tuple(known[i : i + COPIED_WORDS]) for i in range(len(known) - COPIED_WORDS + 1)}
    if not runs:
        return
    for row in context.splits.train:
        row_words = _words(row.input)
        for i in range(len(row_words) - COPIED_WORDS + 1):
            if tuple(row_words[i : i + COPIED_WORDS]) in runs:
                raise Refused("it copies a row of train: " + " ".join(row_words[i : i + COPIED_WORDS]))


def _words(text: str) -> list[str]:
    """Words, and single characters of scripts that do not part them."""
    return re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+", text.casefold())
