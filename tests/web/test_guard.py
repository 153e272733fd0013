"""Every answer has the headers; what is not a look from this machine is refused."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from starlette.datastructures import Headers

from autoprompt.web.app import HEADERS, is_ours, refusal

Ask = Callable[..., httpx.Response]
OURS = {"host": "127.0.0.1:8642"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "localhost:8642", "LOCALHOST"])
def test_this_machine_by_any_port(host: str) -> None:
    assert is_ours([host])


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["evil.example:8642"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example:8642"],
        ["127.0.0.1@evil.example"],
        ["127.0.0.1:8642@evil.example"],
        ["127.0.0.1:8642", "evil.example"],
        ["127.0.0.1:8642:1"],
        ["127.0.0.1:"],
        ["0.0.0.0:8642"],
        ["127.0.0.1:٣"],
    ],
)
def test_any_other_host_is_foreign(hosts: list[str]) -> None:
    assert not is_ours(hosts)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_only_looking_is_allowed(method: str) -> None:
    answer = refusal(method, Headers(OURS))
    assert answer is not None
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("site", "mode", "destination", "is_refused"),
    [
        ("none", "navigate", "document", False),
        ("same-origin", "cors", "empty", False),
        ("cross-site", "navigate", "document", False),  # a link on a page elsewhere, or in a mail
        ("cross-site", "navigate", "iframe", True),
        ("cross-site", "no-cors", "image", True),
        ("cross-site", "cors", "empty", True),
        ("same-site", "cors", "empty", True),  # another port of this machine
    ],
)
def test_pages_of_other_sites_may_link_here_and_nothing_else(
    site: str, mode: str, destination: str, is_refused: bool
) -> None:
    headers = Headers({**OURS, "sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": destination})
    answer = refusal("GET", headers)
    assert (answer is not None and answer.status_code == 403) is is_refused


@pytest.mark.parametrize(
    ("path", "method", "host", "status"),
    [
        ("/", "GET", "127.0.0.1", 200),
        ("/", "HEAD", "127.0.0.1", 200),
        ("/nothing", "GET", "127.0.0.1", 404),
        ("/", "POST", "127.0.0.1", 405),
        ("/", "GET", "evil.example", 400),
        ("/events", "HEAD", "127.0.0.1", 200),
        ("/news", "GET", "127.0.0.1", 200),
        ("/favicon.ico", "GET", "127.0.0.1", 307),
    ],
)
def test_headers_are_on_every_answer(ask: Ask, path: str, method: str, host: str, status: int) -> None:
    answer = ask(path, method=method, headers={"host": host})
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


def test_no_script_or_style_of_the_page_itself_is_allowed() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_an_error_of_ours_has_the_headers_too(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.web.library.RunLibrary.runs", lambda self: 1 / 0)
    answer = ask("/")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert "ZeroDivision" not in answer.text
