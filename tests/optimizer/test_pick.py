"""The two tested ends of a run: the highest score, and the cheapest that is about as good."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import LABELS, Bench, bench, number_of, splits_of, target_of, unit
from schemas import fits

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.prices import FREE, Price
from autoprompt.measure.compare import compare_rows
from autoprompt.optimizer.ending.finish import call_cost, find_cheaper, finish
from autoprompt.optimizer.ending.verdict import end_lines, ends_of
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.search.plan import make_plan, with_pick
from autoprompt.optimizer.search.pool import Entry, MeasuredUsage
from autoprompt.records import Candidate, EvaluatedRow, Message, Usage, plain
from autoprompt.runs.result import CallCost, Ends, PassedOver, Result, Returned, Side
from autoprompt.runs.spending import Spending

STATE: Any = {"history": [], "has_memory": False}
TOKENS = {"naive": 50, "long": 900, "short": 200, "shorter": 100}
NAIVE = "Answer the naive way."


class Student:
    """Answers its share of the rows right, by a word of the prompt; the same rows for every prompt."""

    def __init__(self, price: Price = FREE, **shares: float) -> None:
        self.price = price
        self.shares = {"naive": 0.3, "long": 1.0, "short": 1.0, "shorter": 1.0, **shares}

    def __call__(self, messages: list[Message], options: Options) -> Completion:
        number = number_of(messages)
        kind = next(kind for kind in TOKENS if f" {kind} " in messages[0].content)
        target = target_of(number)
        is_right = unit("row", number) < self.shares[kind]
        answer = target if is_right else LABELS[1 - LABELS.index(target)]
        usage = Usage(TOKENS[kind], 1)
        return Completion(answer, replace(usage, cost_usd=self.price.cost(usage)))


def raced(made: Bench, *kinds: str) -> list[Entry]:
    """The original and prompts of these kinds, each on all rows of the race; the last but one is the best."""
    first_state(made.context, {})
    original = made.context.pool.original
    entries = [original]
    for kind in kinds:
        parents = (original.candidate.id,)
        entries.append(made.context.add(Candidate({"prompt": f"Answer the {kind} way."}, parents=parents)))
    made.context.evaluate(entries, made.context.plan.race, "race")
    return entries


def made_with(student: Student, test: int = 20, **more: Any) -> Bench:
    return bench(student, prompt=NAIVE, splits=splits_of(32, 60, test), **more)


def finished(made: Bench, winner: Entry) -> tuple[Entry, dict[str, Any]]:
    update: Any = {}
    returned = finish(made.context, STATE, winner, update)
    return returned, update


def test_the_cheapest_that_is_as_good_is_returned_and_both_ends_are_tested() -> None:
    made = made_with(Student())
    _, best, short, shorter = raced(made, "long", "short", "shorter")
    short.status = shorter.status = "rejected"  # who only drew level with its parent can be picked, too
    asked = made.context.budget.spent.calls
    returned, update = finished(made, best)
    assert returned is shorter
    ends = update["ends"]
    assert (ends["highest"], ends["cheapest"], ends["reason"]) == (
        best.candidate.id,
        shorter.candidate.id,
        "",
    )
    # 24 fresh rows and 20 test rows for each of the three, and rows of train for best and original.
    test, fresh = len(made.context.splits.test), len(made.context.plan.fresh)
    of_train = 2 * update["confirmation"]["train_rows"]
    assert made.context.budget.spent.calls - asked == 3 * (test + fresh) + of_train
    names = {name: update["test"][name]["path"] for name in ("best", "original", "other")}
    assert len(set(names.values())) == 3
    (event,) = made.kinds("pick_chosen")
    assert (event["returned"], event["cost_of_highest"]["amount"]) == (shorter.candidate.id, 901.0)


def test_a_row_that_the_endpoint_lost_for_all_leaves_a_cheaper_end() -> None:
    made = made_with(Student())
    entries = raced(made, "long", "short")
    for entry in entries:
        del entry.scores[made.context.plan.race_ids[3]]
    assert find_cheaper(made.context, entries[1]) == (entries[2], "")


@pytest.mark.parametrize(
    ("shares", "returned", "reason"),
    [
        ({"short": 0.97, "shorter": 0.5}, "short", ""),  # within one standard error, on all rows
        ({"short": 0.5, "shorter": 0.5}, "long", "none"),
    ],
)
def test_only_what_is_about_as_good_as_the_best_is_picked(
    shares: dict[str, float], returned: str, reason: str
) -> None:
    made = made_with(Student(**shares))
    _, best, *_ = raced(made, "long", "short", "shorter")
    found, update = finished(made, best)
    assert f" {returned} " in found.candidate.prompt
    assert update["ends"]["reason"] == reason


def test_one_that_falls_behind_on_fresh_rows_is_passed_over_and_never_tested() -> None:
    student = Student()
    made = made_with(student)
    _, best, short = raced(made, "long", "short")
    student.shares["short"] = 0.6
    returned, update = finished(made, best)
    assert returned is best
    assert (update["ends"]["reason"], update["ends"]["cheapest"]) == ("not_level", "")
    assert update["ends"]["level"]["confirmation"]["candidate"] == short.candidate.id
    assert update["ends"]["passed_over"] == short.candidate.id
    assert "other" not in update["test"]


def test_where_the_best_is_not_confirmed_the_cheaper_one_is_not_asked() -> None:
    """In a fixed sequence: what the second comparison finds must not add to the error of the first."""
    student = Student(naive=0.97)
    made = made_with(student)
    original, best, _ = raced(made, "long", "short")
    asked = made.context.budget.spent.calls
    returned, update = finished(made, best)
    assert returned is original
    assert (update["ends"]["highest"], update["ends"]["cheapest"]) == (original.candidate.id, "")
    fresh = len(made.context.plan.fresh) + update["confirmation"]["train_rows"]
    assert made.context.budget.spent.calls - asked == 2 * fresh + len(made.context.splits.test)
    assert not made.kinds("pick_chosen")


def test_who_asks_for_the_best_gets_it_and_pays_for_nothing_else() -> None:
    made = made_with(Student(), pick="highest")
    _, best, _ = raced(made, "long", "short")
    asked = made.context.budget.spent.calls
    returned, update = finished(made, best)
    assert returned is best
    assert update["ends"]["reason"] == "setting"
    test, fresh = len(made.context.splits.test), len(made.context.plan.fresh)
    assert made.context.budget.spent.calls - asked == 2 * (
        test + fresh + update["confirmation"]["train_rows"]
    )


@pytest.mark.parametrize(
    ("naive", "left", "tested"),
    [
        (0.3, 0, None),
        (0.3, 33, None),
        (0.3, 36, None),
        (0.3, 40, 16),
        (0.3, 44, 20),
        (0.7, 40, None),  # of so small a gain a part of the test can be too little
        (0.7, 44, 20),
    ],
)
def test_a_cap_holds_and_a_part_of_the_test_is_enough_that_shows_the_gain(
    naive: float, left: int, tested: int | None
) -> None:
    """24 fresh rows, then as many of the test's 20 as the plan keeps back."""
    made = made_with(Student(naive=naive))
    _, best, short = raced(made, "long", "short")
    context = made.context
    cap = context.budget.spent.calls + 2 * (24 + 20) + left
    context.budget.max_calls = cap
    context.plan = replace(context.plan, pick_calls=left)
    context.hold_final(best.candidate, is_simplified=True)
    returned, update = finished(made, best)
    assert context.budget.spent.calls <= cap
    assert returned is (best if tested is None else short)
    assert update["ends"]["reason"] == ("no_budget" if tested is None else "")
    if tested is not None:
        rows: list[EvaluatedRow] = context.read_results(update["test"]["best"])
        assert sum(not row.is_unasked for row in rows) == tested
    other = context.read_results(update["test"].get("other", update["test"]["best"]))
    assert not any(row.is_unasked for row in other)
    assert len(other) == 20


@pytest.mark.parametrize(("spare", "repeats"), [(12, 5), (36, 5), (36, 20), (60, 20)])
def test_faults_of_the_endpoint_take_no_calls_of_best_and_original_for_the_cheaper_end(
    spare: int, repeats: int
) -> None:
    """Where so many repeats are to be expected that the run cannot keep back what the plan says."""

    def capped(made: Bench) -> None:
        context = made.context
        context.budget.restore(replace(context.budget.spent, repeats=repeats))
        context.budget.max_calls = context.budget.spent.calls + 2 * (24 + 20) + spare
        kept = min(spare, 44) if context.settings.pick == "cheapest" else 0
        context.plan = replace(context.plan, pick_calls=kept)

    assert rows_asked("cheapest", capped) == rows_asked("best", capped)


@pytest.mark.parametrize("spare", [-5000, 0, 5000, 15000])
def test_tokens_that_end_before_the_calls_are_for_best_and_original_first(spare: int) -> None:
    def capped(made: Bench) -> None:
        needed = (24 + 20) * (TOKENS["naive"] + 1 + TOKENS["long"] + 1)
        made.context.budget.max_tokens = made.context.budget.spent.tokens + needed + spare

    assert rows_asked("cheapest", capped) == rows_asked("best", capped)


def rows_asked(pick: str, capped: Callable[[Bench], None]) -> tuple[int, int, int]:
    """Fresh rows of best and original, and the test rows of each, with a budget that is nearly used up."""
    made = made_with(Student(), pick=pick)
    _, best, _ = raced(made, "long", "short")
    context = made.context
    capped(made)
    with suppress(BudgetExhausted):
        context.hold_final(best.candidate, is_simplified=True)
    _, update = finished(made, best)
    test = update["test"]
    sides = [context.read_results(test[name]) for name in (_name_of_best(test), "original") if name in test]
    asked = [sum(not row.is_unasked for row in side) for side in sides] or [0, 0]
    return update["confirmation"]["fresh"]["rows"] - update["confirmation"]["train_rows"], asked[0], asked[1]


def _name_of_best(test: dict[str, Any]) -> str:
    return "other" if "other" in test else "best"


@pytest.mark.parametrize(("cap", "calls"), [(10_000, 44), (260, 30), (180, 10), (140, 0), (100, 0)])
def test_at_most_15_percent_of_the_calls_are_kept_back_and_none_of_the_first_round(
    cap: int, calls: int
) -> None:
    plan = make_plan(splits_of(32, 60, 20).val)
    assert with_pick(plan, 20, cap, cap - 140).pick_calls == calls


def test_a_sweep_of_prices_moves_the_pick_along_the_front() -> None:
    """The dearer the answers are, the less they weigh that are long; the pick never goes back."""
    made = made_with(Student())
    _, best, short, shorter = raced(made, "long", "short", "shorter")
    picks = []
    for output in (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0):
        made.context.costs.price = price = Price(1.0, output)
        for entry, written in ((made.context.pool.original, 1), (best, 0), (short, 40), (shorter, 400)):
            usage = Usage(TOKENS[_kind(entry)], written)
            entry.measured = MeasuredUsage.of([replace(usage, cost_usd=price.cost(usage))])
        found, _ = find_cheaper(made.context, best)
        picks.append(best if found is None else found)
    order = [shorter, short, best]
    places = [order.index(pick) for pick in picks]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2}


def _kind(entry: Entry) -> str:
    return next(kind for kind in TOKENS if f" {kind} " in entry.candidate.prompt)


def test_the_last_lines_say_what_was_passed_over_and_what_each_end_costs() -> None:
    price = Price(1.0, 4.0, cached_usd=0.1)
    made = made_with(Student(price))
    made.context.costs.price = price
    original, best, _ = raced(made, "long", "short")
    returned, update = finished(made, best)
    names = ("best", "original", "other")
    sides = {name: made.context.read_results(update["test"][name]) for name in names}
    compared = compare_rows(sides["best"], sides["original"], made.context.metric)
    ends = ends_of(update, made.context, sides, compared)
    assert ends.difference is not None
    assert (ends.difference.value, ends.difference.rows) == (0.0, 20)
    assert ends.other is not None
    assert (ends.returned, ends.other.id) == ("cheapest", best.candidate.id)
    fits("result", plain(ends), part="TestedEnds")
    of_returned, of_original = (call_cost(made.context, entry) for entry in (returned, original))
    record = Result(ends=ends, best=Returned(cost=of_returned), original=Side(cost=of_original))
    first, second, third = end_lines(record)
    assert first.endswith(
        f"Passed over: {best.candidate.id[:6]} with 1.00. Take it with `autoprompt runs export "
        f"RUN:{best.candidate.id[:6]}`."
    )
    assert second.startswith("This prompt minus the highest score: +0.00 on 20 unseen rows (95% interval ")
    assert (
        third
        == "1,000 calls cost $0.20 with this prompt; $0.054 with the original; $0.90 with the highest score."
    )


def test_a_cheaper_prompt_that_no_budget_was_left_to_test_was_not_behind() -> None:
    cost = CallCost("tokens", 9.0, 9.0, 9.0)
    passed = PassedOver("0536a5e0", 0.83, 0.9, replace(cost, amount=7.0, cold=7.0, warm=7.0))
    ends = Ends(reason="no_budget", passed_over=passed)
    record = Result(ends=ends, best=Returned(cost=cost), original=Side(cost=cost))
    said, costs = end_lines(record)
    assert said == (
        "Passed over: a cheaper prompt, 0536a5, is about as good in the race (0.83 against 0.90). A larger "
        "budget tests it."
    )
    assert costs == (
        "1,000 calls take 9,000 tokens with this prompt; 9,000 tokens with the original; 7,000 tokens with "
        "the cheaper 0536a5. For dollars, set price_input and price_output."
    )
    free = end_lines(replace(record, cost_usd=0.0))[-1]
    assert free.endswith("7,000 tokens with the cheaper 0536a5. The model is free.")
    writer = Spending("optimizer", 9, Usage(9, 1, None))
    mixed = replace(record, spending=(Spending("task", 9, Usage(9, 1, 0.0)), writer))
    assert end_lines(mixed)[-1] == free  # the price of the writer alone is missing


def test_the_cost_under_another_traffic_stands_beside_cold_and_warm() -> None:
    cost = CallCost("usd", 0.00024, 0.00053, 0.0000704)
    assert cost.both == "$0.53 cold, $0.0704 warm, $0.24 with the run's traffic"
    assert replace(cost, amount=cost.cold).both == "$0.53 cold, $0.0704 warm"
    assert CallCost("usd", 0.001, 0.001, 0.001).both == "$1.00"
