"""Lines for the prompt that say what the answers mean, from rows of train and their right answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from autoprompt.optimizer.agents.writer import text_change
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.brief import Place, filled_in
from autoprompt.optimizer.propose.refusal import Refused
from autoprompt.optimizer.search import demos as demo_sets
from autoprompt.optimizer.search.operators import OperatorName
from autoprompt.optimizer.search.phrases import as_lines, typical
from autoprompt.optimizer.search.plan import FEWEST_TOLD
from autoprompt.records import Change, Example
from autoprompt.text.answers.reasoning import asks_to_reason
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
