"""The lean transport's clients: one for each request in flight, kept for the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoprompt.errors import EndpointError
from autoprompt.llm.transport.failures import BrokenAnswerError, TimedOutError
from autoprompt.llm.transport.http import MOST_BYTES, HttpTransport, LentClients
from autoprompt.records import Message
from tests.fake_endpoint import Reply, answer, fake_endpoint


def made(most: int) -> LentClients:
    return LentClients("key", timeout_s=5.0, most=most, trust_env=False)


def test_a_client_that_came_back_is_lent_again() -> None:
    clients = made(4)
    with clients.lent() as first, clients.lent() as second:
        assert first is not second
    with clients.lent() as again:
        assert again is first  # it came back last
    clients.close()
    assert first.is_closed
    assert second.is_closed


def test_no_more_than_so_many_stay_open() -> None:
    clients = made(1)
    with clients.lent() as first, clients.lent() as second:
        pass
    assert (second.is_closed, first.is_closed) == (False, True)


def test_one_that_is_lent_out_is_closed_when_it_comes_back() -> None:
    clients = made(4)
    with clients.lent() as client:
        clients.close()
        assert not client.is_closed
    assert client.is_closed
    with pytest.raises(RuntimeError, match="closed"), clients.lent():
        pass


def test_a_client_that_failed_is_lent_again() -> None:
    clients = made(4)
    with pytest.raises(ValueError, match="broken"), clients.lent() as failed:
        raise ValueError("broken")
    with clients.lent() as again:
        assert again is failed
    clients.close()


def test_a_closed_transport_says_so() -> None:
    transport = HttpTransport("http://127.0.0.1:9/v1", "m")
    transport.close()
    with pytest.raises(RuntimeError, match="closed"):
        transport.complete([Message("user", "hello")])


def test_a_redirect_that_loses_the_request_ends_the_run() -> None:
    """From http:// to https://, or to a login: its page was a broken answer, and then a wrong one."""
    with fake_endpoint() as endpoint:
        there = f"{endpoint.base_url}/login?key=secret"
        endpoint.replies.append(Reply(302, "", {"Location": there}))
        transport = HttpTransport(endpoint.base_url, "m")
        with pytest.raises(EndpointError, match=r"HTTP 302, a redirect to .*/v1/login, on which") as caught:
            transport.complete([Message("user", "hello")])
        transport.close()
    assert caught.value.is_fatal
    assert "secret" not in str(caught.value)


def test_a_redirect_that_keeps_the_request_is_followed() -> None:
    with fake_endpoint() as endpoint:
        endpoint.replies.append(Reply(308, "", {"Location": f"{endpoint.base_url}/chat/completions/"}))
        transport = HttpTransport(endpoint.base_url, "m")
        assert transport.complete([Message("user", "hello")]).text == "1"
        transport.close()


def test_blank_lines_that_keep_a_connection_alive_are_no_answer_in_time() -> None:
    with fake_endpoint() as endpoint:
        endpoint.replies.append(replace(answer("late"), blank_lines=50))
        transport = HttpTransport(endpoint.base_url, "m", timeout_s=0.2)
        with pytest.raises(TimedOutError, match=r"no answer in time \(not whole after 0.2 s\)"):
            transport.complete([Message("user", "hello")])
        assert transport.complete([Message("user", "hello")]).text == "1"  # on a connection of its own
        transport.close()


def test_blank_lines_before_an_answer_in_time_are_passed_over() -> None:
    with fake_endpoint() as endpoint:
        endpoint.replies.append(replace(answer("1"), blank_lines=3))
        transport = HttpTransport(endpoint.base_url, "m")
        assert transport.complete([Message("user", "hello")]).text == "1"
        transport.close()


def test_an_answer_without_an_end_is_not_kept_in_memory() -> None:
    with fake_endpoint() as endpoint:
        endpoint.replies.append(Reply(body="x" * (MOST_BYTES + 1)))
        transport = HttpTransport(endpoint.base_url, "m")
        with pytest.raises(BrokenAnswerError, match="longer than 32 MB"):
            transport.complete([Message("user", "hello")])
        transport.close()
