"""What the context keeps back of a budget."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from fakes import PROMPT, Bench, World, bench, scored, splits_of

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.prices import COLD, FREE, WARM, Cost, Price, Traffic
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


PRICE = Price(1.0, 4.0, cached_usd=0.1)


def priced(usage: Usage, price: Price = PRICE, **more: Any) -> Usage:
    """Return the usage with its cost."""
    return replace(usage, cost_usd=price.cost(usage), **more)


def warm_and_cold(made: Bench, entry: Entry) -> tuple[float, float]:
    """What a million calls cost, in dollars."""
    costs = [made.context.costs.of(entry, traffic) for traffic in (WARM, COLD)]
    assert {cost.unit for cost in costs} == {"usd"}
    warm, cold = (1e6 * cost.amount for cost in costs)
    return warm, cold


def test_a_call_costs_what_the_answered_rows_took_on_average() -> None:
    made = bench()
    made.context.costs.price = PRICE
    entry = answered(made, PROMPT, priced(Usage(100, 5)), rows=2)
    longer = [replace(scored(row, True), usage=priced(Usage(300, 15))) for row in made.context.plan.race[2:4]]
    lost = replace(scored(made.context.plan.race[4], False), error="timed out", usage=Usage(900, 0))
    made.context.pool.record(entry.candidate.id, [*longer, lost])
    assert made.context.costs.of(entry) == Cost(pytest.approx((200 * 1.0 + 10 * 4.0) / 1e6), "usd")


def test_rows_that_are_asked_without_some_demonstrations_say_nothing_of_the_cost() -> None:
    made = bench()
    entry = answered(made, PROMPT, Usage(100, 5))
    row = replace(scored(made.context.plan.race[9], True), usage=Usage(10, 5))
    made.context.pool.record(entry.candidate.id, [row], is_held_out=True)
    assert made.context.costs.of(entry) == Cost(105.0, "tokens")


def test_a_warm_prefix_is_what_the_provider_counted_or_the_constant_part_from_1024_tokens() -> None:
    made = bench()
    made.context.costs.price = PRICE
    long = 3 * estimate_tokens("word " * 3000)
    counted = answered(made, "counted", priced(Usage(2000, 0, cached_tokens=1920)))
    # The first row of five did not find it in the cache.
    first = replace(scored(made.context.plan.race[5], True), usage=priced(Usage(2000, 0)))
    made.context.pool.record(counted.candidate.id, [first])
    assert warm_and_cold(made, counted) == pytest.approx((80 + 192, 2000))

    # No row of these has met the cache yet: three times as many tokens as by the texts, but for the row's.
    plain = answered(made, "word " * 3000, priced(Usage(long, 0)))
    templated = answered(made, "word " * 3000 + "\n\nText: {input}", priced(Usage(long, 0)))
    for entry in (plain, templated):
        warm, cold = warm_and_cold(made, entry)
        assert cold == pytest.approx(long)
        assert warm == pytest.approx(0.1 * long, rel=0.05)
    short = answered(made, "word " * 300, priced(Usage(400, 0)))
    assert warm_and_cold(made, short) == pytest.approx((400, 400))
    fewer = answered(made, "other " * 1200, priced(Usage(900, 0)))  # more than 1,024 by its text alone
    assert estimate_tokens("other " * 1200) > 1024
    assert warm_and_cold(made, fewer) == pytest.approx((900, 900))


def asked_again(made: Bench, entry: Entry, usage: Usage, rows: int = 8) -> None:
    """Rows that came when others of the candidate had been answered."""
    found = [replace(scored(row, True), usage=usage) for row in made.context.plan.race[8 : 8 + rows]]
    made.context.pool.record(entry.candidate.id, found)


def test_a_prompt_that_never_met_the_cache_costs_the_same_warm_and_cold() -> None:
    made = bench()
    made.context.costs.price = PRICE
    long = answered(made, "long " * 3000, priced(Usage(3000, 0)))
    longer = answered(made, "longer " * 4000, priced(Usage(4000, 0)))
    assert warm_and_cold(made, long)[0] < 400  # by the price alone
    asked_again(made, longer, priced(Usage(4000, 0)))
    assert warm_and_cold(made, longer) == pytest.approx((4000, 4000))
    # And so do the others, as long as no prompt at all meets the cache.
    assert warm_and_cold(made, long) == pytest.approx((3000, 3000))
    longest = made.context.add(Candidate({"prompt": "longest " * 9000}))
    warm, cold = warm_and_cold(made, longest)
    assert warm == cold > 4000

    answered(made, "hit " * 3000, priced(Usage(3000, 0, cached_tokens=2048)))
    assert warm_and_cold(made, longer) == pytest.approx((4000, 4000))
    assert warm_and_cold(made, long)[0] < 400


def test_short_prompts_do_not_say_that_long_ones_are_not_cached() -> None:
    made = bench()
    made.context.costs.price = PRICE
    asked_again(made, answered(made, PROMPT, priced(Usage(40, 1))), priced(Usage(40, 1)))
    long = answered(made, "long " * 3000, priced(Usage(3000, 0)))
    assert warm_and_cold(made, long)[0] < 400


def test_a_model_of_ones_own_costs_seconds_as_soon_as_it_says_how_long_it_took() -> None:
    made = bench()
    made.context.costs.price = FREE
    before = made.context.costs.of(made.context.add(Candidate({"prompt": PROMPT})))
    assert before.unit == "tokens"
    first = answered(made, "one", Usage(100, 5, read_s=0.6, write_s=0.2))
    second = answered(made, "two", Usage(1100, 5, cached_tokens=1000, read_s=0.6, write_s=0.2))
    # 0.006 s for each token that is read, 0.04 s for each that is written: cold, all are read.
    assert made.context.costs.of(first) == Cost(pytest.approx(0.8), "seconds")
    assert made.context.costs.of(second) == Cost(pytest.approx(6.8), "seconds")
    assert made.context.costs.of(second, WARM) == Cost(pytest.approx(0.8), "seconds")


BILL = Price(2.0, 8.0, cached_usd=0.5)


def billed(usage: Usage) -> Usage:
    usd = BILL.cost(usage)
    return replace(usage, cost_usd=usd, billed_usd=usd)


@pytest.mark.parametrize("price", [None, PRICE, Price(30.0, 30.0)])
def test_what_the_answers_say_they_cost_is_the_cost(price: Price | None) -> None:
    """Whatever price is set; and an answer's token is not as dear as one of the prompt."""
    made = bench()
    made.context.costs.price = price
    taken = {"original": Usage(30, 300), "thinks": Usage(30, 2000), "demos": Usage(1030, 300)}
    entries = {name: answered(made, name, billed(usage)) for name, usage in taken.items()}
    for name, entry in entries.items():
        own = 1e6 * BILL.cost(taken[name])
        assert warm_and_cold(made, entry) == pytest.approx((own, own))
    longer = made.context.add(Candidate({"prompt": "original" + " word" * 100}))
    added = row_tokens(longer.candidate, "input") - row_tokens(entries["original"].candidate, "input")
    cold = 30 * 2.0 + 300 * 8.0 + added * 2.0
    assert warm_and_cold(made, longer)[1] == pytest.approx(cold, rel=1e-3)


def test_the_discount_of_cached_tokens_is_found_in_the_bills() -> None:
    made = bench()
    original = answered(made, "one", billed(Usage(30, 2)))
    long = answered(made, "long", billed(Usage(2000, 2)), rows=1)  # the first row meets no cache
    asked_again(made, long, billed(Usage(2000, 2, cached_tokens=1920)), rows=9)
    answered(made, "longer", billed(Usage(3000, 2, cached_tokens=1024)))
    answered(made, "thinks", billed(Usage(60, 200)))
    assert warm_and_cold(made, original) == pytest.approx((76, 76))
    warm, cold = 80 * 2.0 + 1920 * 0.5 + 16, 4000 + 16
    assert warm_and_cold(made, long) == pytest.approx((warm, cold), rel=1e-3)
    hourly = 1e6 * made.context.costs.of(long, Traffic(12)).amount
    assert hourly == pytest.approx(cold + (1 - math.exp(-1)) * (warm - cold), rel=1e-3)


def test_cached_tokens_at_the_full_price_are_no_cheaper_warm() -> None:
    made = bench()
    full = Price(2.0, 8.0)
    for text, usage in (("one", Usage(30, 2)), ("two", Usage(900, 2)), ("thinks", Usage(60, 200))):
        answered(made, text, priced(usage, full))
    long = answered(made, "long", priced(Usage(2000, 2, cached_tokens=1920), full))
    assert warm_and_cold(made, long) == pytest.approx((4016, 4016), rel=1e-3)


def test_a_row_that_asks_several_models_costs_what_all_of_them_cost() -> None:
    """A cheap and a dear one, at the prices of neither of which all tokens could be counted."""
    made = bench()
    cheap, dear = Price(0.1, 0.4), Price(5.0, 20.0)

    def row(*, cheap_tokens: int, dear_tokens: int) -> Usage:
        return priced(Usage(cheap_tokens, 5), cheap) + priced(Usage(dear_tokens, 5), dear)

    of_cheap = answered(made, "demos for the cheap one", row(cheap_tokens=1000, dear_tokens=50))
    of_dear = answered(made, "demos for the dear one", row(cheap_tokens=50, dear_tokens=1000))
    assert warm_and_cold(made, of_cheap)[1] == pytest.approx(100 + 2 + 250 + 100)
    assert warm_and_cold(made, of_dear)[1] == pytest.approx(5 + 2 + 5000 + 100)


def test_without_the_cost_of_each_answer_a_call_costs_tokens() -> None:
    """The price of one of a row's models is not known, or one answer of many came without its cost."""
    made = bench()
    known = answered(made, "known", billed(Usage(100, 5)))
    assert made.context.costs.of(known).unit == "usd"
    answered(made, "unknown", Usage(200, 5, cost_usd=None), rows=1)
    assert made.context.costs.of(known) == Cost(105.0, "tokens")


def test_bills_of_nothing_leave_tokens_to_compare_by() -> None:
    made = bench()
    made.context.costs.price = PRICE
    assert made.context.costs.of(made.context.add(Candidate({"prompt": "new"}))).unit == "usd"
    free = answered(made, "free", Usage(100, 5, 0.0, billed_usd=0.0))
    assert made.context.costs.of(free) == Cost(105.0, "tokens")


def test_a_client_that_counts_no_tokens_can_say_what_its_answers_cost() -> None:
    made = bench()
    entry = answered(made, "one", Usage(0, 0, cost_usd=0.5))
    assert made.context.costs.of(entry) == Cost(pytest.approx(0.5), "usd")
    assert made.context.costs.of(made.context.add(Candidate({"prompt": "one more"}))).unit == "usd"


def test_tokens_are_those_of_the_answered_rows() -> None:
    made = bench()
    entry = answered(made, PROMPT, Usage(100, 5))
    assert made.context.costs.tokens(entry) == 105


def test_an_unmeasured_candidate_is_as_much_dearer_as_it_is_longer() -> None:
    made = bench()
    answered(made, PROMPT, Usage(100, 5))
    longer = made.context.add(Candidate({"prompt": PROMPT + " word" * 100}))
    added = row_tokens(longer.candidate, "input") - row_tokens(made.context.pool.original.candidate, "input")
    assert added > 50
    assert made.context.costs.of(longer) == Cost(105.0 + added, "tokens")


def test_a_resumed_run_has_the_same_costs() -> None:
    made = bench()
    entry = answered(made, PROMPT, Usage(2000, 5, 0.25, cached_tokens=1024, read_s=0.5, write_s=0.1))
    asked_again(made, entry, Usage(2000, 5, 0.5, cached_tokens=1024))
    again = Pool.from_records(json.loads(json.dumps(made.context.pool.to_records([entry.candidate.id]))))
    assert again.original.measured == entry.measured
    assert (entry.measured.rows, entry.measured.late_rows) == (12, 8)
    rows = [replace(scored(row, True), usage=Usage(10, 2)) for row in made.context.plan.race[:3]]
    results = made.context.save_results("01-train", Evaluation("x", tuple(rows)))
    assert results["measured"] == {"rows": 3, "hits": 0, **Usage(30, 6).to_record()}
