"""Connections of http nodes and tools: to public addresses or hosts that the run allows, until a deadline.

The URL may have been written by a model. So a name is resolved once, its addresses are checked, and the
connection goes to an address that was checked.
"""

from __future__ import annotations

import importlib
import queue
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import httpcore
import httpx

from autoprompt.errors import ConfigError
from autoprompt.llm.transport.address import environment_faults
from autoprompt.workflow.engine.errors import AddressRefusedError

Resolve = Callable[[str, int], Sequence[str]]

_PIECE = 16_384  # bytes that are written before the deadline is looked at again
_UNICAST = IPv6Network("2000::/3")  # all of IPv6 that is public
_NAT64 = IPv6Network("64:ff9b::/96")  # an IPv4 address behind a translator: judged by that address
# Reserved, or handed on to an IPv4 address, which `is_global` does not know in every version of Python.
_RESERVED = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2002::/16", "3fff::/20")))
_AZURE = IPv4Address("168.63.129.16")  # public by its number, but the host of each virtual machine there


def is_public(address: str) -> bool:
    """Return whether an address is of the public Internet, not of this machine, its network or cloud."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        if ip in _NAT64:
            ip = IPv4Address(int(ip) & 0xFFFF_FFFF)
        elif ip not in _UNICAST:
            return False
    if not ip.is_global or ip.is_multicast or ip == _AZURE or any(ip in reserved for reserved in _RESERVED):
        return False
    return not _is_own(str(ip))


def _is_own(address: str) -> bool:
    """Return whether this machine has the address: what goes there would leave from it. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0]) == address
    except OSError:  # no way there, as the connection will tell
        return False


def host_and_port(entry: str) -> tuple[str, int | None]:
    """Return the host and the port of an entry of `allow_private_hosts`; None for any port.

    Raises:
        ConfigError: The entry is not `HOST` or `HOST:PORT`.
    """
    is_bare_ipv6 = entry.count(":") > 1 and not entry.startswith("[")
    try:
        url = httpx.URL(f"any://{f'[{entry}]' if is_bare_ipv6 else entry}")
        is_host = bool(url.host) and url.path == "/" and not url.userinfo
    except httpx.InvalidURL:
        is_host = False
    if not is_host:
        raise ConfigError(f"allow_private_hosts: {entry!r} found, expected HOST or HOST:PORT")
    return _spelt(url.raw_host.decode("ascii")), url.port


def _spelt(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name.

    Raises:
        OSError: The name cannot be resolved.
        UnicodeError: The text cannot be a host's name.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self, most: float | None, error: type[Exception]) -> float:
        """Return the seconds that are left, at most `most`; raise `error` if none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise error("the deadline is over")
        return left if most is None else min(left, most)


class Network(httpcore.NetworkBackend):
    """Opens connections that end at the deadline.

    allowed: hosts, or `host:port`, whose addresses are not checked.
    """

    def __init__(
        self,
        deadline: Deadline,
        connect_s: float,
        allowed: Iterable[str] = (),
        resolve: Resolve = resolve,
        direct: httpcore.NetworkBackend | None = None,
    ) -> None:
        self._deadline, self._connect_s, self._resolve = deadline, connect_s, resolve
        self._allowed = {host_and_port(entry) for entry in allowed}
        self._direct = direct or httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of the host that may be reached and answers."""
        return self._connected(self.addresses(host, port), port)

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host that may be reached.

        Raises:
            AddressRefusedError: None of the host's addresses is public, and the host is not allowed.
            httpcore.ConnectError: The name cannot be resolved.
            httpcore.ConnectTimeout: The name was not resolved in time.
        """
        found = self._resolved(host, port)
        if self.allows(host, port):
            return found
        public = [address for address in found if is_public(address)]
        if not public:
            raise AddressRefusedError(host, found[0])
        return public

    def allows(self, host: str, port: int) -> bool:
        return not self._allowed.isdisjoint({(_spelt(host), port), (_spelt(host), None)})

    def to_proxy(self) -> httpcore.NetworkBackend:
        """Return the same without the check: the user's environment names the proxy."""
        return _Unchecked(self)

    def _resolved(self, host: str, port: int) -> Sequence[str]:
        """In a thread, since the system's resolver knows no deadline."""
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                answers.put(error)

        threading.Thread(target=ask, name="resolve", daemon=True).start()
        try:
            found = answers.get(timeout=self._deadline.left(self._connect_s, httpcore.ConnectTimeout))
        except queue.Empty:
            raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time") from None
        if isinstance(found, Exception):
            raise httpcore.ConnectError(str(found)) from found
        return found

    def _connected(self, addresses: Sequence[str], port: int) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError("no address")
        for address in addresses:
            left = self._deadline.left(self._connect_s, httpcore.ConnectTimeout)
            try:
                return _Stream(self._direct.connect_tcp(address, port, left), self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class _Unchecked(httpcore.NetworkBackend):
    def __init__(self, network: Network) -> None:
        self._network = network

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return self._network._connected(self._network._resolved(host, port), port)


class _Stream(httpcore.NetworkStream):
    """A stream that ends at the deadline, however slowly the other side sends or reads."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(None, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE):
            left = self._deadline.left(None, httpcore.WriteTimeout)
            self._stream.write(buffer[start : start + _PIECE], left)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(None, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class Transport(httpx.BaseTransport):
    """Sends each request over a connection of its own, through the proxy that the environment names for it.

    A proxy resolves names by itself. So the host's addresses are checked here first, and a name that cannot
    be resolved here is refused.
    """

    def __init__(self, network: Network, *, verifies: bool) -> None:
        self._network, self._verifies = network, verifies

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        with _httpx_errors():
            pool = self._pool(url)
            try:
                response = pool.handle_request(
                    httpcore.Request(
                        request.method,
                        httpcore.URL(
                            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                        ),
                        headers=request.headers.raw,
                        content=request.stream,
                    )
                )
            except BaseException:
                pool.close()
                raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response, pool),
            extensions=response.extensions,
        )

    def _pool(self, url: httpx.URL) -> httpcore.ConnectionPool:
        with environment_faults():
            proxy = _proxy(url)
            context = None
            if url.scheme == "https":
                context = httpx.create_ssl_context(verify=self._verifies)
        if proxy is None:
            return httpcore.ConnectionPool(ssl_context=context, network_backend=self._network)
        port = url.port or (443 if url.scheme == "https" else 80)
        if not self._network.allows(url.host, port):
            try:
                self._network.addresses(url.host, port)
            except httpcore.ConnectError as error:
                raise AddressRefusedError(url.host, None) from error
        return httpcore.ConnectionPool(
            ssl_context=context, proxy=proxy, network_backend=self._network.to_proxy()
        )


def _proxy(url: httpx.URL) -> httpcore.Proxy | None:
    """Return the proxy that the environment names for a URL.

    Its errors are explained by `environment_faults`.
    """
    proxies = urllib.request.getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(url.host):
        return None
    proxy = httpx.Proxy(found if "://" in found else f"http://{found}")
    if proxy.url.scheme.startswith("socks"):
        importlib.import_module("socksio")  # an extra of httpx
    return httpcore.Proxy(
        httpcore.URL(scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=b"/"),
        auth=proxy.raw_auth,
    )


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response, pool: httpcore.ConnectionPool) -> None:
        self._response, self._pool = response, pool

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()
        self._pool.close()


_HTTPX_ERRORS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (httpcore.ConnectTimeout, httpx.ConnectTimeout),
    (httpcore.TimeoutException, httpx.TimeoutException),
    (httpcore.ConnectError, httpx.ConnectError),
    (httpcore.NetworkError, httpx.NetworkError),
    (httpcore.ProxyError, httpx.ProxyError),
    (httpcore.UnsupportedProtocol, httpx.UnsupportedProtocol),
    (httpcore.LocalProtocolError, httpx.LocalProtocolError),
    (httpcore.ProtocolError, httpx.RemoteProtocolError),
)


@contextmanager
def _httpx_errors() -> Iterator[None]:
    try:
        yield
    except tuple(kind for kind, _ in _HTTPX_ERRORS) as error:
        kind = next(ours for theirs, ours in _HTTPX_ERRORS if isinstance(error, theirs))
        raise kind(str(error)) from error
