"""The lean transport: one POST to /chat/completions on a kept connection, and nothing around it.

httpx, because it knows proxies and certificates by the environment; one client for each request in flight,
because one for all looks through all of its connections at every request.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from autoprompt.errors import AuthenticationError, EndpointError, ModelError, Problem
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.transport.address import (
    base_of,
    environment_faults,
    near_addresses,
    proxy_note,
    request_url,
    shown_url,
)
from autoprompt.llm.transport.failures import (
    SYSTEM,
    BrokenAnswerError,
    TimedOutError,
    UnreachableError,
    from_answer,
    from_status,
    never_reached,
    redact,
)
from autoprompt.llm.transport.stream import STREAMED, is_stream, may_repeat, read_stream, read_watched
from autoprompt.llm.transport.wire import Constrain, Parameters, needs_plain_turns, turn
from autoprompt.records import Message

if TYPE_CHECKING:
    import ssl

    import httpx

_CONNECT_TIMEOUT_S = 5.0
_LIST_TIMEOUT_S = 10.0
_WAITS_S = (0.5, 1.0, 2.0)
_HINT_TIMEOUT_S = 3.0
_REFUSES_EMPTY = (400, 401, 403, 415, 422, 500)  # statuses of an endpoint for a request that says nothing
_NOT_TLS = re.compile(r"WRONG_VERSION_NUMBER|wrong version number|record layer failure", re.IGNORECASE)

MOST_BYTES = 32_000_000
"""Of one answer: a hundred times what the longest ones have."""


def http_client(
    api_key: str,
    *,
    timeout_s: float,
    connections: int = 4,
    trust_env: bool = True,
    certificates: ssl.SSLContext | None = None,
) -> httpx.Client:
    """Return a client with our timeouts and the key, if there is one; up to `connections` are kept open.

    trust_env: whether proxies and certificates that the environment names are used.
    certificates: read already, for they take 20 ms to read.
    Raises ConfigError for a variable that names no proxy or no certificates.
    """
    import httpx

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=connections, keepalive_expiry=30)
    with environment_faults():
        return httpx.Client(
            headers=headers,
            limits=limits,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            follow_redirects=True,
            trust_env=trust_env,
            verify=True if certificates is None else certificates,
        )


class LentClients:
    """Clients of one connection each, lent to one request at a time; up to `most` stay open in between."""

    def __init__(self, api_key: str, *, timeout_s: float, most: int, trust_env: bool) -> None:
        self._api_key, self._timeout_s, self._most, self._trust_env = api_key, timeout_s, most, trust_env
        self._lock = threading.Lock()
        self._idle: list[httpx.Client] = []
        self._certificates: ssl.SSLContext | None = None
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[httpx.Client]:
        with self._lock:
            if self._closed:
                raise RuntimeError("the transport is closed")
            # The one that came back last: its connection is the least likely to have been closed meanwhile.
            client = self._idle.pop() if self._idle else self._new()
        try:
            yield client
        finally:
            with self._lock:
                keep = len(self._idle) < self._most and not self._closed
                if keep:
                    self._idle.append(client)
            if not keep:
                client.close()

    def close(self) -> None:
        """Those that are lent out are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _new(self) -> httpx.Client:
        import httpx

        if self._certificates is None:
            with environment_faults():
                self._certificates = httpx.create_ssl_context(trust_env=self._trust_env)
        return http_client(
            self._api_key,
            timeout_s=self._timeout_s,
            connections=1,
            trust_env=self._trust_env,
            certificates=self._certificates,
        )


def from_httpx(error: httpx.HTTPError, url: str, api_key: str, *, trust_env: bool = True) -> EndpointError:
    """Return one of httpx's errors in our words.

    trust_env: whether a proxy that the environment names was used.
    """
    import httpx

    said = redact(str(error), url, api_key) or type(error).__name__
    no_way = httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | httpx.UnsupportedProtocol
    if url.startswith("https:") and _NOT_TLS.search(said):
        plain = base_of(shown_url(url)).replace("https:", "http:", 1)
        found = f"{shown_url(url)}: the server speaks http, not https ({said})"
        problem = Problem("endpoint.speaks-http", found, fix="Set {base_url}.", settings={"base_url": plain})
        return EndpointError(problem, is_fatal=True)
    if isinstance(error, no_way):
        note = proxy_note(url) if trust_env else ""
        return UnreachableError(f"{shown_url(url)} cannot be reached: {said}{note}")
    if isinstance(error, httpx.TimeoutException):
        return TimedOutError(f"{shown_url(url)}: no answer in time ({said})")
    return EndpointError(f"{shown_url(url)}: the connection broke off ({said})")


class HttpTransport:
    """One request, one answer or one error: no retry, no budget, no memory."""

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        *,
        constrain: Constrain = "off",
        timeout_s: float = 120.0,
        connections: int = 16,
        trust_env: bool = True,
        is_here: bool = False,
    ) -> None:
        self.parameters = Parameters(constrain, f"{shown_url(base_url)} ({model})")
        self._is_here = is_here
        self._url = request_url(base_url, "/chat/completions")
        self._model = model
        self._api_key, self._timeout_s, self._trust_env = api_key, timeout_s, trust_env
        self._clients = LentClients(api_key, timeout_s=timeout_s, most=connections, trust_env=trust_env)

    @property
    def name(self) -> str:
        return self._model

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        import httpx

        parameters = self.parameters.of(options)
        asked = self.parameters.turns(messages, options)
        sent = parameters | ({SYSTEM: True} if needs_plain_turns(asked) else {})
        turns = [turn(message) for message in asked]
        gives_up_after = options.repeats_after
        if gives_up_after is None and options.role != "task":
            gives_up_after = 0
        if not self._is_here or not may_repeat(parameters):
            gives_up_after = None
        streamed = STREAMED if gives_up_after is not None else {}
        body = json.dumps({"model": self._model, "messages": turns, **parameters, **streamed}).encode()
        timeout_s = options.timeout_s or self._timeout_s
        begun = time.perf_counter()
        try:
            with (
                self._clients.lent() as client,
                client.stream(
                    "POST",
                    self._url,
                    content=body,
                    headers={"Content-Type": "application/json"},
                    timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
                ) as response,
            ):
                pieces = self._pieces(response, begun + timeout_s, timeout_s)
                if gives_up_after is not None and response.is_success:
                    content = read_watched(pieces, gives_up_after=gives_up_after)
                else:
                    content = b"".join(pieces)
        except httpx.HTTPError as error:
            raise from_httpx(error, self._url, self._api_key, trust_env=self._trust_env) from error
        latency_s = time.perf_counter() - begun
        if response.request.method != "POST":  # what a redirect of 301, 302 or 303 makes of it
            target = shown_url(str(response.url))
            said = (
                f"{shown_url(self._url)}: HTTP {response.history[0].status_code}, a redirect to {target}, on "
                "which the request is lost"
            )
            fix, settings = "Is that a login? Else set {base_url}.", {"base_url": base_of(target)}
            raise EndpointError(Problem("endpoint.redirect", said, fix=fix, settings=settings), is_fatal=True)
        if not response.is_success:
            raise from_status(
                response.status_code,
                response.headers,
                _text(content, response),
                url=self._url,
                api_key=self._api_key,
                sent=sent,
            )
        try:
            data = read_stream(content) if is_stream(content) else json.loads(content)
        except (ValueError, RecursionError) as error:
            said = redact(_text(content, response), self._url, self._api_key)[:100]
            raise BrokenAnswerError(f"{shown_url(self._url)}: the answer is not JSON: {said!r}") from error
        failure = from_answer(data, response.headers, url=self._url, api_key=self._api_key, sent=sent)
        if failure is not None:
            raise failure
        return self.parameters.read(data, messages, options, latency_s, parameters)

    def _pieces(self, response: httpx.Response, deadline: float, timeout_s: float) -> Iterator[bytes]:
        """The body as it comes: httpx's own timeout begins anew with each byte, such as a blank line.

        Raises TimedOutError at the first piece that comes after the deadline; BrokenAnswerError.
        """
        size = 0
        for piece in response.iter_bytes():
            size += len(piece)
            if size > MOST_BYTES:
                most = f"{MOST_BYTES / 1e6:.0f} MB"
                raise BrokenAnswerError(f"{shown_url(self._url)}: the answer is longer than {most}")
            if time.perf_counter() > deadline:
                whole = f"not whole after {timeout_s:g} s"
                raise TimedOutError(f"{shown_url(self._url)}: no answer in time ({whole})")
            yield piece

    def close(self) -> None:
        self._clients.close()


def _text(content: bytes, response: httpx.Response) -> str:
    return content.decode(response.encoding or "utf-8", errors="replace")


def list_models(base_url: str, api_key: str = "", *, is_needed: bool = True) -> list[dict[str, Any]] | None:
    """Return the entries of `/models`; None from an endpoint that has no such list.

    is_needed: False where a model is named: many a gateway lets a key ask, and not list. A refusal is None
        then, and so is silence, which is waited for once; a wrong key shows at the first request.
    Raises EndpointError, fatal, if it cannot be reached within some seconds, or speaks another protocol;
        AuthenticationError.
    """
    import httpx

    url = request_url(base_url, "/models")
    with http_client(api_key, timeout_s=_LIST_TIMEOUT_S) as client:
        for wait_s in (*_WAITS_S, None):
            failure: ModelError
            try:
                response = client.get(url)
            except httpx.HTTPError as error:
                failure = from_httpx(error, url, api_key)
            else:
                if response.status_code == 200:
                    return listed(response.content)
                failure = from_status(
                    response.status_code, response.headers, response.text, url=url, api_key=api_key, sent={}
                )
            if isinstance(failure, EndpointError) and failure.is_fatal:
                raise failure
            is_final = isinstance(failure, TimedOutError) and not is_needed
            if is_final or not isinstance(failure, EndpointError):
                break
            if wait_s is not None:
                time.sleep(wait_s)
    if isinstance(failure, AuthenticationError) and is_needed:
        raise failure
    if isinstance(failure, UnreachableError):
        raise never_reached(failure) from failure
    return None


def meant_address(base_url: str, api_key: str = "") -> str:
    """Return the address that was meant, near one where no endpoint answers; "" if none is found.

    Asks for the list of models at each; without one, whether it takes a request at all: an empty one, which
    nobody bills.
    """
    import httpx

    silent: set[str] = set()  # schemes that are not spoken there
    with http_client(api_key, timeout_s=_HINT_TIMEOUT_S) as client:
        for address in near_addresses(base_url):
            scheme = address.partition(":")[0]
            if scheme in silent:
                continue
            try:
                is_endpoint = _is_list(client.get(request_url(address, "/models"), follow_redirects=False))
                if not is_endpoint:
                    answer = client.post(
                        request_url(address, "/chat/completions"), json={}, follow_redirects=False
                    )
                    is_endpoint = answer.status_code in _REFUSES_EMPTY and _is_json(answer)
            except httpx.HTTPError as error:
                silent.add(scheme)
                is_endpoint = scheme == "https" and "CERTIFICATE_VERIFY_FAILED" in str(error)
            if is_endpoint:
                return shown_url(address)
    return ""


def _is_list(response: httpx.Response) -> bool:
    """Whether this is a list of models, or asks for a key before it gives one."""
    if response.status_code == 200:
        return listed(response.content) is not None
    return response.status_code in (401, 403) and _is_json(response)


def _is_json(response: httpx.Response) -> bool:
    return str(response.headers.get("content-type", "")).startswith("application/json")


def listed(body: bytes) -> list[dict[str, Any]] | None:
    """Return the entries in an answer to `/models`; None if it is no list."""
    try:
        data = json.loads(body)
    except ValueError:
        return None
    entries = data.get("data") if isinstance(data, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else None
