"""An address at which no endpoint answers: what is said of it, and which one was meant."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, fake_endpoint

from autoprompt.errors import EndpointError, RequestRefusedError, UsageError
from autoprompt.llm import Message, Options
from autoprompt.llm.endpoints import OPENAI_URL, missing_key
from autoprompt.llm.models import connect
from autoprompt.llm.transport import http
from autoprompt.llm.transport.address import checked_url, near_addresses
from autoprompt.llm.transport.http import meant_address
from autoprompt.settings.records import ModelSettings

ASK = [Message("user", "x")]


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_WAITS_S", ())


def fault(base_url: str, **settings: Any) -> str:
    """What a first request there ends with."""
    given = {"model": "m", "base_url": base_url, "constrain": "off", **settings}
    with (
        pytest.raises((EndpointError, UsageError)) as caught,
        closing(connect(ModelSettings.model_validate(given))) as client,
    ):
        client.complete(ASK, Options())
    return str(caught.value)


@contextmanager
def at_v1(elsewhere: Reply, *, has_list: bool = True) -> Iterator[FakeEndpoint]:
    """An endpoint at /v1 alone; `elsewhere` answers any other path."""
    with fake_endpoint() as endpoint:
        endpoint.elsewhere = elsewhere
        if not has_list:
            endpoint.models = Reply(404, {})
        yield endpoint


MISSING = Reply(404, {"error": {"message": "not found"}})
PAGE = Reply(body="<html>welcome</html>")


@pytest.mark.parametrize("elsewhere", [MISSING, PAGE, Reply(405, {})], ids=["404", "page", "405"])
@pytest.mark.parametrize("path", ["", "/v1/v1", "/v2", "/v1/engines", "/openai"])
def test_the_address_that_was_meant_is_named(path: str, elsewhere: Reply) -> None:
    with at_v1(elsewhere) as endpoint:
        meant = endpoint.base_url
        said = fault(meant.removesuffix("/v1") + path)
        assert f"An endpoint answers at another address: set base_url={meant!r}." in said
        assert len(endpoint.requests) <= 2  # no row waits through retries for it


def test_an_endpoint_without_a_list_is_found_by_a_request_that_says_nothing() -> None:
    with at_v1(MISSING, has_list=False) as endpoint:
        endpoint._otherwise = lambda body: answer("a") if body else Reply(400, {"error": "no messages"})
        assert meant_address(endpoint.base_url.removesuffix("/v1")) == endpoint.base_url


def test_without_a_model_the_address_is_looked_for_too() -> None:
    with at_v1(MISSING) as endpoint:
        meant = endpoint.base_url
        assert f"set base_url={meant!r}." in fault(meant.removesuffix("/v1"), model=None)


def test_a_model_that_is_not_there_is_no_wrong_address() -> None:
    with fake_endpoint(lambda _: Reply(404, {"error": {"message": "no such model"}})) as endpoint:
        said = fault(endpoint.base_url)
    assert "Check model and base_url. Most addresses end in /v1." in said
    assert "answers at" not in said


def test_an_endpoint_that_has_answered_is_at_the_right_address() -> None:
    with fake_endpoint() as endpoint:
        settings = ModelSettings(model="m", base_url=endpoint.base_url, constrain="off")
        with closing(connect(settings)) as client:
            client.complete(ASK, Options())
            listed = endpoint.listed
            endpoint.replies.append(Reply(404, {}))
            with pytest.raises(RequestRefusedError, match="404"):
                client.complete([Message("user", "y")], Options())
        assert endpoint.listed == listed


def test_https_where_http_is_spoken() -> None:
    with fake_endpoint() as endpoint:
        said = fault(endpoint.base_url.replace("http:", "https:"))
        assert "the server speaks http, not https" in said
        assert f"Set base_url={endpoint.base_url!r}." in said


def test_http_where_the_server_says_that_it_speaks_https() -> None:
    told = Reply(400, "<title>400 The plain HTTP request was sent to HTTPS port</title>")
    with fake_endpoint(lambda _: told) as endpoint:
        said = fault(endpoint.base_url)
    assert f"set base_url={endpoint.base_url.replace('http:', 'https:')!r}." in said


def test_http_where_https_is_spoken(tls_port: int) -> None:
    said = fault(f"http://127.0.0.1:{tls_port}/v1")
    assert f"set base_url='https://127.0.0.1:{tls_port}/v1'" in said


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A port that speaks TLS, with a certificate that nobody knows."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *made], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[socket.socket, Any]:
            plain, address = self.socket.accept()
            return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # no handshake came about

    server = Server(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://h/v1/chat/completions", "https://h/v1"),
        ("https://h/v1/responses/", "https://h/v1"),
        ("https://h/chat/completions", "https://h/v1"),
        ("https://h/v1/models", "https://h/v1"),
        ("localhost:8000/v1", "http://localhost:8000/v1"),
        ("api.example.com/v1", "https://api.example.com/v1"),
    ],
)
def test_an_address_that_was_pasted_is_said_as_it_should_be(given: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_url(given)
    assert str(caught.value).endswith(f". Use {expected}")


def test_near_addresses_never_leave_https() -> None:
    assert all(address.startswith("https://h") for address in near_addresses("https://h/v1"))
    assert near_addresses("http://h")[0] == "http://h/v1"
    assert near_addresses("http://h/v1/v1")[0] == "http://h/v1"


@pytest.mark.parametrize(
    ("base_url", "key", "says"),
    [
        (OPENAI_URL, "", "OPENAI_API_KEY is not set: https://api.openai.com/v1 refuses"),
        (
            "https://api.example.com/v1",
            "",
            "OPENAI_API_KEY is not set: https://api.example.com/v1 may refuse",
        ),
        ("https://api.example.com/v1", "k", ""),
        ("https://me:secret@api.example.com/v1", "", ""),
        ("https://api.example.com/v1?code=k", "", ""),
        ("http://localhost:8000/v1", "", ""),
        ("http://192.168.0.7/v1", "", ""),
        ("http://gpu.internal/v1", "", ""),
    ],
)
def test_a_key_that_will_be_missed_is_named(base_url: str, key: str, says: str) -> None:
    found = missing_key(base_url, key)
    assert [problem.said.startswith(says) for problem in found] == ([True] if says else [])
