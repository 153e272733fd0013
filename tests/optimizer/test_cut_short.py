"""The budget ends in the middle of the last comparisons: what was answered by then counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes import Bench, World, bench, splits_of

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.amounts import Spent
from autoprompt.optimizer.ending.finish import confirm_winner, open_test
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, EvaluatedRow, Message

STATE: dict[str, Any] = {"history": [], "has_memory": False}


class Clock:
    """Each answer takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def student(self, messages: list[Message], options: Options) -> Completion:
        self.now += 1.0
        return World().student(messages, options)


Made = Callable[[float], tuple[Bench, Entry, Entry]]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Made:
    """A context whose time ends after so many seconds, its original, and a better prompt."""

    def make(max_seconds: float) -> tuple[Bench, Entry, Entry]:
        clock = Clock()
        monkeypatch.setattr("time.monotonic", clock)
        made = bench(clock.student, splits=splits_of(32, 60, 20))
        first_state(made.context, {})
        made.context.budget.clock = clock
        made.context.budget.restore(Spent())
        made.context.budget.max_seconds = max_seconds
        original = made.context.pool.original
        parents = (original.candidate.id,)
        winner = made.context.add(Candidate({"prompt": "Mind the rule."}, parents=parents))
        return made, original, winner

    return make


def opened(made: Bench, original: Entry, winner: Entry) -> dict[str, Any]:
    update: Any = {}
    open_test(made.context, original, winner, update)
    return dict(update)


def side(made: Bench, update: dict[str, Any], name: str) -> list[EvaluatedRow]:
    return made.context.read_results(update["test"][name])


def test_time_that_ends_among_the_sealed_rows_leaves_those_that_both_have(timed: Made) -> None:
    made, original, winner = timed(34.5)
    update = opened(made, original, winner)
    assert update["stop_reason"] == "max_seconds"
    best, before = side(made, update, "best"), side(made, update, "original")
    assert [row.example_id for row in best] == [row.id for row in made.context.splits.test]
    assert [row.example_id for row in before] == [row.id for row in made.context.splits.test]
    assert not any(row.is_lost for row in before)
    assert sum(row.is_unasked for row in best) == 5
    assert made.kinds("rows_evaluated")[-1]["done"] == 35  # of 40
    assert sum(row.is_lost for row in best) == 5


def test_too_few_sealed_rows_give_no_verdict(timed: Made) -> None:
    made, original, winner = timed(28.5)  # 9 of 20 rows
    update = opened(made, original, winner)
    assert update["test"] == {"opened": update["test"]["opened"]}
    assert update["stop_reason"] == "max_seconds"


def test_every_beginning_of_the_sealed_rows_holds_the_targets_in_their_shares(timed: Made) -> None:
    made, original, winner = timed(30.5)
    splits = made.context.splits
    by_target = tuple(sorted(splits.test, key=lambda row: row.target))  # as some files are
    made.context.splits = replace(splits, test=by_target)
    asked = [row for row in side(made, opened(made, original, winner), "best") if not row.is_lost]
    assert 10 <= len(asked) < len(by_target)
    targets = [row.target for row in by_target]
    share = targets.count("A") / len(targets)
    assert abs(sum(row.ground_truth == "A" for row in asked) - share * len(asked)) < 1


def test_time_that_ended_before_another_prompt_was_measured_leaves_the_test_sealed(timed: Made) -> None:
    made, original, winner = timed(90.5)
    update: Any = {}
    open_test(made.context, original, original, update, "max_seconds")
    assert (update["test"], made.task.calls) == ({}, [])
    winner.scores[made.context.plan.race_ids[0]] = 1.0
    open_test(made.context, original, original, update, "max_seconds")
    assert len(made.task.calls) == 20


def test_time_that_ends_among_the_fresh_rows_leaves_those_that_both_have(timed: Made) -> None:
    made, original, winner = timed(90.5)
    for entry in (original, winner):
        entry.scores.update(dict.fromkeys(made.context.plan.race_ids, float(entry is winner)))
    fresh = len(made.context.plan.fresh)
    made.context.budget.max_seconds = fresh + 9.5
    update: Any = {}
    confirm_winner(made.context, STATE, winner, update)  # type: ignore[arg-type]
    found = update["confirmation"]
    assert update["stop_reason"] == "max_seconds"
    assert (found["fresh"]["rows"], found["train_rows"], found["held_out_rows"]) == (10, 0, 0)


def test_the_time_that_is_kept_back_for_the_test_goes_by_the_winners_pace(
    timed: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, original, winner = timed(1000)
    context = made.context
    context.evaluate([original, winner], context.plan.race[:10], "race")
    paces = {original.candidate.id: 0.5, winner.candidate.id: 2.5}
    monkeypatch.setattr(context.pace, "of", lambda candidate: paces[candidate.id])
    context.hold_test(winner.candidate)
    assert context.budget.held["seconds"] == pytest.approx(20 * 0.5 + 20 * 2.5)


def test_what_writing_takes_is_kept_back_for_no_row(timed: Made) -> None:
    made, original, winner = timed(1000)
    context, clock = made.context, made.context.budget.clock
    context.evaluate([original, winner], context.plan.race[:10], "race")
    context.budget.charge("optimizer")
    clock.now += 500  # type: ignore[attr-defined]
    assert context.budget.seconds_per_call > 20
    context.hold_test(winner.candidate)
    assert context.budget.held["seconds"] == pytest.approx(40)


def test_time_that_is_too_short_is_shared_out_between_fresh_rows_and_test(timed: Made) -> None:
    made, original, winner = timed(40)
    context = made.context
    context.evaluate([original, winner], context.plan.race[:10], "race")  # 20 s
    context.hold_test(winner.candidate)
    fresh, test = len(context.plan.fresh), 20
    assert context.budget.held["seconds"] == pytest.approx(20 * test / (test + fresh))
    with pytest.raises(BudgetExhausted, match="max_seconds"):
        context.evaluate([original, winner], context.plan.fresh, "fresh", keeps_rest=True)
    assert 8 <= sum(row.id in original.scores for row in context.plan.fresh) <= 12


def test_few_rows_do_not_say_that_the_time_is_too_short(timed: Made) -> None:
    made, original, _ = timed(60)
    context = made.context
    context.evaluate(
        [original], context.plan.race[:4], "race"
    )  # a second each: the end would take 80 or more
    context.hold_final(original.candidate)
    assert context.budget.held["seconds"] == pytest.approx((60 - 4) / 2)
    context.pace.add_block(300, 300)
    with pytest.raises(BudgetExhausted, match="max_seconds"):
        context.hold_final(original.candidate)
