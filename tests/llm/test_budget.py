from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.records import Usage


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_calls_are_never_passed_whatever_the_threads_do() -> None:
    budget = BudgetMeter(max_calls=50)

    def one_call(_: int) -> bool:
        try:
            budget.charge("task")
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        sent = sum(pool.map(one_call, range(200)))
    assert sent == budget.spent.calls == 50


def test_a_block_starts_whole_or_not_at_all() -> None:
    budget = BudgetMeter(max_calls=10)
    with budget.block(6):
        assert budget.calls_left() == 4
        with pytest.raises(BudgetExhausted, match="max_calls=10") as caught, budget.block(5):
            pytest.fail("must not start")
        assert caught.value.cap == "max_calls"
        for _ in range(2):
            budget.charge("task")
    assert budget.calls_left() == 8  # the four that were not used are back


def test_retries_do_not_take_what_a_block_has_for_its_rows() -> None:
    budget = BudgetMeter(max_calls=4)
    with budget.block(3):
        budget.charge("task")
        budget.charge("task", is_retry=True)  # the one call beyond the block
        with pytest.raises(BudgetExhausted):
            budget.charge("task", is_retry=True)
        budget.charge("task")
        budget.charge("task")
        with pytest.raises(BudgetExhausted):
            budget.charge("task")
    assert budget.spent.calls == 4


def test_what_is_granted_for_retries_pays_for_them_and_nothing_else() -> None:
    budget = BudgetMeter(max_calls=6)
    with budget.block(2):
        budget.charge("task")
        with budget.retries(9) as granted:
            assert (granted, budget.calls_left()) == (4, 0)
            budget.charge("task", is_retry=True)
            budget.charge("task")  # of the block
            with pytest.raises(BudgetExhausted):
                budget.charge("task")
        assert budget.calls_left() == 3
        with budget.retries(2) as granted:
            assert (granted, budget.calls_left()) == (2, 1)
            budget.charge_replay("task", 1, Usage(5, 1), is_retry=True)
        assert budget.calls_left() == 2
    assert (budget.spent.calls, budget.spent.asked_again, budget.spent.repeats) == (4, 2, 0)
    with BudgetMeter().retries(7) as granted:
        assert granted == 7


def test_unreadable_answers_are_kept_room_for_up_to_a_quarter_of_the_calls() -> None:
    budget = BudgetMeter(max_calls=400)
    with budget.block(100):
        for _ in range(100):
            budget.charge("task")
    for _ in range(12):
        budget.charge("task", is_retry=True)
    budget.hold(100)
    assert budget.calls_left() == 400 - 112 - 100 - 10 - 7  # as many as so far, and two standard deviations
    for _ in range(50):
        budget.charge("task", is_retry=True)
    budget.hold(100)
    assert budget.calls_left() == 400 - 162 - 100 - 37


def test_a_cap_may_be_filled_exactly_by_nested_blocks() -> None:
    budget = BudgetMeter(max_calls=5)
    with budget.block(2):
        budget.charge("optimizer")
        with budget.block(3):
            for _ in range(4):
                budget.charge("task")
    assert (budget.spent.optimizer_calls, budget.spent.task_calls, budget.calls_left()) == (1, 4, 0)


def test_what_is_held_is_there_at_the_end() -> None:
    budget = BudgetMeter(max_calls=10, max_tokens=1000)
    budget.hold(8, tokens=900)
    budget.charge("task")
    budget.charge("task")
    with pytest.raises(BudgetExhausted):
        budget.charge("task")
    budget.add_usage("task", Usage(90, 10))
    budget.release_hold()
    with budget.block(8, tokens=900):
        budget.charge("task")


def test_a_hold_that_does_not_fit_names_its_cap() -> None:
    budget = BudgetMeter(max_calls=10, max_cost=0.5)
    with pytest.raises(BudgetExhausted, match="max_cost"):
        budget.hold(10, cost_usd=0.6)
    budget.charge("task")  # nothing stayed held


def test_a_hold_leaves_room_for_as_many_retries_as_there_were_or_for_none() -> None:
    budget = BudgetMeter(max_calls=20)
    budget.charge("task")
    budget.charge("task", is_repeat=True)
    with pytest.raises(BudgetExhausted, match="max_calls"):
        budget.hold(16)
    budget.hold(16, leaves_room=False)
    assert budget.calls_left() == 2


@pytest.mark.parametrize(
    ("caps", "usage", "cap"),
    [
        ({"max_tokens": 100}, Usage(90, 10), "max_tokens"),
        ({"max_cost": 0.01}, Usage(1, 1, 0.01), "max_cost"),
    ],
)
def test_tokens_and_cost_stop_the_next_call(caps: dict[str, float], usage: Usage, cap: str) -> None:
    budget = BudgetMeter(**caps)  # type: ignore[arg-type]
    with budget.block(3):
        budget.charge("task")
        budget.add_usage("task", usage)
        with pytest.raises(BudgetExhausted) as caught:
            budget.charge("task")
    assert caught.value.cap == cap
    assert budget.spent.calls == 1


def test_a_block_that_would_pass_a_token_cap_does_not_start() -> None:
    budget = BudgetMeter(max_tokens=100)
    with pytest.raises(BudgetExhausted, match="max_tokens"), budget.block(2, tokens=101):
        pytest.fail("must not start")


@pytest.mark.parametrize(
    ("caps", "need", "said"),
    [
        (
            {"max_calls": 2000},
            {"calls": 2500},
            "max_calls=2000 reached: 1 call used, 2,500 more needed",
        ),
        (
            {"max_tokens": 1_000_000},
            {"tokens": 999_999},
            "max_tokens=1000000 reached: 5,020 tokens used, 999,999 more needed",
        ),
        ({"max_tokens": 5000}, {}, "max_tokens=5000 exceeded by 20 (0.4%): 5,020 tokens used"),
        ({"max_cost": 0.00001}, {}, "max_cost=0.00001 exceeded by $0.000002 (20.0%): $0.000012 used"),
        (
            {"max_cost": 0.5},
            {"cost_usd": 1.5},
            "max_cost=0.5 reached: $0.000012 used, $1.50 more needed",
        ),
        ({"max_seconds": 3}, {}, "max_seconds=3 reached: 3.4 s used"),
    ],
)
def test_a_reached_cap_is_told_in_its_unit(caps: dict[str, Any], need: dict[str, Any], said: str) -> None:
    clock = Clock()
    budget = BudgetMeter(**caps, clock=clock)
    budget.charge("task")
    budget.add_usage("task", Usage(4990, 30, 0.000012))
    clock.now += 3.39745
    with pytest.raises(BudgetExhausted) as caught, budget.block(**{"calls": 1, **need}):
        pytest.fail("must not start")
    assert str(caught.value) == said


def test_seconds_go_on_after_a_resume() -> None:
    clock = Clock()
    budget = BudgetMeter(max_seconds=60, clock=clock)
    clock.now += 40
    saved = json.loads(json.dumps(budget.spent.to_dict()))
    later = BudgetMeter(max_seconds=60, clock=clock)
    later.restore(saved)
    later.charge("task")
    clock.now += 20
    with pytest.raises(BudgetExhausted, match="max_seconds"):
        later.charge("task")


def test_a_replayed_answer_is_paid_like_the_first_time() -> None:
    fresh, resumed = BudgetMeter(max_calls=10), BudgetMeter(max_calls=10)
    with fresh.block(2):
        fresh.charge("task")
        fresh.charge("task", is_repeat=True)
        fresh.add_usage("task", Usage(5, 1))
        left = fresh.calls_left()
    with resumed.block(2):
        resumed.charge_replay("task", 2, Usage(5, 1))
        assert resumed.calls_left() == left
    assert resumed.spent.to_dict() | {"seconds": 0} == fresh.spent.to_dict() | {"seconds": 0}


def test_a_replayed_failure_is_paid_by_what_is_free_so_that_the_block_pays_for_asking_again() -> None:
    budget = BudgetMeter(max_calls=5)
    with budget.block(2):
        budget.charge_replay("task", 3, Usage(), has_failed=True)
        assert budget.calls_left() == 0
        budget.charge_replay("task", 1, Usage(), has_failed=True)  # nothing is free: the cap is the cap
        budget.charge("task")
        with pytest.raises(BudgetExhausted, match="max_calls"):
            budget.charge("task")
    assert budget.spent.calls == 5


def test_one_unknown_price_makes_the_cost_unknown() -> None:
    budget = BudgetMeter()
    budget.add_usage("task", Usage(1, 1, 0.5))
    budget.add_usage("judge", Usage(1, 1, None))
    assert budget.spent.cost_usd is None
    assert budget.spent.tokens == 4
    assert Spent.from_dict(budget.spent.to_dict()).judge == Usage(1, 1, None)


def test_a_cap_that_nobody_set_is_not_used_up_by_faults() -> None:
    budget = BudgetMeter(max_calls=3, caps_repeats=False)
    with budget.block(2):
        for is_repeat in (False, True, True, False, True):
            budget.charge("task", is_repeat=is_repeat)
    assert (budget.spent.calls, budget.spent.repeats, budget.calls_left()) == (5, 3, 1)
    saved = json.loads(json.dumps(budget.spent.to_dict()))
    later = BudgetMeter(max_calls=3, caps_repeats=False)
    later.restore(saved)
    later.charge("task")
    with pytest.raises(BudgetExhausted):
        later.charge("task")


def test_a_repeat_that_never_left_is_not_counted() -> None:
    budget = BudgetMeter(max_calls=3)
    budget.charge("task")
    budget.refund(budget.charge("task", is_repeat=True))
    assert (budget.spent.calls, budget.spent.repeats) == (1, 0)


def test_a_block_leaves_room_for_as_many_retries_as_there_were() -> None:
    budget = BudgetMeter(max_calls=240)
    for is_repeat in (False, True) * 80:  # every request takes two: .8 after 20 that are taken as faultless
        budget.charge("task", is_repeat=is_repeat)
    with budget.block(44):
        pass
    with pytest.raises(BudgetExhausted), budget.block(45):
        pytest.fail("45 rows would take 81 of the 80 calls that are left")
    with budget.block(80, leaves_room=False):
        pass


def test_a_few_faults_at_the_start_keep_little_back() -> None:
    budget = BudgetMeter(max_calls=300)
    for is_repeat in (False, True) * 4:
        budget.charge("optimizer", is_repeat=is_repeat)
    budget.hold(100)  # and a sixth, and two standard deviations
    assert budget.calls_left() == 300 - 8 - (100 + 26)
    with budget.block(140):
        pass


def test_what_is_held_grows_with_the_faults_seen() -> None:
    budget = BudgetMeter(max_calls=1000)
    budget.hold(100)
    assert budget.calls_left() == 900
    for is_repeat in (False, False, True) * 100:
        budget.charge("task", is_repeat=is_repeat)
    budget.hold(100)
    # 100 repeats of 220 again, 20 of them taken as faultless, and 2 x sqrt(100 * .4545 * 1.4545)
    assert budget.calls_left() == 1000 - 300 - (100 + 62)


def test_seconds_per_call_begin_with_the_first_call() -> None:
    clock = Clock()
    budget = BudgetMeter(clock=clock)
    clock.now += 5  # imports, a model that is loaded
    assert budget.seconds_per_call == 0
    for _ in range(4):
        budget.charge("task")
    clock.now += 2
    assert budget.seconds_per_call == 0.5


def test_an_unknown_price_does_not_hide_the_known_cost_from_its_cap() -> None:
    budget = BudgetMeter(max_cost=0.4)
    budget.add_usage("task", Usage(1, 1, 0.5))
    budget.add_usage("judge", Usage(1, 1, None))
    assert budget.spent.cost_usd is None
    resumed = BudgetMeter(max_cost=0.4)
    resumed.restore(json.loads(json.dumps(budget.spent.to_dict())))
    for one in (budget, resumed):
        with pytest.raises(BudgetExhausted, match="max_cost"):
            one.charge("task")


def test_what_is_held_is_restored_to_the_letter() -> None:
    budget = BudgetMeter(max_calls=100, max_tokens=1000)
    budget.charge("task")
    budget.charge("task", is_repeat=True)
    budget.hold(10, tokens=70, cost_usd=0.5, seconds=2.0)
    held = json.loads(json.dumps(budget.held))
    assert held["calls"] > 10
    resumed = BudgetMeter(max_calls=100, max_tokens=1000)
    resumed.restore(budget.spent.to_dict())
    resumed.restore_hold(held)
    assert resumed.held == budget.held
    assert resumed.calls_left() == budget.calls_left()
    resumed.release_hold()
    assert not any(resumed.held.values())
