"""The lean transport: one POST to /chat/completions on a kept connection, and nothing around it.

Requests are sent by aiohttp, on the loop of `portal`: one takes a fifth of the processor time that httpx
needs. What is asked once, as the list of models, goes by httpx, which other parts need anyway.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import ssl
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

from autoprompt.errors import AuthenticationError, EndpointError, ModelError, Problem
from autoprompt.llm import portal
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.transport.address import (
    base_of,
    certificates,
    environment_faults,
    near_addresses,
    proxy_for,
    proxy_note,
    request_url,
    shown_url,
    without_login,
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
from autoprompt.llm.transport.rates import RatesLeft, rates_left
from autoprompt.llm.transport.stream import STREAMED, WatchedAnswer, is_stream, may_repeat, read_stream
from autoprompt.llm.transport.wire import Constrain, Parameters, needs_plain_turns, turn
from autoprompt.records import Message

if TYPE_CHECKING:
    import aiohttp
    import httpx

_CONNECT_TIMEOUT_S = 5.0
_LIST_TIMEOUT_S = 10.0
_WAITS_S = (0.5, 1.0, 2.0)
_HINT_TIMEOUT_S = 3.0
_REFUSES_EMPTY = (400, 401, 403, 415, 422, 500)  # statuses of an endpoint for a request that says nothing
_NOT_TLS = re.compile(r"WRONG_VERSION_NUMBER|wrong version number|record layer failure", re.IGNORECASE)

_KEEP_S = 30.0  # a connection that nobody uses
_MOST_OF_HEADERS = 65_536  # bytes of one header
_LONG_BODY = 1_000_000

MOST_BYTES = 32_000_000
"""Most bytes of one answer: a hundred times the longest ones."""


def http_client(api_key: str, *, timeout_s: float, trust_env: bool = True) -> httpx.Client:
    """Return a client with our timeouts and the key, if there is one, for what is asked once.

    trust_env: whether proxies and certificates that the environment names are used.

    Raises:
        ConfigError: For a variable that names no proxy or no certificates.
    """
    import httpx

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    with environment_faults():
        return httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            follow_redirects=True,
            trust_env=trust_env,
        )


def from_httpx(error: httpx.HTTPError, url: str, api_key: str, *, trust_env: bool = True) -> EndpointError:
    """Return one of httpx's errors in our words.

    trust_env: whether a proxy that the environment names was used.
    """
    import httpx

    said = redact(str(error), url, api_key) or type(error).__name__
    no_way = httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | httpx.UnsupportedProtocol
    if url.startswith("https:") and _NOT_TLS.search(said):
        return speaks_http(shown_url(url), said)
    if isinstance(error, no_way):
        note = proxy_note(url) if trust_env else ""
        return UnreachableError(f"{shown_url(url)} cannot be reached: {said}{note}")
    if isinstance(error, httpx.TimeoutException):
        return TimedOutError(f"{shown_url(url)}: no answer in time ({said})")
    return EndpointError(f"{shown_url(url)}: the connection broke off ({said})")


def speaks_http(shown: str, said: str) -> EndpointError:
    """Return the fatal error of a server that was asked by https and speaks http."""
    plain = base_of(shown).replace("https:", "http:", 1)
    found = f"{shown}: the server speaks http, not https ({said})"
    problem = Problem("endpoint.speaks-http", found, fix="Set {base_url}.", settings={"base_url": plain})
    return EndpointError(problem, is_fatal=True)


def _said(error: Exception) -> str:
    """Return the system's words on a connection, without names of sockets; else the error's own words."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        cause = error.os_error
        number = cause.errno or 0
        is_systems = number > 0 and not isinstance(cause, ssl.SSLError)
        return os.strerror(number) if is_systems else cause.strerror or str(cause)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"HTTP {error.status}: {error.message}"
    return str(error) or type(error).__name__


class HttpTransport:
    """One request, one answer or one error: no retry, no budget, no memory.

    trust_env: whether proxies and certificates that the environment names are used.
    is_here: whether the embedded model answers.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        *,
        constrain: Constrain = "off",
        timeout_s: float = 120.0,
        trust_env: bool = True,
        is_here: bool = False,
    ) -> None:
        self.parameters = Parameters(constrain, f"{shown_url(base_url)} ({model})")
        self._is_here = is_here
        self._url = request_url(base_url, "/chat/completions")
        self._sent_to = without_login(self._url)
        self._model = model
        self._api_key, self._timeout_s, self._trust_env = api_key, timeout_s, trust_env
        self._session: aiohttp.ClientSession | None = None
        self._opened_in = 0  # the number of the process
        self._close: Callable[[], object] = lambda: None
        self._proxy: str | None = None  # unless it speaks SOCKS, which is the connector's
        self._proxy_note = ""
        self._socks_errors: tuple[type[Exception], ...] = ()  # which are no errors of aiohttp's
        self._rates_left: RatesLeft | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        return self._model

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        return portal.run(self.acomplete(messages, options))

    async def acomplete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """Answer as `complete` does, on the loop of `portal`."""
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
        begun = time.perf_counter()
        answer = await self._post(body, options.timeout_s or self._timeout_s, gives_up_after)
        latency_s = time.perf_counter() - begun
        self._rates_left = rates_left(answer.headers)
        if answer.location is not None:
            raise self._elsewhere(answer.status, answer.location)
        content, headers = answer.content, answer.headers
        if not answer.is_success:
            raise from_status(
                answer.status, headers, answer.text(), url=self._url, api_key=self._api_key, sent=sent
            )
        try:
            data = read_stream(content) if is_stream(content) else json.loads(content)
        except (ValueError, RecursionError) as error:
            said = redact(answer.text(), self._url, self._api_key)[:100]
            raise BrokenAnswerError(f"{shown_url(self._url)}: the answer is not JSON: {said!r}") from error
        failure = from_answer(data, headers, url=self._url, api_key=self._api_key, sent=sent)
        if failure is not None:
            raise failure
        return self.parameters.read(data, messages, options, latency_s, parameters)

    def take_rates_left(self) -> RatesLeft | None:
        """Return what the latest answer said is left of the endpoint's rates, once."""
        left, self._rates_left = self._rates_left, None
        return left

    async def _post(self, body: bytes, timeout_s: float, gives_up_after: int | None) -> _Answer:
        """Send one request. Raises EndpointError. One deadline covers everything, headers included."""
        import aiohttp

        session = self._opened()
        # aiohttp sends a long text in parts only if it is a file.
        data = body if len(body) < _LONG_BODY else io.BytesIO(body)
        broken: tuple[type[Exception], ...] = (aiohttp.ClientError, TimeoutError, ValueError, OSError)
        try:
            async with session.post(
                self._sent_to,
                data=data,
                proxy=self._proxy,
                timeout=_deadline(timeout_s),
                allow_redirects=False,
            ) as response:
                answer = _Answer(response.status, response.headers, response.charset or "utf-8")
                watched = None
                if gives_up_after is not None and answer.is_success:
                    watched = WatchedAnswer(gives_up_after)
                pieces: list[bytes] = []
                size = 0
                async for piece in response.content.iter_any():
                    size += len(piece)
                    if size > MOST_BYTES:
                        most = f"{MOST_BYTES / 1e6:.0f} MB"
                        raise BrokenAnswerError(f"{shown_url(self._url)}: the answer is longer than {most}")
                    if watched is None:
                        pieces.append(piece)
                    elif watched.add(piece):
                        response.close()
                        break
                answer.content = b"".join(pieces) if watched is None else watched.content()
                return answer
        except broken + self._socks_errors as error:
            if self._is_closed:
                raise RuntimeError("the transport is closed") from error
            raise self._from_aiohttp(error, timeout_s) from error

    def _from_aiohttp(self, error: Exception, timeout_s: float) -> EndpointError:
        """Return an error of a request that was sent by aiohttp in our words."""
        import aiohttp

        shown = shown_url(self._url)
        said = redact(_said(error), self._url, self._api_key)
        if self._url.startswith("https:") and _NOT_TLS.search(str(error)):
            return speaks_http(shown, said)
        no_way = aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError
        if isinstance(error, (*no_way, *self._socks_errors)):
            return UnreachableError(f"{shown} cannot be reached: {said}{self._proxy_note}")
        if isinstance(error, TimeoutError):
            return TimedOutError(f"{shown}: no answer in time (not whole after {timeout_s:g} s)")
        return EndpointError(f"{shown}: the connection broke off ({said})")

    def _elsewhere(self, status: int, location: str) -> EndpointError:
        """Return the error of a redirect: followed, it would take a row's text to another address."""
        target = shown_url(urljoin(self._url, location))
        said = f"{shown_url(self._url)}: HTTP {status}, a redirect to {target}, which is not followed"
        fix, settings = "Is that a login? Else set {base_url}.", {"base_url": base_of(target.rstrip("/"))}
        problem = Problem("endpoint.redirect", said, fix=fix, settings=settings)
        return EndpointError(problem, status=status, is_fatal=True)

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session, which keeps connections; made on the loop, at a process's first request."""
        if self._is_closed:
            raise RuntimeError("the transport is closed")
        if self._session is None or self._opened_in != os.getpid():
            import aiohttp

            proxy = proxy_for(self._url) if self._trust_env else None
            connection: dict[str, Any] = {
                "limit": 0,  # the gate limits requests
                "keepalive_timeout": _KEEP_S,
                "resolver": aiohttp.ThreadedResolver(),
                "ssl": certificates(self._url) if self._trust_env else True,
            }
            connector: aiohttp.BaseConnector
            self._proxy_note = proxy_note(self._url) if proxy is not None else ""
            if proxy is not None and proxy.startswith("socks"):
                import aiohttp_socks as socks

                # It lets the proxy look up hosts in any case, and knows no other name for that.
                proxy = proxy.replace("socks5h:", "socks5:", 1)
                connector, proxy = socks.ProxyConnector.from_url(proxy, **connection), None
                self._socks_errors = (
                    socks.ProxyError,
                    socks.ProxyConnectionError,
                    socks.ProxyTimeoutError,
                )
            else:
                connector = aiohttp.TCPConnector(**connection)
            self._proxy = proxy
            self._close()
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"Content-Type": "application/json", **_authorization(self._url, self._api_key)},
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=_MOST_OF_HEADERS,
                max_field_size=_MOST_OF_HEADERS,
            )
            self._opened_in = os.getpid()
            closing = weakref.finalize(self, _end, self._session, self._opened_in)
            closing.atexit = False
            self._close = closing
        return self._session

    def close(self) -> None:
        """Close the connections. Requests that are on their way break off."""
        self._is_closed = True
        self._close()


@lru_cache(maxsize=16)  # requests share theirs
def _deadline(timeout_s: float) -> aiohttp.ClientTimeout:
    import aiohttp

    connect_s = min(timeout_s, _CONNECT_TIMEOUT_S)
    return aiohttp.ClientTimeout(total=timeout_s, connect=connect_s, sock_connect=connect_s)


def _end(session: aiohttp.ClientSession, process: int) -> None:
    """Close the connections of a session, in the process that opened it."""
    if process == os.getpid():
        portal.later(session.close)
    else:
        portal.leave_to_parent(session)


@dataclass(slots=True)
class _Answer:
    """An HTTP answer, read whole."""

    status: int
    headers: Mapping[str, str]
    charset: str
    content: bytes = b""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def location(self) -> str | None:
        """Where a redirect leads; None if it is none."""
        return self.headers.get("Location") if 300 <= self.status < 400 else None

    def text(self) -> str:
        try:
            return self.content.decode(self.charset, errors="replace")
        except LookupError:  # no such encoding
            return self.content.decode(errors="replace")


def _authorization(url: str, api_key: str) -> dict[str, str]:
    """User and password of the address go before a key."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


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
    """Return whether this is a list of models, or asks for a key before it gives one."""
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
