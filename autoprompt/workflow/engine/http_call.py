"""Requests over HTTP that a workflow's file describes: for http-request nodes and HTTP tools."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from autoprompt.workflow.engine.errors import HttpError

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 60.0
_CONNECT_S = 10.0
_MAX_BYTES = 20_000_000
_MAX_REDIRECTS = 20
_CODINGS = ("", "identity", "gzip", "deflate")
_SECRET = re.compile(r"\$\{([A-Za-z_]\w*)\}")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class HttpRequest:
    """One request, sent by `send`.

    content: the body as it is sent; form: fields of a form instead. connect_s: of each connection. timeout_s:
    of the whole answer with its redirects.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    content: str | None = None
    form: Mapping[str, str] | None = None
    is_multipart: bool = False
    connect_s: float = _CONNECT_S
    timeout_s: float = TIMEOUT_S
    verifies: bool = True


@dataclass(frozen=True)
class HttpResponse:
    """An answer. moved_to: the origin that a redirect led to without the request's headers; "" for none."""

    status: int
    body: str
    headers: Mapping[str, str]
    moved_to: str = ""

    @property
    def note(self) -> str:
        """What to add to a status that the missing headers may explain."""
        return f" by {self.moved_to}, to which a redirect led, without the headers" if self.moved_to else ""


def send(request: HttpRequest, allow_private_hosts: Sequence[str] = ()) -> HttpResponse:
    """Send the request and return the answer, whatever its status.

    Redirects are followed. A redirect to another origin is followed without the request's headers and body.

    Args:
        allow_private_hosts: `HOST` or `HOST:PORT`; every other host needs a public address.

    Raises:
        ValueError: The method, the URL or a header is not valid.
        HttpError: The answer is late, broken or too large, there are too many redirects, or a redirect would
            need the body at another origin.
        AddressRefusedError: The host has no public address and is not allowed.
        ConfigError: A proxy or certificate variable of the environment, or an allowed host, is not valid.
    """
    import httpx

    from autoprompt.workflow.engine.http_network import Deadline, Network, Transport

    method = known_method(request.method).upper()
    place = urlsplit(request.url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError(f"{request.url!r} is not an address, expected http://... or https://...")
    _check_headers(request.headers)
    network = Network(Deadline(request.timeout_s), request.connect_s, allow_private_hosts)
    origin = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"  # before it, a password may stand
    with httpx.Client(
        transport=Transport(network, verifies=request.verifies),
        headers={"Accept-Encoding": "gzip, deflate"},
        trust_env=False,
    ) as client:
        try:
            found = _answer(client, _built(client, method, request))
        except httpx.TimeoutException as error:
            limits = f"{request.timeout_s:g} s for all of it, {request.connect_s:g} s for a connection"
            raise HttpError(f"{method} {origin}: no whole answer in time ({limits})") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise HttpError(f"{method} {origin}: {str(error) or type(error).__name__}") from error
    if found is None:
        raise HttpError(f"{method} {origin}: more than {_MAX_REDIRECTS} redirects")
    return found


def _built(client: httpx.Client, method: str, request: HttpRequest) -> httpx.Request:
    form = None if request.form is None else dict(request.form)
    parts = {name: (None, value) for name, value in (form or {}).items()} if request.is_multipart else None
    return client.build_request(
        method,
        request.url,
        headers=dict(request.headers),
        params=dict(request.params) or None,
        content=request.content.encode() if request.content is not None else None,
        data=form if parts is None else None,
        files=parts,
    )


def _answer(client: httpx.Client, sent: httpx.Request) -> HttpResponse | None:
    """Return the answer at the end of the redirects; None if there are too many."""
    moved_to = ""
    for _ in range(_MAX_REDIRECTS + 1):
        response = client.send(sent, stream=True)
        try:
            following = _redirected(client, sent, response)
            if following is None:
                return replace(_read(response), moved_to=moved_to)
            if _origin(following.url) != _origin(sent.url):
                moved_to = _shown(following.url)
            sent = following
        finally:
            response.close()
    return None


def _redirected(client: httpx.Client, sent: httpx.Request, response: httpx.Response) -> httpx.Request | None:
    """Return the request that a redirect asks for, None if the response is none.

    Of a request to another origin only method and URL are left: the file's headers may hold a key under any
    name, and its body what only the first host may read.
    """
    following = response.next_request
    if following is None or _origin(following.url) == _origin(sent.url):
        return following
    if "content-length" in following.headers or "transfer-encoding" in following.headers:
        raise HttpError(
            f"{_shown(sent.url)} answered {response.status_code}, a redirect to {_shown(following.url)}, "
            "another origin: the body is not sent there. If the address is right, use it in the workflow"
        )
    client.cookies.clear()
    return client.build_request(following.method, following.url)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.rstrip("."), url.port


def _shown(url: httpx.URL) -> str:
    """Scheme, host and port: the rest may hold keys."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def known_method(name: str) -> str:
    """Return the method as it is written, once it is checked.

    Raises:
        ValueError: HTTP has no such method.
    """
    if name.upper() not in METHODS:
        raise ValueError(f"HTTP method {name!r} is not known. Known: {', '.join(METHODS)}.")
    return name


def _check_headers(headers: Mapping[str, str]) -> None:
    """Refuse a header that cannot be sent, without its value.

    The value may be a key. httpx would show it, and the run keeps what a node failed with.

    Raises:
        ValueError: A name or a value is not one line of ASCII without space at its ends.
    """
    for name, value in headers.items():
        text = name + value
        if not text.isascii() or not text.isprintable() or name != name.strip() or value != value.strip():
            raise ValueError(
                f"header {name!r} cannot be sent: expected one line of ASCII, without space at its ends"
            )


def _read(response: httpx.Response) -> HttpResponse:
    # A second coding multiplies: 64 kB of gzip in gzip are gigabytes, made before a byte of them is counted.
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding not in _CODINGS:
        raise HttpError(f"the answer is encoded as {coding!r}, expected gzip, deflate or none")
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _MAX_BYTES:
            raise HttpError(f"the answer has more than {_MAX_BYTES} bytes")
    text = _decoded(bytes(body), response.encoding or "utf-8")
    return HttpResponse(response.status_code, text, dict(response.headers))


def _decoded(body: bytes, encoding: str) -> str:
    """As UTF-8 if the answer names an encoding that is none of texts."""
    if codecs.lookup(encoding).name not in ("idna", "punycode"):  # of host names: 100 kB take a second
        with contextlib.suppress(LookupError, UnicodeError):
            return body.decode(encoding, errors="replace")
    return body.decode(errors="replace")


def lines_to_mapping(text: str) -> dict[str, str]:
    """Return `name: value` lines, as editors write headers and parameters."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip():
            found[name.strip()] = value.strip()
    return found


def with_secrets(text: str) -> str:
    """Replace `${NAME}` by the environment's value, so that no file holds keys.

    Raises:
        ValueError: The environment variable is not set.
    """

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _SECRET.sub(value_of, text)


def unset_names(text: str) -> list[str]:
    """Return the names of `${NAME}` in a text that the environment does not hold."""
    return [name for name in _SECRET.findall(text) if name not in os.environ]


def request_of_tool(
    method: str, url: str, headers: Mapping[str, str], arguments: Mapping[str, Any], timeout_s: float
) -> HttpRequest:
    """Return a tool's call: arguments with a `{name}` in the address go there, others into query or body."""
    used = [name for name in arguments if "{" + name + "}" in url]
    for name in used:
        url = url.replace("{" + name + "}", quote(_plain(arguments[name]), safe=""))
    rest = {name: value for name, value in arguments.items() if name not in used and value is not None}
    # A key that was read from a file ends with a line break more often than not.
    filled = {name: with_secrets(value).strip() for name, value in headers.items()}
    if method.upper() in ("GET", "DELETE", "HEAD", "OPTIONS"):
        params = {name: _plain(value) for name, value in rest.items()}
        return HttpRequest(method, with_secrets(url), filled, params, timeout_s=timeout_s)
    filled = {"Content-Type": "application/json", **filled}
    return HttpRequest(
        method, with_secrets(url), filled, content=json.dumps(rest, ensure_ascii=False), timeout_s=timeout_s
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
