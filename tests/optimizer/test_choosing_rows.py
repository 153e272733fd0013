"""Which rows of train can confirm a winner: unseen ones, and its own demonstrations, each left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fakes import Bench, bench, number_of, scored, splits_of, target_of, unit

from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.amounts import Spent
from autoprompt.optimizer.ending.choosing import FOLDS, ancestors, fresh_of_train, has_folds, held_out
from autoprompt.optimizer.ending.finish import confirm_winner
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.records import Candidate, Demo, Example, Message, Usage

STATE: dict[str, Any] = {"history": [], "has_memory": False}


def family(made: Bench, **last: Any) -> Candidate:
    """original -> patch (round 1) -> demos (round 2) -> the last."""
    first_state(made.context, {})
    original = made.context.pool.original.candidate
    patch = Candidate({"prompt": "patched"}, parents=(original.id,), operator="patch", iteration=1)
    demos = Candidate(
        patch.components, (Demo("item 5", "A", "r5"),), parents=(patch.id,), operator="demos", iteration=2
    )
    winner = Candidate(**{"components": {"prompt": "won"}, "parents": (demos.id,), "iteration": 3, **last})
    for candidate in (patch, demos, winner):
        made.context.add(candidate)
    return winner


def history(made: Bench) -> list[dict[str, Any]]:
    """Round n looked at rows 10 n and 10 n + 1 of train."""
    entries = []
    for n in (1, 2, 3):
        rows = [
            scored(e, True) for e in made.context.splits.train if e.id in (f"r{10 * n}", f"r{10 * n + 1}")
        ]
        path = made.files.write_predictions(f"{n:02d}-train", rows)
        entries.append({"iteration": n, "results": {"path": path.name}})
    return entries


def hidden(made: Bench, winner: Candidate, *, holds_out: bool = False) -> set[str]:
    found = fresh_of_train(made.context, made.context.pool[winner.id], history(made), False)
    rows = [*found.unseen, *(found.shown if holds_out else ())]
    assert {r.id for r in rows} <= {r.id for r in made.context.splits.train}
    assert len({r.id for r in rows}) == len(rows)
    return {r.id for r in made.context.splits.train} - {r.id for r in rows}


def test_ancestors_are_found_once_each() -> None:
    made = bench()
    winner = family(made)
    assert {c.operator for c in ancestors(made.context, winner)} == {"original", "patch", "demos"}
    assert len(ancestors(made.context, winner)) == 4
    orphan = Candidate({"prompt": "o"}, parents=("unknown",))
    assert ancestors(made.context, orphan) == [orphan]


def test_demonstrations_of_all_ancestors_and_rows_told_to_their_authors_are_seen() -> None:
    made = bench()
    # The last author was the writer of round 1; later looks taught this family nothing.
    assert hidden(made, family(made, operator="cues")) == {"r5", "r10", "r11"}


def test_a_later_author_saw_the_later_rows_too() -> None:
    made = bench()
    winner = family(made, operator="rewrite")
    assert hidden(made, winner) == {"r5", "r10", "r11", "r20", "r21", "r30", "r31"}


def test_a_choice_by_errors_is_informed_and_a_plain_draw_is_not() -> None:
    made = bench()
    demos = (Demo("item 7", "A", "r7"),)
    assert hidden(made, family(made, operator="demos_errors", demos=demos)) >= {"r7", "r30", "r31"}
    made = bench()
    assert hidden(made, family(made, operator="demos_varied", demos=demos)) == {"r5", "r7", "r10", "r11"}


def test_asked_without_themselves_demonstrations_and_what_chose_them_are_unseen() -> None:
    made = bench()
    demos = (Demo("item 7", "A", "r7"),)
    winner = family(made, operator="demos_errors", demos=demos, told=("r8",))
    assert hidden(made, winner, holds_out=True) == {"r10", "r11"}  # told to the writer of round 1
    made = bench()
    steps = (replace(demos[0], component="prompt"),)
    assert hidden(made, family(made, operator="demos", demos=steps), holds_out=True) == {"r10", "r11"}
    made = bench()
    winner = family(made, operator="describe", demos=demos, told=("r8",))
    assert hidden(made, winner, holds_out=True) == {"r8", "r10", "r11"}
    made = bench()
    winner = family(made, operator="rewrite", demos=demos)
    assert hidden(made, winner, holds_out=True) == {"r10", "r11", "r20", "r21", "r30", "r31"}


def test_rows_that_belong_to_one_seen_or_to_validation_are_no_fresh_ones() -> None:
    """A twin of a demonstration is answered by it, and one of a raced row says again what that one said."""
    made = bench()
    splits = made.context.splits
    groups = {"r5": "demo's", "r6": "demo's", "r20": "told", "r21": "told", "r12": "val's", "r13": "train's"}
    groups |= {splits.val[0].id: "val's"}

    def with_groups(rows: tuple[Example, ...]) -> tuple[Example, ...]:
        return tuple(replace(row, group=groups.get(row.id)) for row in rows)

    made.context.splits = replace(splits, train=with_groups(splits.train), val=with_groups(splits.val))
    winner = family(made, operator="cues", told=("r20",))
    assert hidden(made, winner) == {"r5", "r6", "r10", "r11", "r12", "r20", "r21"}


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
        replace(row, target="B" if n % 4 == 3 else "A") for n, row in enumerate(splits_of(16, 0, 0).train)
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
    winner = winner_of(made, 20, 4, operator=operator, told=("r1", "r2"))  # they decided what it shows
    found = confirmed(made, winner)
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


@pytest.mark.parametrize(("train", "shown"), [(200, 120), (200, 20), (60, 30)])
def test_rows_that_it_does_not_show_come_first(train: int, shown: int) -> None:
    made = bench(learning, splits=splits_of(train, 28, 0))
    found = confirmed(made, winner_of(made, shown, 4))
    assert (found["train_rows"], found["held_out_rows"]) == (28, 0)


def test_a_cap_on_tokens_that_is_too_small_for_them_leaves_the_others() -> None:
    made = bench(learning, splits=splits_of(26, 28, 0))
    made.context.budget.max_tokens = 3_000
    found = confirmed(made, winner_of(made, 16, 4))
    assert (found["train_rows"], found["held_out_rows"]) == (10, 0)
    assert found["confirmed"]


def test_a_row_that_only_belongs_to_one_that_is_shown_is_no_demonstration() -> None:
    splits = splits_of(24, 28, 0)
    train = tuple(replace(row, group=f"g{n // 3}") for n, row in enumerate(splits.train))
    made = bench(learning, splits=replace(splits, train=train))
    winner = winner_of(made, 24, 4)
    few = showing(train[::3], parents=winner.candidate.parents, operator="demos", iteration=1)
    entry = made.context.add(few)
    entry.scores.update(winner.scores)
    found = confirmed(made, entry)
    assert (found["train_rows"], found["held_out_rows"]) == (24, 8)
    assert len(entry.held_out) == 24


def coin(seed: int) -> Any:
    """Nothing helps: each prompt has luck of its own on every row."""

    def answer(messages: list[Message], options: Options) -> Completion:
        number, is_shown = number_of(messages), len(messages) > 2
        target = target_of(number)
        is_right = unit("coin", seed, number, is_shown) < 0.5
        return Completion(target if is_right else "BA"["AB".index(target)], Usage(20, 1))

    return answer


def test_where_nothing_helps_they_confirm_no_more_than_5_percent() -> None:
    """A lucky race must not decide whether they are asked: of these coins 7% were confirmed when it did."""
    won, tries = 0, 120
    for seed in range(tries):
        made = bench(coin(seed), splits=splits_of(22, 28, 0))
        winner = winner_of(made, 20, 0, operator="demos_errors")
        for entry, name in ((made.context.pool.original, "original"), (winner, "winner")):
            luck = {i: float(unit(name, seed, i) < 0.5) for i in made.context.plan.race_ids}
            entry.scores.update(luck)
        if winner.mean(made.context.plan.race_ids) <= made.context.pool.original.mean(
            made.context.plan.race_ids
        ):
            continue
        path = made.files.write_predictions(
            "01-train", [scored(row, True) for row in made.context.splits.train]
        )
        state: Any = {"history": [{"iteration": 1, "results": {"path": path.name}}], "has_memory": False}
        update: Any = {}
        confirm_winner(made.context, state, winner, update)
        assert update["confirmation"]["held_out_rows"] == 20
        won += update["confirmation"]["confirmed"]
    assert won <= 0.05 * tries + 2 * (0.05 * 0.95 * tries) ** 0.5


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
    assert {20, 21} < asked  # those that it does not show come first
    assert Counter(map(target_of, asked)) == {"A": 7, "B": 3}  # of all: 13 and 9


def test_what_was_asked_that_way_is_kept_and_read_again() -> None:
    made = bench(learning, splits=splits_of(22, 28, 0))
    winner = winner_of(made, 20, 4)
    confirmed(made, winner)
    assert winner.held_out == {f"r{n}" for n in range(20)}
    records = made.context.pool.to_records([winner.candidate.id])
    (back,) = Pool.from_records(records).entries
    assert (back.held_out, back.scores) == (winner.held_out, winner.scores)
    calls = len(made.task.calls)
    assert confirmed(made, winner)["held_out_rows"] == 20
    assert len(made.task.calls) == calls  # nothing is asked twice


def test_requests_that_failed_leave_calls_for_fewer_rows_and_not_for_none() -> None:
    made = bench(learning, splits=splits_of(22, 28, 0))
    budget = made.context.budget
    budget.restore(Spent(task_calls=40, repeats=12))  # 12 of 28 calls, and of 20 good ones before
    budget.max_calls = 40 + 26
    assert confirmed(made, winner_of(made, 20, 4))["train_rows"] == 10
