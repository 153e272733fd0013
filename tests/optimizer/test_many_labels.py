"""More labels than lines in a prompt can tell apart: those are told apart that are mixed up."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from fakes import Bench, bench, splits_of

from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.propose.additions import MIXED_UP, mixed_up
from autoprompt.optimizer.propose.brief import Brief, Place, Turn
from autoprompt.optimizer.propose.drafts import draft
from autoprompt.optimizer.search.operators import OperatorName
from autoprompt.records import Example, Message

INTENTS = tuple(f"intent_{number:03}" for number in range(150))
CONFUSED = INTENTS[40:44]


def row(number: int) -> Example:
    target = INTENTS[number % 150]
    text = f"Message {number} about the subject{number % 150} of mine"
    return Example(f"r{number}", text, target, {"input": text, "target": target})


TRAIN = tuple(map(row, range(600)))


def describer(messages: list[Message], options: Options) -> Completion:
    """Describes the labels that it is asked about."""
    labels = re.findall(r"^(\S+): …$", messages[-1].content, re.MULTILINE)
    return Completion(
        "\n".join(f"{label}: wants what is called by its name {label[::-1]}" for label in labels)
    )


def made_with(labels: tuple[str, ...]) -> Bench:
    splits = replace(splits_of(32, 60, 20), train=TRAIN)
    made = bench(author=describer, prompt="Which intent?", splits=splits, max_demos=0)
    made.context.settings = replace(made.context.settings, labels=labels)
    return made


def told(made: Bench, operator: OperatorName) -> str:
    from autoprompt.optimizer.graph import first_state

    first_state(made.context, {})
    parent = made.context.pool.original
    for example in TRAIN:
        at = INTENTS.index(example.target)
        is_mixed_up = example.target in CONFUSED
        parent.answers[example.id] = CONFUSED[(at + 1) % 4] if is_mixed_up else example.target
    brief = Brief(1, parent.candidate.id, 4, {}, (), {}, ())
    turn = Turn(made.context, brief, operator, parent, Place(0, 0, 0, 2), random.Random(0))
    return draft(turn).prompt


@pytest.mark.parametrize("operator", ["describe", "cues"])
def test_of_150_labels_those_are_told_apart_that_are_mixed_up(operator: OperatorName) -> None:
    made = made_with(INTENTS)
    lines = told(made, operator).splitlines()
    labels = {line.partition(":")[0] for line in lines if line.startswith("intent_")}
    assert labels >= set(CONFUSED)
    assert len(labels) <= MIXED_UP[operator]
    if operator == "describe":
        request = made.author.calls[0][-1].content
        assert all(request.count(f"\n{label}:") >= 1 for label in CONFUSED)


def test_labels_that_are_taken_for_others_come_first_and_then_frequent_ones() -> None:
    answers = {"r0": INTENTS[7], "r150": INTENTS[7], "r3": INTENTS[4], "r9": "none of them"}
    assert mixed_up(TRAIN, answers, 3) == (INTENTS[0], INTENTS[3], INTENTS[7])
    assert mixed_up([*TRAIN, row(5)], {}, 2) == (INTENTS[0], INTENTS[5])
