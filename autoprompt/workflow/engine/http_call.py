"""Requests over HTTP that a workflow's file describes: for http-request nodes and HTTP tools."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from autoprompt.llm.transport.proxies import environment_faults

_TIMEOUT_S = 60.0
_MAX_BYTES = 20_000_000
_SECRET = re.compile(r"\$\{([A-Za-z_]\w*)\}")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


class HttpError(RuntimeError):
    """A request that was not answered, or with something too large, or with a `status` that is a failure."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class HttpRequest:
    """content: the body as it is sent; form: fields of a form instead. read_s: between two pieces."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    content: str | None = None
    form: Mapping[str, str] | None = None
    is_multipart: bool = False
    connect_s: float = 10.0
    read_s: float = _TIMEOUT_S
    verifies: bool = True


@dataclass(frozen=True)
class HttpResponse:
    status: int
    body: str
    headers: Mapping[str, str]


def send(request: HttpRequest) -> HttpResponse:
    """The answer, whatever its status. Raises ValueError for what is no request, HttpError; ConfigError."""
    import httpx

    method = known_method(request.method).upper()
    place = urlsplit(request.url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError(f"{request.url!r} is no address, expected http://... or https://...")
    _check_headers(request.headers)
    files = (
        {name: (None, value) for name, value in (request.form or {}).items()}
        if request.is_multipart
        else None
    )
    timeout = httpx.Timeout(request.read_s, connect=request.connect_s)
    with environment_faults():
        client = httpx.Client(timeout=timeout, verify=request.verifies, follow_redirects=True)
    try:
        with (
            client,
            client.stream(
                method,
                request.url,
                headers=dict(request.headers),
                params=dict(request.params) or None,
                content=request.content.encode() if request.content is not None else None,
                data=dict(request.form) if request.form is not None and files is None else None,
                files=files,
            ) as response,
        ):
            return _read(response)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        host = place.netloc.rpartition("@")[2]  # before it, a password may stand
        raise HttpError(f"{method} {place.scheme}://{host}: {str(error) or type(error).__name__}") from error


def known_method(name: str) -> str:
    """The method as it is written. Raises ValueError for one that is not known."""
    if name.upper() not in METHODS:
        raise ValueError(f"HTTP method {name!r} is not known. Known: {', '.join(METHODS)}.")
    return name


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raises ValueError for a header that cannot be sent. Its value may be a key, so it is not shown:
    httpx would show it, and what a node failed with is kept with the run.
    """
    for name, value in headers.items():
        text = name + value
        if not text.isascii() or not text.isprintable() or name != name.strip() or value != value.strip():
            raise ValueError(
                f"header {name!r} cannot be sent: expected one line of ASCII, without space at its ends"
            )


def _read(response: Any) -> HttpResponse:
    body = b""
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _MAX_BYTES:
            raise HttpError(f"the answer has more than {_MAX_BYTES} bytes")
    text = body.decode(response.encoding or "utf-8", errors="replace")
    return HttpResponse(response.status_code, text, dict(response.headers))


def lines_to_mapping(text: str) -> dict[str, str]:
    """`name: value` lines, as editors write headers and parameters."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip():
            found[name.strip()] = value.strip()
    return found


def with_secrets(text: str) -> str:
    """`${NAME}` replaced by the environment's value, so that keys stand in no file. ValueError if unset."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _SECRET.sub(value_of, text)


def unset_names(text: str) -> list[str]:
    """Names of `${NAME}` in a text that the environment does not hold."""
    return [name for name in _SECRET.findall(text) if name not in os.environ]


def request_of_tool(
    method: str, url: str, headers: Mapping[str, str], arguments: Mapping[str, Any], timeout_s: float
) -> HttpRequest:
    """A tool's call: an argument with a `{name}` in the address goes there, others into query or body."""
    used = [name for name in arguments if "{" + name + "}" in url]
    for name in used:
        url = url.replace("{" + name + "}", quote(_plain(arguments[name]), safe=""))
    rest = {name: value for name, value in arguments.items() if name not in used and value is not None}
    # A key that was read from a file ends with a line break more often than not.
    filled = {name: with_secrets(value).strip() for name, value in headers.items()}
    if method.upper() in ("GET", "DELETE", "HEAD", "OPTIONS"):
        params = {name: _plain(value) for name, value in rest.items()}
        return HttpRequest(method, with_secrets(url), filled, params, read_s=timeout_s)
    filled = {"Content-Type": "application/json", **filled}
    return HttpRequest(
        method, with_secrets(url), filled, content=json.dumps(rest, ensure_ascii=False), read_s=timeout_s
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
