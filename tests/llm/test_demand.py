"""How long an answer may get, and whether a request waits, by what is left of the caps."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.admission import Gate
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.demand import Asked, Costs, Demand, Left, Measured
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.prices import REPORTED, Price
from autoprompt.records import Message, Usage

# 60 tokens of prompt, up to 66; an answer of up to 4,096 where 256 were enough so far; $1 a token.
ROW = Demand(
    likely=Amount(1, 65, 65.0),
    prompt=Amount(0, 66, 66.0),
    seen=Amount(0, 60, 60.0),
    token_usd=1.0,
    seen_token_usd=1.0,
    limit=4096,
    enough=256,
    least=5,
    at_once=16,
)


def left(tokens: float, on_wire: float = 0, *, may_grow: bool = False) -> Left:
    return Left("max_tokens", 100_000, 100_000 - tokens, on_wire=on_wire, may_grow=may_grow)


@pytest.mark.parametrize(
    ("cap", "limit"),
    [
        (None, 4096),
        (left(100_000), 4096),
        (left(66_592), 4096),  # 16 at once
        (left(50_000), 3059),  # a sixteenth each
        (left(50_000, 47_000), 256),  # less is free: what was enough so far
        (left(5_000), 256),
        (left(5_000, 4_678), 256),
        (left(5_000, 4_679), None),  # until others have ended
        (left(321), 261),  # alone, nothing is to spare
        (left(65), 5),
        (left(64, may_grow=True), None),
    ],
)
def test_the_limit_is_lowered_where_less_is_left_than_one_for_each(
    cap: Left | None, limit: int | None
) -> None:
    assert ROW.within(cap, None) == limit
    in_usd = None if cap is None else replace(cap, cap="max_cost")
    assert ROW.within(None, in_usd) == limit


def test_what_does_not_fit_alone_is_refused_with_its_figures() -> None:
    with pytest.raises(
        BudgetExhausted, match="max_tokens=100000 reached: 99,936 tokens used, 65 more needed"
    ):
        ROW.within(left(64), None)
    with pytest.raises(BudgetExhausted, match=r"max_cost=0.05 exceeded by \$0.19 \(380.0%\): \$0.24 used"):
        ROW.within(None, Left("max_cost", 0.05, 0.24))


def test_both_caps_are_kept() -> None:
    cents = replace(ROW, prompt=Amount(0, 66, 0.66), seen=Amount(0, 60, 0.6), token_usd=0.01)
    assert cents.within(left(50_000), Left("max_cost", 1000, 0)) == 3059
    assert cents.within(left(50_000), Left("max_cost", 100, 0)) == 559


@given(st.lists(st.integers(0, 300), min_size=1, max_size=200), st.integers(1, 64), st.integers(100, 50_000))
def test_a_cap_is_never_passed_by_answers_that_keep_to_their_limits(
    wanted: list[int], at_once: int, cap: int
) -> None:
    demand = replace(ROW, at_once=at_once)
    used, on_wire, sent = 0, [], 0
    for tokens in wanted:
        while True:
            now = Left("max_tokens", cap, used, on_wire=sum(66 + limit for limit, _ in on_wire))
            try:
                limit = demand.within(now, None)
            except BudgetExhausted:
                assert not on_wire
                assert cap - used < 60 + 5
                return
            if limit is not None:
                on_wire.append((limit, tokens))
                sent += 1
                break
            limit, answer = on_wire.pop(0)
            used += 60 + min(limit, answer)
        assert used + sum(60 + min(limit, answer) for limit, answer in on_wire) <= cap


def asked(characters: int = 200, limit: int | None = 4096) -> Asked:
    return Asked.of([Message("user", "x" * characters)], Options(max_output_tokens=limit, labels=("a", "b")))


def test_before_the_first_answer_little_is_known_and_few_are_sent() -> None:
    demand = Costs(Price(2, 10)).demand(asked(), 16)
    assert demand.within(Left("max_tokens", 50_000, 0), None) == 4096
    assert demand.within(Left("max_tokens", 50_000, 0, on_wire=40_000), None) is None
    assert demand.within(Left("max_tokens", 100, 0), None) == 46  # alone: the rest of a small cap


def test_what_an_endpoint_counts_is_expected_of_the_next_request() -> None:
    costs = Costs(Price(2, 10))
    for _ in range(8):
        costs.note(asked(), costs.of(Usage(2054, 3)), 4096)
    demand = costs.demand(asked(), 16)
    assert (demand.likely.tokens, demand.seen.tokens) == (2057, 2054)
    assert demand.prompt.tokens == 2260 + 2048  # a tenth more, and room for a jump
    assert (demand.limit, demand.enough) == (4096, 256)
    longer = costs.demand(asked(4000), 16)  # 1,004 tokens by its length; nothing like it was seen
    assert longer.seen.tokens == 3004  # as if 2,000 came before each prompt
    assert longer.prompt.tokens > 20_000  # as if each token counted 38 times


def test_an_endpoint_that_goes_beyond_the_limit_is_believed() -> None:
    costs = Costs(Price(2, 10))
    costs.note(asked(limit=32), costs.of(Usage(54, 632)), 32)
    assert costs.demand(asked(limit=32), 16).most(32).tokens >= 54 + 632


def test_a_bill_above_the_price_is_expected_of_the_next_request() -> None:
    costs = Costs(Price(2, 10))
    costs.note(asked(), costs.of(Usage(54, 3, billed_usd=4.8 * (54 * 2 + 30) / 1e6)), 4096)
    demand = costs.demand(asked(), 16)
    assert demand.seen.cost_usd == pytest.approx(4.8 * 54 * 2 / 1e6)
    assert demand.token_usd == pytest.approx(4.8 * 10 / 1e6)


def test_a_price_that_only_answers_tell_lets_the_first_request_go_alone() -> None:
    costs, cap = Costs(REPORTED), Left("max_cost", 1.0, 0)
    first = costs.demand(asked(), 16)
    assert first.within(None, cap) == 4096
    assert first.within(None, replace(cap, on_wire=1e-3)) is None
    costs.note(asked(), Usage(54, 3, 0.0057), 4096)
    assert costs.demand(asked(limit=256), 16).within(None, replace(cap, on_wire=0.1)) == 256


def test_rates_go_by_the_length_of_answers_and_not_by_their_limit() -> None:
    costs = Costs(None)
    assert costs.tokens(asked()) == 54 + 256
    costs.note(asked(), Usage(60, 4), 4096)
    assert costs.tokens(asked()) == 64


def test_what_is_on_its_way_when_counts_jump_passes_the_cap_by_little() -> None:
    """From row 50 on the endpoint counts 2,000 tokens more, and 64 requests may be out at once."""
    number, lock = [0], threading.Lock()

    def answer(messages: list[Message], options: Options) -> Completion:
        with lock:
            number[0] += 1
            prompt = 30 if number[0] <= 50 else 2000
        time.sleep(0.002)
        return Completion("odd", Usage(prompt, 3))

    budget = BudgetMeter(max_tokens=20_000)
    client = LimitedClient(ScriptedClient(answer), budget=budget, gate=Gate(64))

    def ask(row: int) -> None:
        with suppress(BudgetExhausted):
            client.complete([Message("user", f"Is {row} odd?")], Options(max_output_tokens=32))

    with ThreadPoolExecutor(64) as threads:
        list(threads.map(ask, range(400)))
    assert number[0] > 50
    assert budget.spent.tokens < 24_000


@pytest.mark.parametrize(("times", "hidden"), [(1.0, 2000), (4.8, 0), (0.4, 0), (1.0, 0)])
@given(seen=st.lists(st.integers(128, 255), min_size=1, max_size=12), estimate=st.integers(128, 255))
def test_no_prompt_is_longer_than_those_so_far_say(
    times: float, hidden: int, seen: list[int], estimate: int
) -> None:
    """Whether an endpoint puts a prompt of its own in front or counts more for each token."""
    measured = Measured()
    for size in seen:
        measured.note("row", size, round(times * size) + hidden, 3, 8)
    most, _ = measured.most_of_prompt(estimate)
    assert most >= round(times * estimate) + hidden - 1
    if min(seen) <= estimate <= max(seen):
        assert most <= times * estimate + hidden + 2 * max(seen) * abs(times - 1) / 100 + 2
