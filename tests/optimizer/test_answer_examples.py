"""What the demonstrations of a single prompt show as the answer: the target, or how the model got there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import bench, rows, scored
from test_propose import brief

from autoprompt.optimizer.propose.brief import Place, shown_with
from autoprompt.optimizer.propose.steps import own_answers
from autoprompt.optimizer.search.demos import to_demo
from autoprompt.records import Candidate, Example

TRAIN = [replace(row, target=str(n)) for n, row in enumerate(rows(0, 12))]


def worked(row: Example) -> str:
    return f"First I add them up, then I take one away, and so the answer is {row.target}."


def test_short_answers_are_shown_by_their_targets() -> None:
    seen = [scored(row, n % 2 == 0) for n, row in enumerate(TRAIN[:8])]
    assert own_answers(seen, TRAIN) is None
    assert own_answers([], TRAIN) is None


def test_answers_that_are_worked_out_are_shown_as_they_are() -> None:
    seen = [scored(row, n % 2 == 0, answer=worked(row)) for n, row in enumerate(TRAIN[:8])]
    assert own_answers(seen, TRAIN) == {row.id: worked(row) for row in TRAIN[:8:2]}


def test_reasoned_answers_are_shown_with_their_reasoning_however_short() -> None:
    seen = [
        replace(scored(row, True, answer=row.target), output=f"Answer: {row.target}") for row in TRAIN[:4]
    ]
    assert own_answers(seen, TRAIN) is None
    without = replace(seen[0], example_id=TRAIN[5].id, output="It is so, I think, and so it will be.")
    shown = own_answers([*seen, without], TRAIN, is_reasoned=True)
    assert shown == {row.id: f"Answer: {row.target}" for row in TRAIN[:4]}


def test_wrong_lost_and_foreign_rows_are_not_shown() -> None:
    lost = replace(scored(TRAIN[1], True, answer=worked(TRAIN[1])), error="timed out")
    foreign = replace(scored(TRAIN[2], True, answer=worked(TRAIN[2])), example_id="elsewhere")
    wrong = scored(TRAIN[3], False, answer=worked(TRAIN[3]))
    right = scored(TRAIN[4], True, answer=worked(TRAIN[4]))
    assert own_answers([lost, foreign, wrong, right], TRAIN) == {TRAIN[4].id: worked(TRAIN[4])}


def test_the_last_right_answer_to_a_row_counts() -> None:
    first = scored(TRAIN[0], True, answer=worked(TRAIN[0]))
    again = scored(TRAIN[0], True, answer=worked(TRAIN[0]) + " Done.")
    assert (own_answers([first, again], TRAIN) or {})[TRAIN[0].id].endswith("Done.")


@pytest.mark.parametrize(("right", "kinds"), [(8, {"own", "target"}), (2, {"target"})])
def test_own_long_answers_and_targets_take_turns_unless_few_are_right(right: int, kinds: set[str]) -> None:
    made = bench()
    made.context.settings = replace(made.context.settings, labels=())
    train = made.context.splits.train
    seen = [scored(row, n < right, answer=worked(row)) for n, row in enumerate(train[:16])]
    made_brief = brief(made, seen=seen)
    original = made.context.pool.original.candidate
    found = []
    for draw in range(4):
        shown = shown_with(made.context, made_brief, Place(draw, draw, 0), original)
        found.append("own" if shown.answers else "target")
        assert len(shown.examples) == (right if shown.answers else len(train))
        # A set that is changed later stays of its kind.
        demos = tuple(to_demo(row, shown.answers) for row in shown.examples[:4])
        child = Candidate(original.components, demos=demos)
        again = shown_with(made.context, made_brief, Place(0, draw + 1, 0), child)
        assert bool(again.answers) is bool(shown.answers)
    assert set(found) == kinds
