"""What a call costs under some traffic."""

from __future__ import annotations

import math

import pytest

from autoprompt.llm.prices import COLD, TOKENS, WARM, CallUsage, Cost, Price, Rates, Traffic, cost_per_call

LONG = CallUsage(prompt=2600, completion=10, prefix=2500)
PRICE = Price(0.25, 2.0, cached_usd=0.025)


@pytest.mark.parametrize(
    ("traffic", "share"),
    [("cold", 0.0), ("warm", 1.0), ("0", 0.0), ("12", 1 - math.exp(-1)), ("60", 1 - math.exp(-5))],
)
def test_a_call_meets_the_cache_by_how_often_calls_come(traffic: str, share: float) -> None:
    found = Traffic.read(traffic)
    assert found.hit_share == pytest.approx(share)
    cold, warm = (cost_per_call(LONG, PRICE.rates, one).amount for one in (COLD, WARM))
    assert cold == pytest.approx((2600 * 0.25 + 10 * 2.0) / 1e6)
    assert warm == pytest.approx((100 * 0.25 + 2500 * 0.025 + 10 * 2.0) / 1e6)
    assert cost_per_call(LONG, PRICE.rates, found).amount == pytest.approx(cold + share * (warm - cold))


@pytest.mark.parametrize("text", ["often", "-1", "nan"])
def test_other_words_are_no_traffic(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Traffic.read(text)


def test_without_a_discount_and_in_tokens_traffic_changes_nothing() -> None:
    for rates in (Price(0.25, 2.0).rates, TOKENS):
        assert cost_per_call(LONG, rates, WARM) == cost_per_call(LONG, rates, COLD)
    assert cost_per_call(LONG, TOKENS) == Cost(2610.0, "tokens")


@pytest.mark.parametrize(
    ("cost", "calls", "shown"),
    [
        (Cost(0.00065, "usd"), 1000, "$0.65"),
        (Cost(0.0000052, "usd"), 1000, "$0.0052"),
        (Cost(1.234567, "usd"), 1000, "$1,234.57"),
        (Cost(0.0123, "seconds"), 1000, "12.30 s"),
        (Cost(2610.4, "tokens"), 1000, "2,610,400 tokens"),
    ],
)
def test_a_cost_is_told_in_its_unit(cost: Cost, calls: int, shown: str) -> None:
    assert cost.shown(calls) == shown


def test_seconds_are_those_of_reading_and_writing() -> None:
    rates = Rates("seconds", input=6_000.0, output=30_000.0, cached=0.0)
    assert cost_per_call(LONG, rates).amount == pytest.approx(2600 * 0.006 + 10 * 0.03)
    assert cost_per_call(LONG, rates, WARM).amount == pytest.approx(100 * 0.006 + 10 * 0.03)
