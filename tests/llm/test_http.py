"""The lean transport: deadlines, limits, redirects, connections."""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import os
import socket
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from autoprompt.errors import EndpointError
from autoprompt.llm import portal
from autoprompt.llm.transport.failures import BrokenAnswerError, TimedOutError
from autoprompt.llm.transport.http import MOST_BYTES, HttpTransport
from autoprompt.records import Message
from tests.fake_endpoint import Reply, answer, fake_endpoint


def test_a_closed_transport_says_so() -> None:
    transport = HttpTransport("http://127.0.0.1:9/v1", "m")
    transport.close()
    with pytest.raises(RuntimeError, match="closed"):
        transport.complete([Message("user", "hello")])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_ends_the_run(status: int) -> None:
    """From http:// to https://, or to a login: its page was a broken answer, and then a wrong one."""
    with fake_endpoint() as endpoint, fake_endpoint() as elsewhere:
        there = f"{elsewhere.base_url}/chat/completions?key=secret"
        endpoint.replies.append(Reply(status, "", {"Location": there}))
        transport = HttpTransport(endpoint.base_url, "m")
        said = rf"HTTP {status}, a redirect to {elsewhere.base_url}/chat/completions, which is not followed"
        with pytest.raises(EndpointError, match=said) as caught:
            transport.complete([Message("user", "hello")])
        transport.close()
    assert caught.value.is_fatal
    assert caught.value.problems[0].settings == {"base_url": elsewhere.base_url}
    assert elsewhere.requests == []
    assert "secret" not in str(caught.value)


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


def test_headers_without_an_end_are_no_answer_in_time() -> None:
    """One header line every 50 ms: a timeout that begins anew with each byte never ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not done.wait(0.05):
                    connection.sendall(b"X-More: 1\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        transport = HttpTransport(f"http://127.0.0.1:{server.getsockname()[1]}/v1", "m", timeout_s=0.3)
        with pytest.raises(TimedOutError, match=r"not whole after 0.3 s"):
            transport.complete([Message("user", "hello")])
        done.set()
        thread.join()
        transport.close()


def test_an_answer_may_be_compressed() -> None:
    body = gzip.compress(b'{"choices": [{"message": {"content": "packed"}}]}')
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

        thread = threading.Thread(target=serve)
        thread.start()
        transport = HttpTransport(f"http://127.0.0.1:{server.getsockname()[1]}/v1", "m")
        assert transport.complete([Message("user", "hello")]).text == "packed"
        thread.join()
        transport.close()


def test_requests_of_one_after_the_other_share_a_connection() -> None:
    with fake_endpoint() as endpoint:
        transport = HttpTransport(endpoint.base_url, "m")
        for _ in range(5):
            transport.complete([Message("user", "hello")])
        transport.close()
    assert endpoint.connections == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked there")
def test_a_forked_process_asks_for_itself_and_leaves_its_parents_connections_alone() -> None:
    with fake_endpoint() as endpoint:
        transport = HttpTransport(endpoint.base_url, "m", timeout_s=5)
        transport.complete([Message("user", "1")])

        def ask() -> None:
            writer.send(transport.complete([Message("user", "2")]).text)
            transport.close()
            portal.run(asyncio.sleep(0))  # what closes it has run

        context = multiprocessing.get_context("fork")
        reader, writer = context.Pipe(duplex=False)
        child = context.Process(target=ask)
        child.start()
        assert reader.poll(10)
        assert reader.recv() == "1"
        child.join(5)
        assert transport.complete([Message("user", "3")]).text == "1"
        assert [request["messages"][0]["content"] for request in endpoint.requests] == ["1", "2", "3"]
        assert endpoint.connections == 2
        transport.close()


def test_a_long_request_is_sent_whole() -> None:
    text = "word " * 500_000
    with fake_endpoint() as endpoint:
        transport = HttpTransport(endpoint.base_url, "m")
        transport.complete([Message("user", text)])
        transport.close()
    assert endpoint.requests[0]["messages"][0]["content"] == text
