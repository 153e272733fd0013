"""What the context keeps back of a budget."""

from __future__ import annotations

import pytest
from fakes import bench, splits_of

from autoprompt.errors import BudgetExhausted
from autoprompt.optimizer.search.plan import make_plan
from autoprompt.records import Candidate, Usage

CALLS = 2 * (24 + 20) * 2  # winner and original on fresh and test rows, each graded


@pytest.mark.parametrize("grown", [0, 100])
def test_the_judges_tokens_are_kept_back_by_its_own_measure(grown: int) -> None:
    splits = splits_of(32, 60, 20)
    context = bench(splits=splits, plan=make_plan(splits.val, calls_per_row=2), judge_tokens=155.0).context
    original = context.add(Candidate(context.program.components)).candidate
    longer = Candidate({name: text + " word" * grown for name, text in original.components.items()})
    context.hold_final(longer)
    by_texts = context.budget.held["tokens"]
    assert 155 * CALLS / 2 < by_texts < (155 + 30 + grown) * CALLS / 2
    context.budget.release_hold()

    for role, usage in (("task", Usage(29, 1)), ("judge", Usage(250, 5))):
        for _ in range(10):
            context.budget.charge(role)
            context.budget.add_usage(role, usage)
    context.hold_final(longer)
    # Half of the calls are the judge's, and half of the others are the original's.
    assert context.budget.held["tokens"] == pytest.approx((255 + 30 + grown / 2) * CALLS / 2, rel=0.05)


def test_what_writing_costs_makes_no_row_dearer() -> None:
    context = bench(splits=splits_of(32, 60, 20)).context
    original = context.add(Candidate(context.program.components)).candidate
    for role, usage in (("task", Usage(48, 2, 0.00001)), ("optimizer", Usage(3000, 300, 0.01))):
        for _ in range(10):
            context.budget.charge(role)
            context.budget.add_usage(role, usage)
    context.hold_final(original)
    assert context.budget.held["cost_usd"] == pytest.approx(0.00001 * CALLS / 2)


def test_what_the_test_needs_is_kept_back_even_where_no_room_is_left_for_retries() -> None:
    """An outage cost a third of the calls: the room for as many more would be more than is left."""
    context = bench(splits=splits_of(32, 60, 20), max_calls=100).context
    original = context.add(Candidate(context.program.components)).candidate
    for is_repeat in (False,) * 30 + (True,) * 20:
        context.budget.charge("task", is_repeat=is_repeat)
    context.hold_test(original)
    assert context.budget.held["calls"] == 40
    assert context.budget.calls_left() == 10
    for _ in range(10):
        context.budget.charge("task")
    with pytest.raises(BudgetExhausted):
        context.budget.charge("task")
    context.budget.release_hold()
    with context.budget.block(40, leaves_room=False):
        pass
