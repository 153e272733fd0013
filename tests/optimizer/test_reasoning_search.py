"""Reasoning before the answer is tried once, kept where it wins, and shown as the model itself reasoned."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fakes import LABELS, PROMPT, Bench, bench, number_of, target_of, unit, writer
from test_graph import run
from test_propose import WRITERS_ONLY, brief

from autoprompt.llm.client import Completion, Options
from autoprompt.llm.traits import Traits
from autoprompt.optimizer.propose.additions import with_lines
from autoprompt.optimizer.propose.drafts import propose
from autoprompt.optimizer.search.plan import DEPTHS
from autoprompt.optimizer.search.race import PROBE_ROWS
from autoprompt.records import Candidate, Demo, Message, Usage
from autoprompt.text.answers.reasoning import asks_to_reason, request

STANDARD: Any = {"depth": DEPTHS["standard"], "max_calls": 20_000}
REASONED = f"{PROMPT}\n\n{request(PROMPT, LABELS)}"


SLOW = Traits(is_slow=True, rereads_prefix=True)


def student(helps: bool, learns: bool = False):
    """Right in two of three rows at once; reasoning makes it right in nine of ten, or in none.

    learns: the more turns it is shown, the better it reasons.
    """

    def answer(messages: list[Message], options: Options) -> Completion:
        number = number_of(messages)
        is_reasoned = asks_to_reason(messages[0].content)
        chance = 0.66 if not is_reasoned else 0.9 if helps else 0.0
        if is_reasoned and learns:
            chance = 0.8 + 0.001 * len(messages)
        target = target_of(number)
        said = target if unit("row", number) < chance else LABELS[1 - LABELS.index(target)]
        text = f"I look at item {number}, at {LABELS[0]} and {LABELS[1]}.\nAnswer: {said}"
        return Completion(text, Usage(30, 60)) if is_reasoned else Completion(said, Usage(20, 1))

    return answer


def demos_of(made: Bench) -> list[Demo]:
    return [
        Demo(asked.content, given.content)
        for call in made.task.calls
        if asks_to_reason(call[0].content)
        for asked, given in zip(call[1:-1:2], call[2:-1:2], strict=True)
    ]


def test_where_it_helps_it_wins_and_its_own_answers_are_the_demonstrations() -> None:
    made = bench(student(helps=True), writer, can_reason=True, max_calls=900)
    state = run(made)
    winner = made.context.pool[state["incumbent"]].candidate
    assert asks_to_reason(winner.prompt)
    assert winner.prompt.startswith(PROMPT)
    assert state["confirmation"]["confirmed"]
    tried = Counter(event["operator"] for event in made.kinds("candidate_proposed"))
    assert tried["reason"] == 1
    shown = demos_of(made)
    assert shown
    for demo in shown:
        right = target_of(number_of([Message("user", demo.input)]))
        assert demo.output.startswith("I look at item")
        assert demo.output.endswith(f"Answer: {right}")


def rounds_after_the_winner(made: Bench) -> list[int]:
    """How many candidates were raced in each."""
    state = run(made)
    winner = made.context.pool[state["incumbent"]].candidate
    assert asks_to_reason(winner.prompt)
    rounds = Counter(made.context.pool[e["id"]].candidate.iteration for e in made.kinds("candidate_settled"))
    assert state["stop_reason"] == "patience"
    return [count for number, count in rounds.items() if number > winner.iteration]


def test_once_it_has_won_on_the_embedded_model_few_race_and_one_round_without_a_gain_is_the_last() -> None:
    made = bench(student(helps=True), writer, can_reason=True, traits=SLOW, **STANDARD)
    (count,) = rounds_after_the_winner(made)
    assert count <= DEPTHS["standard"].slow.candidates
    edges = [rung["rows"] for rung in made.kinds("rung_ended")]
    assert edges[0] == 16
    assert edges[edges.index(max(edges)) + 1] == 8  # the next race: half a block parts them


def test_on_the_embedded_model_a_gain_buys_no_further_round() -> None:
    depth = DEPTHS["thorough"]
    made = bench(
        student(helps=True, learns=True),
        writer,
        can_reason=True,
        traits=SLOW,
        depth=depth,
        max_calls=20_000,
    )
    state = run(made)
    reasoned = [e.candidate for e in made.context.pool.entries if asks_to_reason(e.candidate.prompt)]
    first = next(candidate for candidate in reasoned if candidate.operator == "reason")
    assert state["stop_reason"] == "patience"
    assert max(candidate.iteration for candidate in reasoned) - first.iteration == depth.slow.patience


@pytest.mark.parametrize(("prompt", "is_embedded"), [(PROMPT, False), (REASONED, True)])
def test_a_server_and_a_prompt_that_reasons_by_itself_have_full_rounds(
    prompt: str, is_embedded: bool
) -> None:
    made = bench(
        student(helps=True),
        writer,
        prompt=prompt,
        can_reason=True,
        traits=SLOW if is_embedded else Traits(),
        **STANDARD,
    )
    counts = rounds_after_the_winner(made)
    assert len(counts) > DEPTHS["standard"].slow.patience
    assert max(counts) > DEPTHS["standard"].slow.candidates


def test_what_is_told_later_stands_before_it_and_leaves_its_blank_line() -> None:
    told = with_lines(REASONED, ["Which answer is right when:", "A: odd", "B: even"], (), LABELS)
    head, _, asked = told.rpartition("\n\n")
    assert head == f"{PROMPT}\nWhich answer is right when:\nA: odd\nB: even"
    assert asked == request(PROMPT, LABELS)
    again = with_lines(told, ["Which answer is right when:", "A: 1", "B: 2"], (), LABELS)
    assert again == f"{PROMPT}\nWhich answer is right when:\nA: 1\nB: 2\n\n{asked}"
    assert with_lines("Is it so? {input}", [asked], ["input"], LABELS) == f"{asked}\nIs it so? {{input}}"


def test_what_is_asked_is_the_original_prompt_and_not_what_was_added_to_it() -> None:
    made = bench(can_reason=True, depth=replace(WRITERS_ONLY, writers=0))
    order = brief(made, number=6)
    longer = made.context.add(Candidate({"prompt": f"{PROMPT}\nMind the rule."}))
    longer.status = "accepted"
    proposed = propose(made.context, replace(order, incumbent=longer.candidate.id))
    reasoned = [c for c in proposed if c.operator == "reason"]
    assert reasoned
    for candidate in reasoned:
        assert candidate.prompt.endswith(request(PROMPT, LABELS))


@pytest.mark.parametrize("is_slow", [False, True])
def test_where_it_harms_it_is_tried_once_and_dropped(is_slow: bool) -> None:
    made = bench(student(helps=False), writer, can_reason=True, traits=Traits(is_slow=is_slow), max_calls=900)
    state = run(made)
    assert not asks_to_reason(made.context.pool[state["incumbent"]].candidate.prompt)
    reasoned = [call for call in made.task.calls if asks_to_reason(call[0].content)]
    # Fewer than all tell that it cannot come level; where all at once take no longer, all are asked.
    assert len(reasoned) < PROBE_ROWS if is_slow else len(reasoned) == PROBE_ROWS


def test_it_can_be_forbidden() -> None:
    made = bench(student(helps=True), writer, can_reason=False, max_calls=900)
    run(made)
    assert not any(asks_to_reason(call[0].content) for call in made.task.calls)


def test_it_starts_without_demonstrations_of_answers_given_at_once() -> None:
    made = bench(can_reason=True, depth=replace(WRITERS_ONLY, writers=0))
    order = brief(made, number=6)
    shown = made.context.add(Candidate({"prompt": PROMPT}, demos=(Demo("item 1", "A", "r1"),)))
    shown.status = "accepted"
    (found,) = [
        c
        for c in propose(made.context, replace(order, incumbent=shown.candidate.id))
        if c.operator == "reason"
    ]
    assert (found.prompt, found.demos, found.parents) == (REASONED, (), (shown.candidate.id,))
    assert not [
        c for c in propose(made.context, replace(order, tally={"reason": [1, 0]})) if c.operator == "reason"
    ]
