"""Who goes to the confirmation: the best of the race, or one that more fresh rows can speak for."""

from __future__ import annotations

from typing import Any

from fakes import Bench, bench, splits_of

from autoprompt.optimizer.beginning import first_state
from autoprompt.optimizer.ending.finish import choose_winner
from autoprompt.search.pool import Entry
from autoprompt.types import Candidate, Demo

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
            "fresh_rows": 22,
            "fresh_rows_of_best": 0,
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


def some_fresh() -> Bench:
    """Of 40 rows of validation 16 are fresh for all; 22 of train are for one without demonstrations alone."""
    made = bench(splits=splits_of(22, 40, 0))
    assert len(made.context.plan.fresh) == 16
    return made


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
