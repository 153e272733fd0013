"""Proxies and certificates of the environment: what is said where they stop a request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.config import ModelSettings
from autoprompt.errors import ConfigError
from autoprompt.llm import connect
from autoprompt.llm.downloads import SourceError, from_hub
from autoprompt.types import Message
from autoprompt.workflow.http_call import HttpRequest, send

NOWHERE = "http://127.0.0.1:9/v1"
ASK = [Message("user", "x")]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().endswith("_PROXY") or name.startswith("SSL_CERT"):
            monkeypatch.delenv(name)


def asked(transport: str) -> Callable[[], Any]:
    return lambda: connect(
        ModelSettings(model="m", base_url=NOWHERE, constrain="off", transport=transport)  # type: ignore[arg-type]
    ).complete(ASK)


CALLERS = {
    "listing": lambda: connect(ModelSettings(model="m", base_url=NOWHERE)),
    "http": asked("http"),
    "langchain": asked("langchain"),
    "workflow": lambda: send(HttpRequest("GET", NOWHERE)),
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
            "^SSL_CERT_FILE=/not/there: No such file or directory, expected certif",
        ),
        ({"SSL_CERT_FILE": __file__}, "^SSL_CERT_FILE=.*test_proxies.py: .*expected certificates"),
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


def test_weights_may_come_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    (tmp_path / "part").touch()
    with pytest.raises(SourceError, match="ALL_PROXY"):
        list(from_hub(NOWHERE, tmp_path / "part", ""))


def test_doctor_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", NOWHERE])
    assert "no    endpoint          ALL_PROXY: a SOCKS proxy" in result.stdout
    assert result.exit_code == 4
