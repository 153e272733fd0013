"""Who goes to the confirmation, and which other candidates a user is told of."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import Bench, bench, splits_of

from autoprompt.measure.cost import row_tokens
from autoprompt.optimizer.ending.choosing import choose_winner, trade_off
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.search.pool import Entry, MeasuredUsage
from autoprompt.records import Candidate, Demo, Usage
from autoprompt.text.answers.reasoning import USUAL_TOKENS, request

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


def test_one_without_lessons_goes_where_the_race_proves_nothing_of_a_text_that_had_them() -> None:
    made = some_fresh()
    first_state(made.context, {})
    original = made.context.pool.original
    text = Candidate({"prompt": "Think."}, parents=(original.candidate.id,), operator="rewrite")
    other = Candidate({"prompt": "Reason."}, parents=(original.candidate.id,), operator="reason")
    raced(made, original.candidate, 0)
    written, plain = raced(made, text, 12), raced(made, other, 12)
    assert choose_winner(made.context, STATE | {"has_memory": True}, written) is plain
    (event,) = made.kinds("winner_chosen")
    assert event["reason"] == "memory"


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


def with_demos(made: Bench, right: int, demos: int, *, rows: int | None = None) -> Entry:
    """A candidate of so many demonstrations that has the first `right` rows of the race right."""
    shown = tuple(Demo(f"item {n}", "A", f"r{n}") for n in range(demos))
    entry = made.context.add(Candidate({"prompt": f"Prompt {demos}."}, shown, operator="demos"))
    ids = made.context.plan.race_ids[:rows]
    entry.scores.update({name: float(n < right) for n, name in enumerate(ids)})
    return entry


def scored_original(made: Bench, right: int) -> Entry:
    original = made.context.add(Candidate({"prompt": "Naive."}))
    ids = made.context.plan.race_ids
    original.scores.update({name: float(n < right) for n, name in enumerate(ids)})
    return original


def test_only_what_none_is_both_better_and_shorter_than_is_a_choice() -> None:
    made = bench()
    original = scored_original(made, 10)
    short, best = with_demos(made, 20, 2), with_demos(made, 25, 9)
    with_demos(made, 19, 3)  # worse and longer than `short`
    with_demos(made, 9, 1)  # worse than the original
    with_demos(made, 24, 4, rows=24)  # dropped before the end of the race
    found = trade_off(made.context, best)
    assert found is not None
    assert found.rows == len(made.context.plan.race_ids)
    told = [(c.id, c.demos, c.is_best, c.is_tested) for c in found.candidates]
    assert told == [
        (original.candidate.id, 0, False, True),
        (short.candidate.id, 2, False, False),
        (best.candidate.id, 9, True, True),
    ]
    assert [c.score * found.rows for c in found.candidates] == [10, 20, 25]
    of_untested = trade_off(made.context, best, is_test_opened=False)
    assert of_untested is not None
    assert not any(choice.is_tested for choice in of_untested.candidates)
    sizes = [c.tokens for c in found.candidates]
    assert sizes == sorted(sizes)
    assert sizes[1] == row_tokens(short.candidate, "input")  # nothing has counted the tokens of a call
    short.measured = MeasuredUsage.of([Usage(40, 3), Usage(42, 4)])
    measured = trade_off(made.context, best)
    assert measured is not None
    assert {c.id: c.tokens for c in measured.candidates}[short.candidate.id] == 44


def test_where_the_original_stays_the_runner_up_is_told() -> None:
    made = bench()
    original = scored_original(made, 10)
    ahead = with_demos(made, 12, 3)
    found = trade_off(made.context, original)
    assert found is not None
    assert [c.id for c in found.candidates] == [original.candidate.id, ahead.candidate.id]


def test_a_longer_one_is_no_choice_even_if_more_of_its_rows_are_right() -> None:
    """The best is ranked by its confidence as well."""
    made = bench()
    scored_original(made, 10)
    short, best = with_demos(made, 12, 1), with_demos(made, 25, 2)
    with_demos(made, 26, 30)
    found = trade_off(made.context, best)
    assert found is not None
    assert [c.id for c in found.candidates][1:] == [short.candidate.id, best.candidate.id]


def test_a_row_that_the_endpoint_lost_is_left_out_for_all() -> None:
    made = bench()
    original = scored_original(made, 10)
    short, best = with_demos(made, 20, 2), with_demos(made, 25, 9)
    ids = made.context.plan.race_ids
    del original.scores[ids[0]], best.scores[ids[1]]
    found = trade_off(made.context, best)
    assert found is not None
    assert found.rows == len(ids) - 2
    assert [c.score * found.rows for c in found.candidates] == pytest.approx([8, 18, 23])
    assert short.candidate.id in {c.id for c in found.candidates}


def test_reasoning_counts_as_length() -> None:
    prompt = f"Say A or B.\n{request('Say A or B.', ('A', 'B'))}"
    assert row_tokens(Candidate({"prompt": prompt}), "input") > USUAL_TOKENS


def test_no_choice_is_nothing_to_tell() -> None:
    made = bench()
    scored_original(made, 10)
    assert trade_off(made.context, with_demos(made, 25, 2)) is None
    # A cap that ends the run before the original has raced leaves nothing to compare with.
    made = bench()
    made.context.add(Candidate({"prompt": "Naive."}))
    with_demos(made, 12, 1)
    assert trade_off(made.context, with_demos(made, 25, 2)) is None


def test_many_choices_are_cut_to_the_best() -> None:
    made = bench()
    scored_original(made, 1)
    for n in range(2, 12):
        with_demos(made, n, n)
    found = trade_off(made.context, with_demos(made, 20, 20))
    assert found is not None
    assert [c.demos for c in found.candidates] == [0, 7, 8, 9, 10, 11, 20]


def test_the_leader_of_the_race_is_told_where_another_was_confirmed() -> None:
    made = bench()
    original = scored_original(made, 10)
    best, longest = with_demos(made, 23, 2), with_demos(made, 25, 9)
    assert trade_off(made.context, best) is None
    found = trade_off(made.context, best, leader=longest)
    assert found is not None
    told = [(c.id, c.is_best) for c in found.candidates]
    assert told == [(original.candidate.id, False), (best.candidate.id, True), (longest.candidate.id, False)]
    assert trade_off(made.context, original, leader=longest) == trade_off(
        made.context, original
    )  # it was not confirmed
