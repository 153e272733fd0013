"""Candidates with other demonstrations: which rows, how many, and of which answers more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from autoprompt.measure.cost import demo_tokens, longest_prompt
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.brief import Brief, Turn, named, shown_with
from autoprompt.optimizer.propose.refusal import Refused, shortest_refused
from autoprompt.optimizer.search import demos as demo_sets
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Change, Demo, Example
from autoprompt.text.names import counted
from autoprompt.text.scripts import estimate_tokens

MOST_SHOWN = 0.9  # of the rows there are: some must be left to look for errors, and to confirm with


def can_show(context: SearchContext) -> bool:
    return context.settings.max_demos > 0


def show(turn: Turn) -> Candidate:
    """Return the parent with other demonstrations.

    Raises:
        Refused: If none fits, or none is known.
    """
    context, parent = turn.context, turn.parent.candidate
    name, train, answers = shown_with(context, turn.brief, turn.place, parent)
    rows, how = _choose(turn, name, train)
    if context.settings.answers_rows:
        asked, field = context.asked(parent.components[name]), context.settings.input_field
        made = [demo_sets.to_demo(row, answers, asked, field) for row in rows]
    else:
        made = [replace(demo_sets.to_demo(row, answers), component=name, turns=()) for row in rows]
    most_tokens = context.settings.max_prompt_tokens
    if (refused := shortest_refused(context, context.pool.entries)) is not None:
        refused_tokens = longest_prompt(refused.candidate, context.settings.input_field)
        most_tokens = min(most_tokens, refused_tokens - 1)
    demos = _fitting(parent.components[name], made, most_tokens, context.settings.input_field)
    if not demos:
        raise Refused(f"no demonstration fits into {counted(most_tokens, 'token')}")
    current = parent.demos_of(name)
    return turn.child(
        Change(named(context, name), demos=len(demos), how=how),
        demos=(*(d for d in parent.demos if d not in current), *demos),
        told=looked_at(context, turn.brief, train),
    )


def _choose(turn: Turn, name: str, train: Sequence[Example]) -> tuple[list[Example], str]:
    """Return the rows to show by the turn's operator, and how they were chosen: a key of `HOW`."""
    current = [demo.example_id for demo in turn.parent.candidate.demos_of(name)]
    if turn.operator == "demos_varied" and current:
        is_free = turn.context.settings.answers_rows and not turn.context.settings.labels
        rows = demo_sets.varied(train, current, turn.rng, is_free=is_free)
        return rows, "exchanged"
    if turn.operator == "demos_rebalanced" and current:
        answered, expected = leaning(turn.context, turn.parent)
        rows = demo_sets.rebalanced(train, current, answered, expected, turn.rng)
        return rows, "rebalanced"
    size = _size(turn, name, len(train))
    if turn.operator == "demos_errors":
        rows = demo_sets.with_errors(train, turn.brief.wrong_ids, size, turn.rng)
        return rows, "errors"
    return _balanced(turn, name, train, size), "balanced"


def _balanced(turn: Turn, name: str, train: Sequence[Example], size: int) -> list[Example]:
    """Return a balanced set.

    If requests that begin alike are read faster, those of a round behind the text of the best begin alike,
    and the round's first is all beginning; behind another text all is read anew. Elsewhere the sets differ
    from the first row on: simulated, they find as much or a little more (benchmarks/docs/search.md).
    """
    is_alike = turn.context.traits.rereads_prefix and turn.parent.candidate.id == turn.brief.incumbent
    if not is_alike:
        return demo_sets.balanced(train, size, turn.rng)
    rng = turn.context.rng("beginning", turn.brief.iteration, name)
    common = demo_sets.beginning(train, size, rng)
    if turn.place.draw == 0 and demo_sets.is_spread(common, int(len(common) * demo_sets.SHARED)):
        return common
    return demo_sets.begun(train, size, common, turn.rng)


def leaning(context: SearchContext, entry: Entry) -> tuple[Counter[str], Counter[str]]:
    """Return how often each label was answered, and was right, on the raced rows that the entry has."""
    raced = [row for row in context.plan.race if row.id in entry.answers]
    return Counter(entry.answers[row.id] for row in raced), Counter(
        row.target_text for row in raced if row.has_target
    )


def looked_at(context: SearchContext, brief: Brief, examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the rows whose answers decided which examples there are.

    None where all of train is shown from.
    """
    if len(examples) == len(context.splits.train):
        return ()
    return tuple(dict.fromkeys(row.example_id for row in brief.seen))


def _size(turn: Turn, name: str, available: int) -> int:
    """Return how many demonstrations to show.

    Sizes take turns if the best has none; else they are drawn near its own.
    """
    context = turn.context
    most = min(context.settings.max_demos, max(1, round(MOST_SHOWN * available)))
    current = len(context.pool[turn.brief.incumbent].candidate.demos_of(name))
    if current:
        return min(most, max(2, turn.rng.choice((current // 2, current, current, current * 2))))
    order = demo_sets.SIZES if context.settings.depth.rewrites else demo_sets.LARGER
    sizes = [min(size, most) for size in order]
    if most < min(demo_sets.SIZES):
        sizes = [most, max(1, most // 2), max(1, most // 4)]
    return sizes[turn.place.draw % len(sizes)]


def _fitting(text: str, demos: Sequence[Demo], most_tokens: int, input_field: str) -> tuple[Demo, ...]:
    """Return the longest beginning of `demos` with which the prompt stays within `most_tokens` (estimated).

    A conversation that is too long is passed over: it may have a hundred times the turns of the next one.
    """
    left = most_tokens - estimate_tokens(text)
    kept: list[Demo] = []
    for demo in demos:
        tokens = demo_tokens(text, demo, input_field)
        if tokens > left:
            if demo.turns:
                continue
            break
        left -= tokens
        kept.append(demo)
    return tuple(kept)
