"""Proxies and certificates of the environment: what is said where they stop a request."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.errors import ConfigError, EndpointError
from autoprompt.llm.models import connect
from autoprompt.llm.transport.address import environment_faults
from autoprompt.llm.transport.failures import UnreachableError
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.llm.transport.langchain import LangChainTransport
from autoprompt.llm.weights import SourceError, from_hub
from autoprompt.records import Message
from autoprompt.settings.records import ModelSettings
from autoprompt.text.machine import machine_problem
from autoprompt.workflow.engine.http_call import HttpError, HttpRequest, send
from tests.fake_endpoint import LOCAL

NOWHERE = "http://127.0.0.1:9/v1"
NUMBERS = itertools.count()
ASK = [Message("user", "x")]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().endswith("_PROXY") or name.startswith("SSL_CERT"):
            monkeypatch.delenv(name)


def nowhere() -> str:
    """An address of its own each time: langchain keeps a client for each, with the proxies of that time."""
    return f"http://127.0.0.1:9/{next(NUMBERS)}/v1"


def asked(transport: str) -> Callable[[], Any]:
    return lambda: connect(
        ModelSettings(model="m", base_url=nowhere(), constrain="off", transport=transport)  # type: ignore[arg-type]
    ).complete(ASK)


def asked_by_a_node() -> None:
    with suppress(HttpError):  # nothing answers there
        send(HttpRequest("GET", NOWHERE), LOCAL)
    send(HttpRequest("GET", NOWHERE.replace("http:", "https:")), LOCAL)


CALLERS = {
    "listing": lambda: connect(ModelSettings(model="m", base_url=NOWHERE)),
    "http": asked("http"),
    "langchain": asked("langchain"),
    "workflow": asked_by_a_node,
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"ALL_PROXY": "socks5://me:secret@127.0.0.1:9"},
            r"^ALL_PROXY: a SOCKS proxy .*'?httpx\[socks\]'?; or unset",
        ),
        (
            {"http_proxy": "socks4://me:secret@127.0.0.1:9"},
            "^http_proxy: a proxy at socks4:// found, expected http://",
        ),
        (
            {"NO_PROXY": "h", "HTTPS_PROXY": "http://me:secret/@h:9"},
            "^HTTPS_PROXY, NO_PROXY: no address found",
        ),
        (
            {"SSL_CERT_FILE": "/not/there"},
            "^SSL_CERT_FILE: /not/there: No such file or directory, expected certif",
        ),
        ({"SSL_CERT_FILE": __file__}, "^SSL_CERT_FILE: .*test_proxies.py: .*expected certificates"),
    ],
)
def test_a_variable_that_does_not_do_is_named(
    caller: str, variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said) as caught:
        CALLERS[caller]()
    assert "secret" not in str(caught.value)
    (problem,) = caught.value.problems
    assert problem.code in ("endpoint.no-socks", "endpoint.bad-proxy", "endpoint.bad-certificates")


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_machine_without_room_is_no_fault_of_the_variable(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", __file__)
    with pytest.raises(OSError, match=os.strerror(number)) as caught, environment_faults():
        raise OSError(number, os.strerror(number))
    assert machine_problem(caught.value) is not None


def test_weights_may_come_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    (tmp_path / "part").touch()
    with pytest.raises(SourceError, match="ALL_PROXY"):
        list(from_hub(NOWHERE, tmp_path / "part", "", 0))


def test_doctor_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", NOWHERE])
    assert "no    endpoint          ALL_PROXY: a SOCKS proxy" in result.stdout
    assert result.exit_code == 4


@pytest.fixture
def refusing() -> Iterator[str]:
    """A proxy on the loopback that makes no connection for anybody."""

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_error(403, "not to there")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://me:secret@127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind", [HttpTransport, LangChainTransport])
@pytest.mark.parametrize(
    ("variables", "note"),
    [
        ({}, ""),
        (
            {"HTTP_PROXY": "http://me:secret@127.0.0.1:9"},
            " (through the proxy of HTTP_PROXY; NO_PROXY=127.0.0.1 goes round it)",
        ),
        (
            {"all_proxy": "127.0.0.1:9", "NO_PROXY": "a.example"},
            " (through the proxy of all_proxy; NO_PROXY=a.example,127.0.0.1 goes round it)",
        ),
        ({"HTTPS_PROXY": "http://127.0.0.1:9"}, ""),
        ({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}, ""),
    ],
)
def test_a_proxy_in_between_is_told_of(
    kind: type[HttpTransport | LangChainTransport],
    variables: dict[str, str],
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    transport = kind(nowhere(), "m")
    with pytest.raises(UnreachableError) as caught:
        transport.complete(ASK)
    said = str(caught.value)
    assert said.endswith(note)
    assert ("proxy" in said) == bool(note)
    assert "secret" not in said


@pytest.mark.parametrize("kind", [HttpTransport, LangChainTransport])
def test_a_proxy_that_makes_no_connection_is_told_of(
    kind: type[HttpTransport | LangChainTransport], refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", refusing)
    with pytest.raises(UnreachableError, match=r"through the proxy of HTTPS_PROXY; NO_PROXY=127.0.0.1 goes"):
        kind(nowhere().replace("http:", "https:"), "m").complete(ASK)


class SocksError(Exception):
    """Of the package for SOCKS proxies, which is none of aiohttp's."""


class SocksConnector(aiohttp.TCPConnector):
    """Of a proxy that makes no connection for anybody."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> SocksConnector:
        assert url == "socks5://me:secret@127.0.0.1:9"  # it knows no socks5h
        return cls(**options)

    async def connect(self, *_: Any, **__: Any) -> Any:
        raise SocksError("no acceptable authentication methods were offered")


def test_a_socks_proxy_that_makes_no_connection_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("aiohttp_socks")
    package.__spec__ = ModuleSpec("aiohttp_socks", None)
    errors = dict.fromkeys(("ProxyError", "ProxyConnectionError", "ProxyTimeoutError"), SocksError)
    vars(package).update(errors, ProxyConnector=SocksConnector)
    monkeypatch.setitem(sys.modules, "aiohttp_socks", package)
    monkeypatch.setenv("HTTP_PROXY", "socks5h://me:secret@127.0.0.1:9")
    with pytest.raises(UnreachableError, match=r"methods were offered \(through the proxy of HTTP_PROXY; NO"):
        HttpTransport(nowhere(), "m").complete(ASK)


def test_the_embedded_model_is_never_behind_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError) as caught:
        HttpTransport(NOWHERE, "m", trust_env=False).complete(ASK)
    assert "proxy" not in str(caught.value)


def test_a_run_and_doctor_tell_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autoprompt.llm.transport.http._WAITS_S", ())
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(EndpointError, match=r"NO_PROXY=127.0.0.1 goes round it\)\. Is the server running"):
        CALLERS["listing"]()
    result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", NOWHERE])
    assert "(through the proxy of HTTP_PROXY; NO_PROXY=127.0.0.1 goes round it)" in result.stdout
