"""What the context keeps back of a budget."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fakes import PROMPT, Bench, World, bench, scored, splits_of

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.prices import FREE, REPORTED, WARM, Cost, Price
from autoprompt.measure.cost import row_tokens
from autoprompt.optimizer.context import Pace
from autoprompt.optimizer.search.plan import make_plan
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.records import Candidate, Demo, Evaluation, Message, Usage
from autoprompt.text.scripts import estimate_tokens

CALLS = 2 * (24 + 20) * 2  # winner and original on fresh and test rows, each graded


@pytest.mark.parametrize("grown", [0, 100])
def test_the_judges_tokens_are_kept_back_by_its_own_measure(grown: int) -> None:
    splits = splits_of(32, 60, 20)
    context = bench(splits=splits, plan=make_plan(splits.val, calls_per_row=2), judge_tokens=155.0).context
    original = context.add(Candidate(context.program.components)).candidate
    longer = Candidate({name: text + " word" * grown for name, text in original.components.items()})
    context.hold_final(longer, is_simplified=True)
    by_texts = context.budget.held["tokens"]
    assert 155 * CALLS / 2 < by_texts < (155 + 30 + grown) * CALLS / 2
    context.budget.release_hold()

    for role, usage in (("task", Usage(29, 1)), ("judge", Usage(250, 5))):
        for _ in range(10):
            context.budget.charge(role)
            context.budget.add_usage(role, usage)
    context.hold_final(longer, is_simplified=True)
    # Half of the calls are the judge's, and half of the others are the original's.
    assert context.budget.held["tokens"] == pytest.approx((255 + 30 + grown / 2) * CALLS / 2, rel=0.05)


@pytest.mark.parametrize(("max_calls", "kept"), [(None, 84), (1000, 84), (300, 22), (212, 0)])
def test_calls_are_kept_back_to_simplify_the_best(max_calls: int | None, kept: int) -> None:
    """Three blocks of 16 rows and a race over all 36; of a cap at most a quarter of what is beyond 212."""
    context = bench(splits=splits_of(32, 60, 20), max_calls=max_calls).context
    original = context.add(Candidate(context.program.components)).candidate
    context.hold_final(original)
    assert context.budget.held["calls"] == 2 * (24 + 20) + kept
    context.hold_final(original, is_simplified=True)
    assert context.budget.held["calls"] == 2 * (24 + 20)


@pytest.mark.parametrize(("max_calls", "held"), [(None, 88), (1000, 160), (240, 160), (150, 150)])
def test_rows_that_confirm_the_best_come_before_its_simpler_forms(max_calls: int | None, held: int) -> None:
    """88 calls are of the final comparisons, 72 of as many rows of train as raced."""
    context = bench(splits=splits_of(32, 60, 20), max_calls=max_calls).context
    context.hold_confirmation(context.add(Candidate(context.program.components)).candidate)
    assert context.budget.held["calls"] == held


def test_rows_that_confirm_the_best_come_first_with_requests_that_fail_too() -> None:
    context = bench(splits=splits_of(32, 60, 20), max_calls=240).context
    original = context.add(Candidate(context.program.components)).candidate
    context.budget.restore(Spent(task_calls=60, repeats=20))
    context.hold_confirmation(original)
    assert context.budget.held["calls"] == 172  # 130 of them for the final comparisons, with their repeats


def test_what_writing_costs_makes_no_row_dearer() -> None:
    context = bench(splits=splits_of(32, 60, 20)).context
    original = context.add(Candidate(context.program.components)).candidate
    for role, usage in (("task", Usage(48, 2, 0.00001)), ("optimizer", Usage(3000, 300, 0.01))):
        for _ in range(10):
            context.budget.charge(role)
            context.budget.add_usage(role, usage)
    context.hold_final(original, is_simplified=True)
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


def answered(made: Bench, text: str, usage: Usage, rows: int = 4, demos: tuple[Demo, ...] = ()) -> Entry:
    """A candidate that took so much on each of its rows."""
    entry = made.context.add(Candidate({"prompt": text}, demos))
    found = [replace(scored(row, True), usage=usage) for row in made.context.plan.race[:rows]]
    made.context.pool.record(entry.candidate.id, found)
    return entry


def test_a_call_costs_what_the_answered_rows_took_on_average() -> None:
    made = bench()
    made.context.price = Price(1.0, 4.0, cached_usd=0.1)
    entry = answered(made, PROMPT, Usage(100, 5), rows=2)
    longer = [replace(scored(row, True), usage=Usage(300, 15)) for row in made.context.plan.race[2:4]]
    lost = replace(scored(made.context.plan.race[4], False), error="timed out", usage=Usage(900, 0))
    made.context.pool.record(entry.candidate.id, [*longer, lost])
    assert made.context.cost(entry) == Cost(pytest.approx((200 * 1.0 + 10 * 4.0) / 1e6), "usd")


def test_rows_that_are_asked_without_some_demonstrations_say_nothing_of_the_cost() -> None:
    made = bench()
    entry = answered(made, PROMPT, Usage(100, 5))
    row = replace(scored(made.context.plan.race[9], True), usage=Usage(10, 5))
    made.context.pool.record(entry.candidate.id, [row], is_held_out=True)
    assert made.context.cost(entry) == Cost(105.0, "tokens")


def test_a_warm_prefix_is_what_the_provider_counted_or_the_constant_part_from_1024_tokens() -> None:
    made = bench()
    made.context.price = Price(1.0, 4.0, cached_usd=0.1)
    cases = [
        # As counted: the first row of four did not find it in the cache.
        (answered(made, "counted", Usage(2000, 0, cached_tokens=1920)), 80 + 192),
        (answered(made, "word " * 3000, Usage(4000, 0)), 4000 - 0.9 * estimate_tokens("word " * 3000)),
        (answered(made, "word " * 300, Usage(400, 0)), 400),
        (answered(made, "word " * 3000 + "\n\nText: {input}", Usage(4000, 0)), None),
    ]
    first = replace(scored(made.context.plan.race[5], True), usage=Usage(2000, 0))
    made.context.pool.record(cases[0][0].candidate.id, [first])
    for entry, amount in cases[:3]:
        assert made.context.cost(entry, WARM).amount * 1e6 == pytest.approx(amount)
    templated, plain = (made.context.cost(cases[i][0], WARM).amount * 1e6 for i in (3, 1))
    assert templated == pytest.approx(plain, rel=0.01)


def test_a_model_of_ones_own_costs_seconds_as_soon_as_it_says_how_long_it_took() -> None:
    made = bench()
    made.context.price = FREE
    before = made.context.cost(made.context.add(Candidate({"prompt": PROMPT})))
    assert before.unit == "tokens"
    first = answered(made, "one", Usage(100, 5, read_s=0.6, write_s=0.2))
    second = answered(made, "two", Usage(1100, 5, cached_tokens=1000, read_s=0.6, write_s=0.2))
    # 0.006 s for each token that is read, 0.04 s for each that is written: cold, all are read.
    assert made.context.cost(first) == Cost(pytest.approx(0.8), "seconds")
    assert made.context.cost(second) == Cost(pytest.approx(6.8), "seconds")
    assert made.context.cost(second, WARM) == Cost(pytest.approx(0.8), "seconds")


def test_what_a_model_reports_itself_is_its_cost() -> None:
    made = bench()
    made.context.price = REPORTED
    entry = answered(made, "one", Usage(100, 25, cost_usd=0.5))
    assert made.context.cost(entry) == Cost(pytest.approx(0.5), "usd")


def test_an_unmeasured_candidate_is_as_much_dearer_as_it_is_longer() -> None:
    made = bench()
    answered(made, PROMPT, Usage(100, 5))
    longer = made.context.add(Candidate({"prompt": PROMPT + " word" * 100}))
    added = row_tokens(longer.candidate, "input") - row_tokens(made.context.pool.original.candidate, "input")
    assert added > 50
    assert made.context.cost(longer) == Cost(105.0 + added, "tokens")


def test_a_resumed_run_has_the_same_costs() -> None:
    made = bench()
    entry = answered(made, PROMPT, Usage(2000, 5, 0.25, cached_tokens=1024, read_s=0.5, write_s=0.1))
    again = Pool.from_records(json.loads(json.dumps(made.context.pool.to_records([entry.candidate.id]))))
    assert again.original.measured == entry.measured
    rows = [replace(scored(row, True), usage=Usage(10, 2)) for row in made.context.plan.race[:3]]
    results = made.context.save_results("01-train", Evaluation("x", tuple(rows)))
    assert results["measured"] == {"rows": 3, "hits": 0, **Usage(30, 6).to_record()}
