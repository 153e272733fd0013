"""Who goes to the confirmation: the best of the race, one with more fresh rows, or a shorter one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import Bench, bench, splits_of

from autoprompt.optimizer.ending.choosing import choose_winner
from autoprompt.optimizer.search.pool import Entry
from autoprompt.optimizer.state import first_state
from autoprompt.records import Candidate, Demo

STATE: dict[str, Any] = {"history": [], "has_memory": False}


def raced(made: Bench, candidate: Candidate, rights: int, *, rows: int | None = None) -> Entry:
    """A candidate that got the first `rights` of the raced rows right."""
    entry = made.context.add(candidate)
    ids = made.context.plan.race_ids[:rows]
    entry.scores.update({i: float(n < rights) for n, i in enumerate(ids)})
    entry.status = "accepted"
    return entry


def family(
    made: Bench, *, parent: int, child: int, shown: int | None = None, **of_parent: Any
) -> tuple[Entry, Entry]:
    """A text, and one that tells what all or some of train say, and shows them: rows that each got right."""
    first_state(made.context, {})
    original = made.context.pool.original
    raced(made, original.candidate, 0)
    original.scores.update(dict.fromkeys(made.context.plan.race_ids[-8:], 1.0))  # which the others break
    text = Candidate({"prompt": "Think first."}, parents=(original.candidate.id,), operator="reason")
    demos = tuple(Demo(row.input, row.target, row.id) for row in made.context.splits.train[:shown])
    told = tuple(demo.example_id for demo in demos)
    showing = Candidate(text.components, demos, parents=(text.id,), operator="describe", told=told)
    return raced(made, text, parent, **of_parent), raced(made, showing, child)


def few_rows(**settings: Any) -> Bench:
    """22 rows of train, and of 28 of validation none is kept fresh."""
    made = bench(splits=splits_of(22, 28, 0), **settings)
    assert not made.context.plan.fresh
    return made


def test_where_rows_are_few_the_parent_with_fresh_rows_goes_before_its_slightly_better_child() -> None:
    made = few_rows()
    parent, child = family(made, parent=17, child=18)
    assert choose_winner(made.context, STATE, child) is parent
    assert made.kinds("winner_chosen") == [
        {
            "event": "winner_chosen",
            "id": parent.candidate.id,
            "instead_of": child.candidate.id,
            "reason": "prospect",
            "score": 17 / 28,
            "score_of_best": 18 / 28,
            "fresh_rows": 22,
            "fresh_rows_of_best": 0,
            "tokens": 3,
            "tokens_of_best": 245,
        }
    ]


def test_a_child_that_is_sure_or_much_better_goes_itself() -> None:
    made = few_rows()
    _, child = family(made, parent=17, child=26)
    assert choose_winner(made.context, STATE, child) is child
    assert not made.kinds("winner_chosen")


def test_where_enough_rows_are_fresh_for_both_the_better_one_goes() -> None:
    made = bench(splits=splits_of(22, 75, 0))
    _, child = family(made, parent=30, child=31)
    assert choose_winner(made.context, STATE, child) is child


def test_without_calls_for_fresh_rows_the_best_goes() -> None:
    made = few_rows(max_calls=1)
    _, child = family(made, parent=17, child=18)
    assert choose_winner(made.context, STATE, child) is child


def test_one_that_the_race_dropped_is_no_choice() -> None:
    made = few_rows()
    _, child = family(made, parent=14, child=18, rows=16)
    assert choose_winner(made.context, STATE, child) is child


def test_the_best_goes_where_none_has_a_chance() -> None:
    made = few_rows()
    parent, child = family(made, parent=8, child=8)
    assert choose_winner(made.context, STATE, child) is child
    assert choose_winner(made.context, STATE, parent) is parent


def some_fresh(**settings: Any) -> Bench:
    """Of 40 rows of validation 16 are fresh for all; 22 of train are for one without demonstrations alone."""
    made = bench(splits=splits_of(22, 40, 0), **settings)
    assert len(made.context.plan.fresh) == 16
    return made


def test_a_parent_that_is_level_goes_where_more_rows_are_fresh_for_it() -> None:
    made = some_fresh()
    parent, child = family(made, parent=12, child=12, shown=16)
    assert choose_winner(made.context, STATE, child) is parent
    (event,) = made.kinds("winner_chosen")
    assert (event["reason"], event["fresh_rows"], event["fresh_rows_of_best"]) == ("prospect", 38, 22)


def test_a_parent_with_twice_the_fresh_rows_goes_unless_its_child_is_ahead_of_it() -> None:
    for child, is_parent in ((13, True), (14, True), (15, False)):  # of 24 rows; p = .5, .25 and .125
        made = some_fresh()
        entries = family(made, parent=12, child=child)
        assert choose_winner(made.context, STATE, entries[1]) is entries[0 if is_parent else 1]


def test_a_child_with_nearly_as_many_fresh_rows_goes_itself() -> None:
    made = some_fresh()
    _, child = family(made, parent=12, child=14, shown=4)
    assert choose_winner(made.context, STATE, child) is child


def test_without_fresh_rows_of_validation_a_parent_goes_only_for_the_gain_that_is_foreseen() -> None:
    made = few_rows()
    _, child = family(made, parent=15, child=17, shown=16)  # 6 rows of train are fresh, and 22
    assert choose_winner(made.context, STATE, child) is child


def test_a_child_that_is_as_good_as_sure_goes_itself() -> None:
    for rights in (20, 22, 24):  # of 24: it is foreseen to be confirmed with .95 and more
        made = some_fresh()
        _, child = family(made, parent=rights - 2, child=rights)
        assert choose_winner(made.context, STATE, child) is child


def test_one_that_the_best_was_not_made_from_has_no_precedence() -> None:
    made = some_fresh()
    _, child = family(made, parent=6, child=14)
    original = made.context.pool.original.candidate
    sibling = Candidate({"prompt": "Think twice."}, parents=(original.id,), operator="reason")
    raced(made, sibling, 13)
    assert choose_winner(made.context, STATE, child) is child


def test_a_parent_of_which_no_gain_is_foreseen_does_not_go() -> None:
    made = some_fresh()
    _, child = family(made, parent=9, child=11)
    assert choose_winner(made.context, STATE, child) is child


def sets(made: Bench, *shown: int, rights: int = 18, least: int = 18) -> list[Entry]:
    """Sets of so many demonstrations, the first the best: rows that it got right, and that the others did."""
    first_state(made.context, {})
    original = made.context.pool.original.candidate
    raced(made, made.context.pool.original.candidate, 4)
    rows = made.context.splits.train
    return [
        raced(
            made,
            Candidate(
                original.components,
                tuple(Demo(row.input, row.target, row.id) for row in rows[:number]),
                parents=(original.id,),
                operator="demos",
            ),
            least if place else rights,
        )
        for place, number in enumerate(shown)
    ]


def test_one_that_is_as_good_and_much_shorter_goes_instead() -> None:
    made = bench(splits=splits_of(60, 60, 0), prefer_shorter=0.0)
    best, shorter, shortest = sets(made, 48, 24, 12)
    assert choose_winner(made.context, STATE, best) is shortest
    (event,) = made.kinds("winner_chosen")
    assert event["reason"] == "shorter"
    assert event["tokens"] < event["tokens_of_best"] / 3
    assert choose_winner(made.context, STATE, shorter) is shortest


def test_unless_it_is_asked_for_the_longer_one_goes() -> None:
    made = bench(splits=splits_of(60, 60, 0))
    best, _ = sets(made, 48, 12)
    assert choose_winner(made.context, STATE, best) is best


def test_a_shorter_one_that_is_a_row_behind_stays_where_it_is() -> None:
    made = bench(splits=splits_of(60, 60, 0), prefer_shorter=0.0)
    best, _ = sets(made, 48, 12, least=17)
    assert choose_winner(made.context, STATE, best) is best
    assert not made.kinds("winner_chosen")


def test_of_two_about_as_long_the_surer_one_goes() -> None:
    made = bench(splits=splits_of(60, 60, 0), prefer_shorter=0.0)
    best, _ = sets(made, 48, 42)
    assert choose_winner(made.context, STATE, best) is best


def test_a_shorter_one_that_fewer_rows_can_speak_for_does_not_go() -> None:
    """What its writer was told takes rows of train, and so a part of its chance."""
    made = some_fresh(prefer_shorter=0.0)
    best, shorter = sets(made, 16, 2, rights=9, least=9)
    told = tuple(row.id for row in made.context.splits.train)
    shorter.candidate = replace(shorter.candidate, operator="describe", told=told)
    assert choose_winner(made.context, STATE, best) is best
    shorter.candidate = replace(shorter.candidate, told=())
    assert choose_winner(made.context, STATE, best) is shorter


@pytest.mark.parametrize(("margin", "is_taken"), [(0.02, False), (0.03, True)])
def test_how_much_may_be_lost_to_a_shorter_one_is_the_users_to_say(margin: float, is_taken: bool) -> None:
    made = bench(splits=splits_of(60, 60, 0), prefer_shorter=margin)
    best, shorter = sets(made, 48, 12, least=17)  # of 36 raced rows one is 0.028
    assert choose_winner(made.context, STATE, best) is (shorter if is_taken else best)
