"""Score against length: which other candidates a user is told of."""

from __future__ import annotations

import pytest
from fakes import Bench, bench

from autoprompt.measure.cost import row_tokens
from autoprompt.optimizer.ending.choosing import trade_off
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Demo
from autoprompt.text.answers.reasoning import USUAL_TOKENS, request


def raced(made: Bench, right: int, demos: int, *, rows: int | None = None) -> Entry:
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
    short, best = raced(made, 20, 2), raced(made, 25, 9)
    raced(made, 19, 3)  # worse and longer than `short`
    raced(made, 9, 1)  # worse than the original
    raced(made, 24, 4, rows=24)  # dropped before the end of the race
    found = trade_off(made.context, best)
    assert found is not None
    assert found["rows"] == len(made.context.plan.race_ids)
    told = [(c["id"], c["demos"], c["is_best"]) for c in found["candidates"]]
    assert told == [
        (original.candidate.id, 0, False),
        (short.candidate.id, 2, False),
        (best.candidate.id, 9, True),
    ]
    assert [c["score"] * found["rows"] for c in found["candidates"]] == [10, 20, 25]
    sizes = [c["tokens"] for c in found["candidates"]]
    assert sizes == sorted(sizes)
    assert sizes[1] == row_tokens(short.candidate, "input")


def test_where_the_original_stays_the_runner_up_is_told() -> None:
    made = bench()
    original = scored_original(made, 10)
    ahead = raced(made, 12, 3)
    found = trade_off(made.context, original)
    assert found is not None
    assert [c["id"] for c in found["candidates"]] == [original.candidate.id, ahead.candidate.id]


def test_a_longer_one_is_no_choice_even_if_more_of_its_rows_are_right() -> None:
    """The best is ranked by its confidence as well."""
    made = bench()
    scored_original(made, 10)
    short, best = raced(made, 12, 1), raced(made, 25, 2)
    raced(made, 26, 30)
    found = trade_off(made.context, best)
    assert found is not None
    assert [c["id"] for c in found["candidates"]][1:] == [short.candidate.id, best.candidate.id]


def test_a_row_that_the_endpoint_lost_is_left_out_for_all() -> None:
    made = bench()
    original = scored_original(made, 10)
    short, best = raced(made, 20, 2), raced(made, 25, 9)
    ids = made.context.plan.race_ids
    del original.scores[ids[0]], best.scores[ids[1]]
    found = trade_off(made.context, best)
    assert found is not None
    assert found["rows"] == len(ids) - 2
    assert [c["score"] * found["rows"] for c in found["candidates"]] == pytest.approx([8, 18, 23])
    assert short.candidate.id in {c["id"] for c in found["candidates"]}


def test_reasoning_counts_as_length() -> None:
    prompt = f"Say A or B.\n{request('Say A or B.', ('A', 'B'))}"
    assert row_tokens(Candidate({"prompt": prompt}), "input") > USUAL_TOKENS


def test_no_choice_is_nothing_to_tell() -> None:
    made = bench()
    scored_original(made, 10)
    assert trade_off(made.context, raced(made, 25, 2)) is None
    # A cap that ends the run before the original has raced leaves nothing to compare with.
    made = bench()
    made.context.add(Candidate({"prompt": "Naive."}))
    raced(made, 12, 1)
    assert trade_off(made.context, raced(made, 25, 2)) is None


def test_many_choices_are_cut_to_the_best() -> None:
    made = bench()
    scored_original(made, 1)
    for n in range(2, 12):
        raced(made, n, n)
    found = trade_off(made.context, raced(made, 20, 20))
    assert found is not None
    assert [c["demos"] for c in found["candidates"]] == [0, 7, 8, 9, 10, 11, 20]


def test_the_leader_of_the_race_is_told_where_another_was_confirmed() -> None:
    made = bench()
    original = scored_original(made, 10)
    best, longest = raced(made, 23, 2), raced(made, 25, 9)
    assert trade_off(made.context, best) is None
    found = trade_off(made.context, best, longest)
    assert found is not None
    told = [(c["id"], c["is_best"]) for c in found["candidates"]]
    assert told == [(original.candidate.id, False), (best.candidate.id, True), (longest.candidate.id, False)]
    assert trade_off(made.context, original, longest) == trade_off(
        made.context, original
    )  # it was not confirmed
