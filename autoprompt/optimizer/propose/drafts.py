"""Drafting one candidate by one operator: a text from the writer, the describer or the memory,
demonstrations, or both joined."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from autoprompt.memory.change import ADDED, JOINT
from autoprompt.optimizer.agents.writer import with_added
from autoprompt.optimizer.propose.brief import (
    Brief,
    analysis_for,
    blamed_first,
    component_of,
    filled_in,
    named,
    shown_with,
    step_view,
)
from autoprompt.optimizer.propose.merging import joined, partner_of
from autoprompt.optimizer.propose.refusal import Refused, check_text, constant_until, kept_passages
from autoprompt.optimizer.propose.showing import can_show, looked_at, show
from autoprompt.optimizer.propose.telling import described, labels_told, tell, with_lines
from autoprompt.optimizer.propose.turn import Turn
from autoprompt.optimizer.search.operators import TELLERS, WRITERS
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Example
from autoprompt.text.answers.reasoning import request

TEXT_ALONE = 3  # every third telling comes without demonstrations: both add up, but are not always wanted
_HANDED_ON = (*WRITERS, "recall")  # whose changes say in words what their authors were told


def draft(turn: Turn) -> Candidate:
    """One candidate by one operator. Raises Refused, or the writer's error."""
    if turn.operator in TELLERS:
        return _tell(turn)
    if turn.operator in WRITERS:
        return _write(turn)
    if turn.operator == "recall":
        return _recall(turn)
    if turn.operator == "reason":
        return _reason(turn)
    if turn.operator == "combine":
        partner = partner_of(turn.context, turn.parent)
        if partner is None:
            raise Refused("no other candidate to combine with")
        return joined(turn.context, turn.parent, partner, turn.brief.iteration)
    return show(turn)


def _write(turn: Turn) -> Candidate:
    context, brief = turn.context, turn.brief
    name = component_of(context, brief, turn.place, turn.rng)
    original, before = context.program.components[name], turn.parent.candidate.components[name]
    proposal = context.rewriting.rewrite(
        original,
        before,
        analysis_for(brief, name),
        brief.iteration,
        brief.experiences,
        operator="patch" if turn.operator == "patch" else "rewrite",
        keep=kept_passages(context, original, before),
        filled=filled_in(context, before),
        ahead_of=constant_until(context, before),
        step=step_view(context, brief, name),
        seed=context.seed("write", brief.iteration, turn.place.slot),
    )
    if proposal.is_cut:
        raise Refused("the writer's answer was cut")
    check_text(context, original, before, proposal.text)
    change = named(context, name, proposal.change)
    return turn.child(change, texts={name: proposal.text}, told=_retold(turn, brief.experiences))


def _tell(turn: Turn) -> Candidate:
    """The parent saying what the answers mean; two of three times with demonstrations, if it has none."""
    context, parent = turn.context, turn.parent.candidate
    name, train = _told_from(turn)
    before = parent.components[name]
    lines, told = tell(context, turn.operator, name, train, turn.place, turn.rng, answers=turn.parent.answers)
    told = tuple(dict.fromkeys((*told, *looked_at(context, turn.brief, train))))
    text = _with(turn, name, before, lines, labels_told(context, train))
    change = named(context, name, described(turn.operator, before, text, lines))
    candidate = turn.child(change, texts={name: text}, told=told)
    is_alone = turn.place.told % TEXT_ALONE == TEXT_ALONE - 1
    if is_alone or parent.demos_of(name) or not can_show(context):
        return candidate
    try:
        shown = show(replace(turn, parent=Entry(candidate)))
    except Refused:  # no demonstration to go with it is no reason to lose a text that was paid for
        return candidate
    told = tuple(dict.fromkeys((*told, *shown.told)))
    return replace(shown, parents=candidate.parents, told=told, change=f"{change}{JOINT}{shown.change}")


def _told_from(turn: Turn) -> tuple[str, Sequence[Example]]:
    """As `shown_with`, but of a single prompt always the targets: what is right, not how it is put."""
    if turn.context.settings.answers_rows:
        return next(iter(turn.context.program.components)), turn.context.splits.train
    name, examples, _ = shown_with(turn.context, turn.brief, turn.place, turn.parent.candidate)
    return name, examples


def _reason(turn: Turn) -> Candidate:
    """The parent's text asking to reason first, without its demonstrations of answers given at once."""
    context = turn.context
    name, before = next(iter(turn.parent.candidate.components.items()))
    line = request(context.program.components[name], context.settings.labels)
    text = _with(turn, name, before, [line])
    return turn.child("reasons before it answers", texts={name: text}, demos=())


def _with(turn: Turn, name: str, before: str, lines: Sequence[str], labels: Collection[str] = ()) -> str:
    """The text of component `name` with these lines. Raises Refused where it must not have them."""
    context = turn.context
    text = with_lines(before, lines, context.asked(before), labels)
    check_text(context, context.program.components[name], before, text, is_addition=True)
    return text


def recallable(brief: Brief, text: str) -> list[str]:
    """What helped before and is not in `text` yet, whatever its line breaks there, the best first."""
    known = " ".join(text.split())
    return [s for s in dict.fromkeys(brief.helped) if " ".join(s.split()) not in known]


def _recall(turn: Turn) -> Candidate:
    """The parent with what helped before: first all of it together, then one sentence at a time. Asks no
    model."""
    context = turn.context
    name = blamed_first(context, turn.brief)
    before = turn.parent.candidate.components[name]
    missing = recallable(turn.brief, before)
    choices = [missing, *([s] for s in missing)] if len(missing) > 1 else [missing]
    if not missing or turn.place.recall >= len(choices):
        raise Refused("nothing more to recall")
    chosen = choices[turn.place.recall]
    text = with_added(before, chosen, constant_until(context, before))
    check_text(context, context.program.components[name], before, text, is_addition=True)
    told = _retold(turn, "\n".join(ADDED + sentence for sentence in chosen))
    return turn.child(named(context, name, ADDED + " ".join(chosen)), texts={name: text}, told=told)


def _retold(turn: Turn, text: str) -> tuple[str, ...]:
    """Rows of train that were told to the authors of changes which stand in `text`.

    Who reads a description of rows, or hands it on, makes a prompt of these rows. (A list of counted words
    is not handed on: its change says how many there were.)
    """
    made = (entry.candidate for entry in turn.context.pool.entries)
    retold = (one for one in made if one.operator in _HANDED_ON and one.change and one.change in text)
    return tuple(dict.fromkeys(row for one in retold for row in one.told))
