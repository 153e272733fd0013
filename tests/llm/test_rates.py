"""What an endpoint says that is left of its rates steers how much is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autoprompt.llm.limits.admission import Gate
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.ledger import Account, FileLedger
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.llm.transport.rates import RatesLeft, rates_left
from autoprompt.records import Message
from tests.fake_endpoint import Reply, answer, fake_endpoint
from tests.llm.test_admission import Clock, answered, entered, gate


@pytest.mark.parametrize(
    ("headers", "left"),
    [
        ({}, None),
        ({"x-ratelimit-remaining-requests": "59"}, RatesLeft(59)),
        ({"x-ratelimit-remaining-requests": "-1"}, None),
        (
            {"x-ratelimit-remaining-requests": "5", "x-ratelimit-remaining-tokens": "0"},
            RatesLeft(5),
        ),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0.5s"},
            RatesLeft(None, 360.5),
        ),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"},
            RatesLeft(None, 0.02),
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, RatesLeft(None)),
        ({"anthropic-ratelimit-requests-remaining": "3"}, RatesLeft(3)),
    ],
)
def test_headers_are_read(headers: dict[str, str], left: RatesLeft | None) -> None:
    assert rates_left(headers) == left


def test_a_time_at_which_a_rate_begins_anew_is_seconds_from_now() -> None:
    until = (datetime.now(UTC) + timedelta(seconds=30)).isoformat(timespec="seconds").replace("+00:00", "Z")
    left = rates_left(
        {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": until}
    )
    assert left is not None
    assert 25 < left.pause_s <= 30


def test_no_more_go_out_at_once_than_are_left_and_answers_bring_more() -> None:
    limited, clock = gate(16)
    limited.note_left(RatesLeft(3))
    assert limited.limit == 3
    answered(limited, clock)
    assert limited.limit == 6
    answered(limited, clock, rounds=2)
    assert limited.limit == 16
    limited.note_left(RatesLeft(0))
    assert limited.limit == 1


def test_nothing_goes_out_before_a_rate_begins_anew() -> None:
    limited, clock = gate(16)
    begun = clock.now
    limited.note_left(RatesLeft(None, 7.0))
    with entered(limited, 1):
        assert clock.now - begun == pytest.approx(7.0)
    limited.note_left(RatesLeft(None, 7200.0))
    begun = clock.now
    with entered(limited, 1):
        assert clock.now - begun == pytest.approx(60.0)


def test_a_trial_waits_for_a_rate_that_begins_anew_beside_that_of_its_batch(tmp_path: Path) -> None:
    clock = Clock()
    ledger = FileLedger(tmp_path / "ledger.sqlite")
    ticket = ledger.admit("t")
    assert ticket is not None
    account = Account(ledger, ticket)
    limited = Gate(16, rpm=100, clock=lambda: clock.now, wait=clock.wait, account=account, endpoint="e")
    begun = clock.now
    limited.note_left(RatesLeft(None, 7.0))
    with entered(limited, 1):
        assert clock.now - begun == pytest.approx(7.0)


def test_a_transport_says_once_what_its_latest_answer_said() -> None:
    limits = {"x-ratelimit-remaining-requests": "7"}
    with fake_endpoint() as endpoint:
        endpoint.replies.append(Reply(body=answer("1").body, headers=limits))
        transport = HttpTransport(endpoint.base_url, "m")
        for left in (RatesLeft(7), None):  # the second answer says nothing
            transport.complete([Message("user", "x")])
            assert transport.take_rates_left() == left
            assert transport.take_rates_left() is None
        transport.close()


def test_an_endpoint_that_has_little_left_gets_few_requests_at_once() -> None:
    limits = {"x-ratelimit-remaining-requests": "2"}
    with fake_endpoint() as endpoint:
        endpoint.replies.append(Reply(body=answer("1").body, headers=limits))
        transport = HttpTransport(endpoint.base_url, "m")
        limited = Gate(16)
        LimitedClient(transport, budget=BudgetMeter(), gate=limited).complete([Message("user", "x")])
        transport.close()
    assert limited.limit == 2
