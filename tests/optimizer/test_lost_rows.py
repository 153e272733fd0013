"""Rows that get no answer: they end no run that has answers, and speak for nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import LABELS, PROMPT, World, bench, number_of, run_config, splits_of, target_of, writer

from autoprompt import Models, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Options
from autoprompt.llm.transport.failures import OwnClientError
from autoprompt.measure.compare import compare_rows
from autoprompt.metrics import get_metric
from autoprompt.optimizer import nodes
from autoprompt.optimizer.ending.finish import confirm_winner
from autoprompt.optimizer.graph import build_graph, first_state, recursion_limit
from autoprompt.optimizer.prepare import prepare
from autoprompt.optimizer.search.plan import interleave
from autoprompt.records import Candidate, EvaluatedRow, Message

WORLD = World(base=0.3, rule_gain=0.5, demo_gain=0.3)


@pytest.mark.parametrize("lost", [1, 3, 6])
@pytest.mark.parametrize("no_reasoning", [False, True])
def test_rows_that_always_fail_end_no_run(tmp_path: Path, lost: int, no_reasoning: bool) -> None:
    """They are asked again with each block; that all of those fail says nothing of the endpoint."""
    config = run_config(
        tmp_path, rows=150, max_calls=700, no_cache=True, labels=LABELS, no_reasoning=no_reasoning
    )
    failing = {number_of([Message("user", row.input)]) for row in prepare(config).plan.race[:lost]}

    def student(messages: list[Message], options: Options) -> Any:
        if number_of(messages) in failing:
            raise RuntimeError("HTTP 500: this document cannot be processed")
        return WORLD.student(messages, options)

    result = optimize(config, models=Models(ScriptedClient(student), ScriptedClient(writer)))
    assert result.verdict == "confirmed"


def test_a_lost_row_in_a_look_at_train_does_not_hide_errors_elsewhere() -> None:
    """One row of the first look would be wrong: lost, it leaves none, and the race rows are looked at."""
    world = World(base=0.93, rule_gain=0.07)
    splits = splits_of(32, 60, 20)
    numbers = [int(row.id[1:]) for row in interleave(splits.train)[:16]]
    (wrong,) = [n for n in numbers if not world.is_right(n, PROMPT, 0)]

    def student(messages: list[Message], options: Options) -> Any:
        if number_of(messages) == wrong:
            raise OwnClientError("timed out")
        return world.student(messages, options)

    made = bench(student, splits=splits)
    state = first_state(made.context, {"sizes": splits.sizes})
    final = build_graph().invoke(state, {"recursion_limit": recursion_limit(3)}, context=made.context)
    assert final["tried"] > 0


def test_a_lost_row_is_none_that_the_best_got_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(base=0.5, rule_gain=0.3, demo_gain=0.3)

    def student(messages: list[Message], options: Options) -> Any:
        if number_of(messages) % 17 == 0:
            raise OwnClientError("timed out")
        return world.student(messages, options)

    made, wrong = bench(student, splits=splits_of(60, 60, 0)), set()
    real = nodes.propose
    monkeypatch.setattr(
        nodes, "propose", lambda context, brief: wrong.update(brief.wrong_ids) or real(context, brief)
    )
    state = first_state(made.context, {"sizes": {"test": 0}})
    build_graph().invoke(state, {"recursion_limit": recursion_limit(3)}, context=made.context)
    assert wrong
    assert not [row_id for row_id in wrong if int(row_id[1:]) % 17 == 0]


def test_a_winner_that_fails_far_more_rows_is_not_confirmed_by_the_others() -> None:
    """Its answers time out on half of the rows that are hard; on all others it is right."""

    def student(messages: list[Message], options: Options) -> Any:
        number, is_new = number_of(messages), "slowly" in messages[0].content
        if is_new and number % 3 == 0:
            raise OwnClientError("timed out after 120 s")
        target = target_of(number)
        is_right = is_new or number % 2 == 1
        return target if is_right else LABELS[1 - LABELS.index(target)]

    made = bench(student, splits=splits_of(32, 90, 20))
    context = made.context
    state = first_state(context, {"sizes": {"test": 20}})
    winner = context.add(Candidate({"prompt": f"{PROMPT} slowly"}, operator="patch", parents=()))
    update: Any = {}
    confirm_winner(context, state, winner, update)
    rows = [row.id for row in (*context.plan.race, *context.plan.fresh)]
    failed = [i for i in rows if int(i[1:]) % 3 == 0]
    assert [i for i in failed if winner.scores[i] != 0.0] == []
    (warning,) = [e["message"] for e in made.kinds("warning") if "the winner failed" in e["message"]]
    assert "the confirmation counts them as wrong" in warning
    assert update["confirmation"]["raced"]["broken"] > 0


def compared(lost: int) -> Any:
    """100 rows: the old prompt is right on 60; the new one on all but `lost`, which are hard and time out."""
    right = EvaluatedRow("r", "x", "A", "A", True, 1.0)
    old = [replace(right, score=1.0 if n < 60 else 0.0) for n in range(100)]
    timed_out = replace(right, score=0.0, error="timed out")
    new = [timed_out if n >= 100 - lost else right for n in range(100)]
    return compare_rows(new, old, get_metric("exact_match"))


def test_a_prompt_gains_nothing_by_the_rows_that_it_fails() -> None:
    few, many = compared(5), compared(30)
    assert (few.left_out, few.is_better, few.is_lopsided) == (5, True, False)
    assert (many.left_out, many.is_better, many.is_lopsided) == (30, False, True)
