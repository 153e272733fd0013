"""What a call costs under some traffic."""

from __future__ import annotations

import math

import pytest

from autoprompt.llm.prices import (
    COLD,
    TOKENS,
    WARM,
    CallUsage,
    Cost,
    Price,
    Rates,
    Traffic,
    cost_per_call,
    fit_rates,
)
from autoprompt.records import Usage

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
    rates = Rates("seconds", input=6_000.0, output=30_000.0, cached=0.0, written=0.0)
    assert cost_per_call(LONG, rates).amount == pytest.approx(2600 * 0.006 + 10 * 0.03)
    assert cost_per_call(LONG, rates, WARM).amount == pytest.approx(100 * 0.006 + 10 * 0.03)


@pytest.mark.parametrize("cached", [0.0, 1000.0, 2500.0])
def test_what_was_paid_is_corrected_for_the_tokens_that_traffic_finds_in_the_cache(cached: float) -> None:
    """However many calls of the run met the cache, cold calls meet none and warm ones all of it."""
    paid = ((2600 - cached) * 0.25 + cached * 0.025 + 10 * 2.0) / 1e6
    usage = CallUsage(2600, 10, 2500, paid, cached)
    for traffic in (COLD, WARM, Traffic(12)):
        by_rates = cost_per_call(LONG, PRICE.rates, traffic).amount
        assert cost_per_call(usage, PRICE.rates, traffic).amount == pytest.approx(by_rates)


def test_a_call_that_misses_the_cache_writes_its_prefix_there_if_calls_did() -> None:
    price = Price(1.0, 5.0, cached_usd=0.1, cache_write_usd=1.25)
    # One call of ten wrote its 2,000 constant tokens, and nine read them.
    paid = price.cost(Usage(21_000, 50, cached_tokens=18_000, cache_write_tokens=2000)) / 10
    usage = CallUsage(2100, 5, 2000, paid, cached=1800, written=200)
    cold, warm, hourly = (cost_per_call(usage, price.rates, one).amount for one in (COLD, WARM, Traffic(12)))
    assert cold * 1e6 == pytest.approx(2000 * 1.25 + 100 + 25)
    assert warm * 1e6 == pytest.approx(2000 * 0.1 + 100 + 25)
    assert hourly == pytest.approx(cold + (1 - math.exp(-1)) * (warm - cold))


BLENDED = Rates("usd", 2.0, 2.0, 2.0, 2.0)


def paid(price: Price, *usages: Usage) -> list[tuple[int, Usage]]:
    """Four calls of each, with what they cost."""
    return [(4, Usage(u.prompt_tokens, u.completion_tokens, price.cost(u), u.cached_tokens)) for u in usages]


def test_rates_are_found_that_make_calls_as_dear_as_they_were() -> None:
    price = Price(0.25, 2.0, cached_usd=0.025)
    calls = [Usage(200, 1200), Usage(4000, 8), Usage(8000, 8, cached_tokens=5120), Usage(900, 40)]
    found = fit_rates(paid(price, *calls), BLENDED)
    assert (found.input, found.output, found.cached) == pytest.approx((0.25, 2.0, 0.025), rel=1e-3)
    assert found.written == pytest.approx(0.25, rel=1e-3)  # as in what is known before: the price of input


def test_tokens_that_no_call_had_keep_their_ratio_to_the_price_of_input() -> None:
    before = Rates("usd", 10.0, 40.0, 1.0, 12.5)
    found = fit_rates(paid(Price(1.0, 4.0), Usage(200, 1200), Usage(4000, 8)), before)
    assert (found.input, found.output) == pytest.approx((1.0, 4.0), rel=1e-3)
    assert (found.cached, found.written) == pytest.approx((0.1, 1.25), rel=1e-3)


def test_what_calls_leave_open_stays_as_it_was_before() -> None:
    """Calls of one length say what they cost, and not which of their tokens are the dear ones."""
    found = fit_rates(paid(Price(1.0, 5.0), Usage(300, 100), Usage(300, 100)), BLENDED)
    assert (found.input, found.output) == pytest.approx((2.0, 2.0))


def test_no_rate_is_below_zero_and_no_cached_token_dearer_than_another() -> None:
    odd = [(1, Usage(1000, 5, 0.001)), (1, Usage(2000, 5, 0.0009)), (1, Usage(2000, 5, 0.002, 1500))]
    found = fit_rates(odd, BLENDED)
    assert 0 <= found.cached <= found.input
    assert min(found.output, found.written) >= 0
