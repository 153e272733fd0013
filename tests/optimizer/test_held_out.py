"""Rows of train that a winner shows speak for it too where few rows are fresh: each asked without itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fakes import Bench, bench, number_of, splits_of, target_of

from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.beginning import first_state
from autoprompt.optimizer.ending.finish import confirm_winner
from autoprompt.optimizer.ending.held_out import FOLDS, has_folds, held_out
from autoprompt.search.pool import Entry, Pool
from autoprompt.types import Candidate, Demo, Example, Message, Usage

STATE: dict[str, Any] = {"history": [], "has_memory": False}


def showing(rows: tuple[Example, ...], **more: Any) -> Candidate:
    demos = tuple(Demo(row.input, row.target, row.id) for row in rows)
    return Candidate({"prompt": "Decide."}, demos, **more)


def ids_of(candidate: Candidate) -> set[str]:
    return {demo.example_id for demo in candidate.demos}


def test_each_row_is_asked_once_and_without_itself() -> None:
    train = splits_of(30, 0, 0).train
    candidate = showing(train[:22])
    jobs = held_out(candidate, train, train)
    assert Counter(row.id for _, rows in jobs for row in rows) == Counter(row.id for row in train)
    whole = [rows for asked, rows in jobs if asked is candidate]
    assert whole == [list(train[22:])]  # what it does not show is asked as ever
    folds = [(asked, rows) for asked, rows in jobs if asked is not candidate]
    assert len(folds) == FOLDS
    for asked, rows in folds:
        assert ids_of(candidate) - ids_of(asked) == {row.id for row in rows}
        assert len(rows) in (5, 6)
        assert asked.id != candidate.id
        assert asked.components == candidate.components
        assert asked.demos == tuple(demo for demo in candidate.demos if demo.example_id in ids_of(asked))


def test_what_is_left_of_the_demonstrations_has_the_shares_of_the_whole() -> None:
    train = tuple(
        replace(row, target="A" if n < 12 else "B") for n, row in enumerate(splits_of(16, 0, 0).train)
    )
    for asked, _ in held_out(showing(train), train, train):
        assert Counter(demo.output for demo in asked.demos) == {"A": 9, "B": 3}


def test_rows_of_a_group_are_left_out_together_shown_or_not() -> None:
    train = splits_of(24, 0, 0).train
    train = tuple(replace(row, group=f"g{n // 3}") for n, row in enumerate(train))  # r0 r1 r2, r3 r4 r5, ...
    candidate = showing(tuple(row for n, row in enumerate(train) if n % 3))
    groups = {row.id: row.group for row in train}
    for asked, rows in held_out(candidate, train, train):
        assert {row.group for row in rows}.isdisjoint(groups[i] for i in ids_of(asked))
    assert sum(len(rows) for _, rows in held_out(candidate, train, train)) == 24


def test_three_are_too_few_to_leave_one_out_and_so_are_three_groups() -> None:
    train = splits_of(12, 0, 0).train
    assert has_folds(showing(train[:4]), train)
    assert not has_folds(showing(train[:3]), train)
    assert not has_folds(showing(()), train)
    grouped = tuple(replace(row, group=f"g{n % 3}") for n, row in enumerate(train))
    assert not has_folds(showing(grouped), grouped)


def copying(messages: list[Message], options: Options) -> Completion:
    """Right where the row itself is shown, and wrong everywhere else."""
    target = target_of(number_of(messages))
    is_shown = messages[-1].content in [message.content for message in messages[1:-1]]
    return Completion(target if is_shown else "BA"["AB".index(target)], Usage(20, 1))


def learning(messages: list[Message], options: Options) -> Completion:
    """Right with four demonstrations and more."""
    target = target_of(number_of(messages))
    is_right = sum(message.role == "assistant" for message in messages) >= 4
    return Completion(target if is_right else "BA"["AB".index(target)], Usage(20, 1))


def winner_of(made: Bench, shown: int, raced_right: int, **more: Any) -> Entry:
    """A candidate with the first rows of train as demonstrations, and so many of the raced rows right."""
    first_state(made.context, {})
    original = made.context.pool.original
    ids = made.context.plan.race_ids
    original.scores.update(dict.fromkeys(ids, 0.0))
    train = made.context.splits.train[:shown]
    candidate = showing(
        train, **{"operator": "demos", "parents": (original.candidate.id,), "iteration": 1, **more}
    )
    entry = made.context.add(candidate)
    entry.scores.update({i: float(n < raced_right) for n, i in enumerate(ids)})
    entry.status = "accepted"
    return entry


def confirmed(made: Bench, winner: Entry) -> dict[str, Any]:
    update: dict[str, Any] = {}
    confirm_winner(made.context, STATE, winner, update)  # type: ignore[arg-type]
    return update["confirmation"]


@pytest.mark.parametrize("operator", ["demos", "demos_varied", "demos_errors", "demos_rebalanced"])
def test_where_few_rows_are_fresh_those_it_shows_count_and_confirm_it(operator: str) -> None:
    made = bench(learning, splits=splits_of(22, 28, 0))
    found = confirmed(made, winner_of(made, 20, 4, operator=operator))
    assert (found["fresh"]["rows"], found["train_rows"], found["held_out_rows"]) == (22, 22, 20)
    assert (found["fresh"]["score"], found["fresh"]["other_score"]) == (1.0, 0.0)
    assert found["confirmed"]
    asked = Counter((number_of(call), len(call) > 2) for call in made.task.calls)
    assert asked == Counter({(n, is_shown): 1 for n in range(22) for is_shown in (False, True)})


def test_no_row_is_asked_beside_its_own_answer() -> None:
    """A prompt that only repeats what it shows gains nothing by being asked for it."""
    made = bench(copying, splits=splits_of(22, 28, 0))
    found = confirmed(made, winner_of(made, 20, 4))
    assert found["held_out_rows"] == 20
    assert found["fresh"]["score"] == 0.0
    assert not found["confirmed"]


def test_they_are_left_alone_where_the_others_are_enough_or_the_race_was_plain() -> None:
    for splits, right in ((splits_of(22, 90, 0), 4), (splits_of(22, 44, 0), 26)):
        made = bench(learning, splits=splits)
        found = confirmed(made, winner_of(made, 20, right))
        assert found["held_out_rows"] == 0
        assert found["train_rows"] == 2


def test_rows_that_an_author_was_told_of_stay_out() -> None:
    made = bench(learning, splits=splits_of(22, 28, 0))
    winner = winner_of(made, 20, 4, operator="describe", told=tuple(f"r{n}" for n in range(8)))
    found = confirmed(made, winner)
    assert (found["train_rows"], found["held_out_rows"]) == (14, 12)
    assert {number_of(call) for call in made.task.calls} == set(range(8, 22))


def test_a_cap_on_calls_takes_rows_away_evenly_over_the_answers() -> None:
    made = bench(learning, splits=splits_of(22, 28, 0), max_calls=20)
    found = confirmed(made, winner_of(made, 20, 4))
    assert found["train_rows"] == 10
    assert made.context.budget.spent.calls == 20
    asked = {number_of(call) for call in made.task.calls}
    assert Counter(map(target_of, asked)) == {"A": 6, "B": 4}  # of all: 13 and 9


def test_what_was_asked_that_way_is_kept_and_read_again() -> None:
    made = bench(learning, splits=splits_of(22, 28, 0))
    winner = winner_of(made, 20, 4)
    confirmed(made, winner)
    assert winner.held_out == {f"r{n}" for n in range(20)}
    records = made.context.pool.to_records([winner.candidate.id])
    (back,) = Pool.from_records(records).entries
    assert (back.held_out, back.scores) == (winner.held_out, winner.scores)
    del records[0]["held_out"]  # as earlier versions wrote it
    assert Pool.from_records(records).entries[0].held_out == set()
    calls = len(made.task.calls)
    assert confirmed(made, winner)["held_out_rows"] == 20
    assert len(made.task.calls) == calls  # nothing is asked twice
