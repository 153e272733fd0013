"""What rows of train add to a prompt: lines that say what the answers mean, and demonstrations."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from autoprompt.measure.cost import demo_tokens, longest_prompt
from autoprompt.optimizer.agents.writer import text_change
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.brief import Brief, Place, Turn, filled_in, named, shown_with
from autoprompt.optimizer.propose.refusal import Refused, shortest_refused
from autoprompt.optimizer.search import demos as demo_sets
from autoprompt.optimizer.search.operators import OperatorName
from autoprompt.optimizer.search.phrases import as_lines, typical
from autoprompt.optimizer.search.plan import FEWEST_TOLD
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Change, Demo, Example
from autoprompt.text.answers.reasoning import asks_to_reason
from autoprompt.text.names import counted
from autoprompt.text.scripts import estimate_tokens
from autoprompt.text.templates import Language, language_of

TOLD_SHARE = 2 / 3  # of train that a list of cues is counted on: the rest stays a fair sample for its winner
# Rows that it is counted on, at most. Each is named in the run files: 0.5 MB a list at 100,000 rows. With 30
# labels, of the words that 2,000 generated rows named, 98% were the labels' own; 100% of 5,000, 82% of 1,000.
MOST_COUNTED = 2000
TOLD_ROWS = 30  # that one description is made from; more in one reflection hurt
MOST_LABELS = 30  # that lines in a prompt can tell apart
# Of more labels the most confused ones are distinguished: of each a description is shown three rows.
MIXED_UP: dict[str, int] = {"describe": TOLD_ROWS // 3, "cues": MOST_LABELS}
CUES = (8, 5, 12)  # words of each label, in the order in which a round tries them

HEADINGS: dict[str, dict[Language, str]] = {
    "describe": {"en": "Which answer is right when:", "zh": "各答案适用的情形："},
    "cues": {"en": "Words that are typical of each answer:", "zh": "各答案的典型用词："},
}


def describe(
    context: SearchContext,
    operator: OperatorName,
    name: str,
    train: Sequence[Example],
    place: Place,
    rng: random.Random,
    *,
    answers: Mapping[str, str],
) -> tuple[list[str], tuple[str, ...]]:
    """Lines for the prompt under their heading, and the ids of the rows that they were made from.

    answers: row id -> the label that the parent answered it.

    Raises:
        Refused: If there is nothing to tell, or the describer's error.
    """
    prompt = context.program.components[name]
    heading = HEADINGS[operator][language_of(prompt)]
    labels = _labels(context, train)
    if len(labels) > MOST_LABELS:
        labels = mixed_up(train, answers, MIXED_UP[operator])
        told_apart = set(labels)
        train = [row for row in train if row.target in told_apart]
    if len(train) < FEWEST_TOLD:
        raise Refused("too few rows to describe the answers")
    if operator == "cues":
        rows = rng.sample(list(train), min(MOST_COUNTED, round(len(train) * TOLD_SHARE)))
        found = typical(rows, CUES[place.told % len(CUES)])
        if len(found) < 2:
            raise Refused("no words are typical for the answers")
        lines = [heading, *as_lines(found)]
    else:
        rows = demo_sets.balanced(train, TOLD_ROWS, rng)
        seed = context.seed("describe", place.slot, len(context.pool))
        lines = context.describing.describe(
            prompt, rows, labels, filled=filled_in(context, prompt), seed=seed
        )
        if not lines:
            raise Refused("the description does not distinguish the answers")
        lines = [heading, *lines] if labels else lines
    return lines, tuple(row.id for row in rows)


def with_lines(text: str, lines: Sequence[str], asked: Collection[str], labels: Collection[str]) -> str:
    """`text` with `lines` in place of what an earlier telling of the same heading had added.

    asked: placeholders of `text`. The lines come before the line with the first of them, where the constant
    part of a prompt ends, and before a line that asks to reason, which comes last; else at the end.
    That one stands behind a blank line: see `autoprompt.text.answers.reasoning` for what it is worth.
    labels: what lines of a telling may begin with (see `labels_told`).
    """
    marks = ["{" + name + "}" for name in asked]
    kept = _without(text, lines[0], labels, marks) if len(lines) > 1 else text.splitlines()
    ends = (n for n, line in enumerate(kept) if any(m in line for m in marks) or asks_to_reason(line))
    at = next(ends, len(kept))
    head, tail = kept[:at], kept[at:]
    if tail and asks_to_reason(tail[0]):
        while head and not head[-1].strip():
            head.pop()
        tail = ["", *tail]
    if asks_to_reason(lines[0]) and head and head[-1].strip():
        head = [*head, ""]
    return "\n".join([*head, *lines, *tail])


def described(
    operator: OperatorName, before: str, after: str, lines: Sequence[str], component: str
) -> Change:
    """Return what was changed. Counted words are of these rows alone, so no lesson for others."""
    if operator == "cues":
        return Change(component, cues=len(lines) - 1)
    return text_change(before, after, component)


def labels_told(context: SearchContext, train: Sequence[Example]) -> set[str]:
    """Return what a line of an earlier telling may begin with: the task's labels, and others of rows."""
    return {*context.settings.labels, *(example.target_text for example in train)}


def _without(text: str, heading: str, labels: Collection[str], marks: Collection[str]) -> list[str]:
    """Return the lines of `text` less the heading and the lines "LABEL: ..." under it, one for each label.

    What follows is the author's own, or a rule that was added since, though it has a colon as well. So is a
    line with one of the placeholders, `marks`: no telling is written around one.
    """
    lines = text.splitlines()
    if heading not in lines:
        return lines
    start = lines.index(heading)
    end = start + 1
    left = sorted((" ".join(label.split()) for label in labels), key=len, reverse=True)  # as they were given
    while end < len(lines) and not any(mark in lines[end] for mark in marks):
        told = next((label for label in left if lines[end].startswith(f"{label}: ")), None)
        if told is None:
            break
        left.remove(told)
        end += 1
    return lines[:start] + lines[end:]


def _labels(context: SearchContext, train: Sequence[Example]) -> tuple[str, ...]:
    """Return the answers to tell apart: the task's labels, or those of a step; () for free text."""
    if context.settings.answers_rows:
        return context.settings.labels
    labels = tuple(sorted({example.target_text for example in train}))
    return labels if len(labels) <= MOST_LABELS else ()


def mixed_up(train: Sequence[Example], answers: Mapping[str, str], most: int) -> tuple[str, ...]:
    """Return up to `most` labels, sorted: those that are taken for others most often, then frequent ones.

    answers: row id -> the label that was answered.
    """
    times: Counter[str] = Counter()
    for row in train:
        answer = answers.get(row.id, row.target_text)
        if answer != row.target_text:
            times.update((row.target_text, answer))
    counts = Counter(row.target_text for row in train)
    ranked = sorted(counts, key=lambda label: (-times[label], -counts[label], label))
    return tuple(sorted(ranked[:most]))


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
