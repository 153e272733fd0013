"""Rows of train as one component of a program sees them: what it gets, and the output that was right for it.

Nobody has labelled what a step in the middle should give. What tells it is a row that ended right (its own
outputs were good enough), and the target where a step's output is the answer or a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.optimizer.propose.blame import is_right_part
from autoprompt.records import EvaluatedRow, Example, Step
from autoprompt.text.answers.reasoning import has_answer_line
from autoprompt.text.answers.texts import visible

WORKED_OUT = 3  # times the target's length, and
SHORT_ANSWER = 20  # characters more, say "The answer is ...": from there on an answer is worked out


def step_examples(
    name: str, names: Sequence[str], seen: Sequence[EvaluatedRow], train: Sequence[Example]
) -> list[Example]:
    """Examples for demonstrations of component `name`: `input` and `target` are the step's, `id` the row's.

    names: the components that may be changed; a step's demonstrations go with the first of its own among
    them. seen: rows of train with their traces, the newest last. A step that gets the row's input and gives
    the answer has every row of `train`; of others only rows that were seen are known. Of a step that ran
    several times in a row (iterations) the first run counts.
    """
    met = [(row, step) for row in seen if (step := _step_of(row, name, names)) is not None]
    if not met:
        return []
    is_last = all(_same(step.output, row.prediction) for row, step in met)
    if is_last and all(_same(step.input, row.input) for row, step in met):
        return list(train)
    found: dict[str, Example] = {}
    for row, step in met:
        output = _right_output(row, step, is_last)
        if output is not None:
            found[row.example_id] = Example(row.example_id, step.input, output, {})
    order = {example.id: place for place, example in enumerate(train)}
    return sorted((e for e in found.values() if e.id in order), key=lambda e: order[e.id])


def own_answers(
    seen: Sequence[EvaluatedRow], train: Sequence[Example], *, is_reasoned: bool = False
) -> dict[str, str] | None:
    """What demonstrations of a single prompt show: row id -> the model's own answer, where it was right.

    None: the targets do. Where the model works its answers out (it was asked to, or they are several times as
    long as the targets), the bare target would teach it to answer without working.
    """
    known = {example.id for example in train}
    answered = [row for row in seen if row.example_id in known and not row.is_lost and _written(row)]
    longer = sum(len(_written(r)) > WORKED_OUT * len(r.ground_truth) + SHORT_ANSWER for r in answered)
    if not is_reasoned and 2 * longer <= len(answered):
        return None
    right = {row.example_id: _written(row) for row in answered if row.is_correct}
    # One that lacks the line that was asked for would teach to leave it out.
    return {i: text for i, text in right.items() if not is_reasoned or has_answer_line(text)}


def _written(row: EvaluatedRow) -> str:
    return visible(row.output or row.prediction)


def _step_of(row: EvaluatedRow, name: str, names: Sequence[str]) -> Step | None:
    for step in row.trace:
        if step.can_demo and not step.error and demo_component(step, names) == name:
            return step
    return None


def demo_component(step: Step, names: Sequence[str]) -> str | None:
    """The component that a step's demonstrations are shown with: its first that may be changed."""
    return next((n for n in step.components if n in names), None)


def _right_output(row: EvaluatedRow, step: Step, is_last: bool) -> str | None:
    if row.is_correct or is_right_part(step, row):
        return step.output or None
    return row.ground_truth if is_last else None


def _same(a: str, b: str) -> bool:
    return a.split() == b.split()
