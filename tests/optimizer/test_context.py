"""What the context keeps back of a budget."""

from __future__ import annotations

import pytest
from fakes import PROMPT, World, bench, splits_of

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.context import Pace
from autoprompt.optimizer.search.plan import make_plan
from autoprompt.records import Candidate, Demo, Message, Usage

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


def test_evaluations_are_in_the_order_of_the_jobs_whatever_was_asked_first() -> None:
    made = bench()
    demos = [Demo(f"shown {n}", "A") for n in range(4)]
    candidates = [Candidate({"prompt": PROMPT}, tuple(demos[:size])) for size in (1, 0, 4, 2)]
    rows = made.context.splits.train[:2]
    found = made.context.ask([(candidate, rows) for candidate in candidates])
    assert [evaluation.candidate_id for evaluation in found] == [c.id for c in candidates]
    assert [len(messages) for messages in made.task.calls] == [10, 10, 6, 6, 4, 4, 2, 2]


def test_the_pace_is_that_of_an_average_row() -> None:
    fast, slow, unknown = (Candidate({"prompt": name}) for name in ("fast", "slow", "unknown"))
    pace = Pace()
    assert pace.of(slow) == 1.0
    for candidate, seconds in ((fast, 2.0), (fast, 2.0), (fast, 2.0), (slow, 6.0)):
        pace.add(candidate, seconds)
    assert (pace.of(fast), pace.of(slow)) == pytest.approx((2 / 3, 2.0))
    assert pace.of(unknown) == 1.0


def test_each_row_that_is_asked_counts_for_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("autoprompt.measure.rows.time.monotonic", lambda: now[0])

    def student(messages: list[Message], options: Options) -> Completion:
        now[0] += 6.0 if "slow" in messages[0].content else 2.0
        return World().student(messages, options)

    context = bench(student).context
    slow, fast = (Candidate({"prompt": f"Be {name}: A or B."}) for name in ("slow", "fast"))
    context.ask([(slow, context.splits.train[:1]), (fast, context.splits.train[:3])])
    assert (context.pace.of(fast), context.pace.of(slow)) == pytest.approx((2 / 3, 2.0))
    assert context.pace.seconds_per_row == pytest.approx(3.0)


def test_rows_that_were_recalled_say_nothing_of_the_time() -> None:
    pace = Pace()
    assert pace.seconds_per_row == 0.0
    pace.add_block(40, 0.01)
    assert pace.seconds_per_row == 0.0
    pace.add_block(10, 4.0)
    pace.add_block(10, 2.0)
    assert pace.seconds_per_row == pytest.approx(0.3)


def test_rows_are_read_from_their_file_only_after_a_resume() -> None:
    made = bench()
    (evaluation,) = made.context.ask([(Candidate({"prompt": PROMPT}), made.context.splits.train[:3])])
    results = made.context.save_results("01-train", evaluation)
    kept = made.files.predictions.pop("01-train")
    assert made.context.read_results(results) == list(evaluation.rows)
    resumed = bench()
    resumed.files.predictions["01-train"] = kept
    assert resumed.context.read_results(results) == list(evaluation.rows)
