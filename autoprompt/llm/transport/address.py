"""Addresses of endpoints: checked, shown without secrets, made into that of a request; proxies in between."""

from __future__ import annotations

import errno
import os
import re
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import util
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

from autoprompt.errors import ConfigError, Problem, UsageError
from autoprompt.records import RunEvent
from autoprompt.text.display import ADDRESS_VARIABLES, HIDDEN
from autoprompt.text.machine import install

_REQUEST = "/chat/completions"
# Requests of the same and of other protocols, pasted from an example.
_REQUESTS = (_REQUEST, "/completions", "/responses", "/messages", "/embeddings", "/models")
_BASES = ("/v1", "/api/v1", "/openai/v1", "/v1beta/openai", "/compatible-mode/v1")  # where APIs usually are


_NO_SCHEME = re.compile(r"[\w-]+(\.[\w-]+)*(:\d{1,5})?(/[\w./-]*)?")  # HOST[:PORT][/PATH]


def checked_url(base_url: str) -> str:
    """Return the address without spaces around it and a slash at the end.

    Raises:
        UsageError: If it is no http(s) address, or that of one request, or one from a run's folder whose
            password is not there.
    """
    base_url = base_url.strip()
    if HIDDEN in base_url:
        said = f"base URL {base_url}: the run does not keep the password or key of this address"
        others = " or ".join(ADDRESS_VARIABLES[1:3])
        fix = f"Set {ADDRESS_VARIABLES[0]} to the whole address ({others} for another role), then resume."
        raise UsageError(Problem("endpoint.hidden-address", said, fix=fix))
    try:
        parts = urlsplit(base_url)
        # `a..b` and names of over 63 letters have no form that could be looked up: UnicodeError.
        host = (parts.hostname or "").encode("idna")
        is_address = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
        is_address = is_address and base_url.isprintable()
    except ValueError:
        is_address = False
    if not is_address:
        expected = "http://HOST[:PORT]/v1 or https://HOST/v1"
        if _NO_SCHEME.fullmatch(base_url):
            is_near = base_url.startswith(("localhost", "127.", "0.0.0.0", "10.", "192.168."))
            expected = f"{'http' if is_near else 'https'}://{base_url}"
        said = f"base URL {base_url!r} is not an http(s) address"
        raise UsageError(Problem("endpoint.bad-address", said, fix=f"Use {expected}"))
    path = parts.path.rstrip("/")
    pasted = next((request for request in _REQUESTS if path.endswith(request)), None)
    if pasted is not None:
        shown = shown_url(base_url).rstrip("/").removesuffix(pasted)
        said = f"base URL {shown_url(base_url)}: autoprompt adds {pasted} itself"
        fix = f"Use {shown if urlsplit(shown).path else shown + _BASES[0]}"
        raise UsageError(Problem("endpoint.request-address", said, fix=fix))
    return base_url.rstrip("/")


def near_addresses(base_url: str) -> list[str]:
    """Return addresses that may be meant by one at which no endpoint answers, the likeliest first.

    A doubled or missing `/v1`, a path that goes too far, https instead of http. Never http instead of https,
    as a key would be sent in the open.
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    halves = [path[: len(path) - len(end)] for end in _BASES if path.endswith(end * 2)]
    above = [path[:cut] for cut in (path.rfind("/"),) if cut > 0]
    added = [] if path.endswith(_BASES) else [f"{path}/v1"]
    paths = dict.fromkeys([*halves, *added, *above, *_BASES])
    schemes = ("http", "https") if parts.scheme == "http" else ("https",)
    found = [urlunsplit(parts._replace(scheme=each, path=one)) for each in schemes for one in (path, *paths)]
    return [address for address in dict.fromkeys(found) if address != base_url.rstrip("/")]


def request_url(base_url: str, path: str) -> str:
    """Return the address of one request. `path` goes before a query, such as `?api-version=...`."""
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))


def base_of(url: str) -> str:
    """Return the base URL of the address of one request."""
    return next((url.removesuffix(path) for path in _REQUESTS if url.endswith(path)), url)


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# Of the machine, whatever file it was that could not be opened.
_NO_ROOM = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_FIX_OR_UNSET = "Fix or unset the variable."
_SCHEMES = ("http", "https", "socks5", "socks5h")


@contextmanager
def environment_faults() -> Iterator[None]:
    """Name the variable in errors of an HTTP client that is being made, which reads the environment.

    Raises:
        ConfigError: If a variable is wrong. Other errors stay as they are.
    """
    try:
        yield
    except Exception as error:
        if (fault := _fault(error)) is None:
            raise
        raise ConfigError(fault) from error


def proxy_note(url: str) -> str:
    """Return what to add to an error about an unreachable `url`: the proxy in between, "" without one."""
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", urllib.request.getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if proxies.get(kind)), None)
    if kind is None or urllib.request.proxy_bypass(host):
        return ""
    variable = _set_name(f"{kind}_PROXY".upper()) or "the system's settings"
    without = ",".join(filter(None, (proxies.get("no"), host)))
    return (
        f" (through the proxy of {variable}; {_set_name('NO_PROXY') or 'NO_PROXY'}={without} goes round it)"
    )


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for an address, None if there is none.

    Raises:
        ConfigError: If a variable names no proxy, even if it is not for this address.
    """
    proxies = urllib.request.getproxies()
    if "*" in map(str.strip, proxies.get("no", "").split(",")):
        return None
    for kind in ("http", "https", "all"):
        if proxies.get(kind):
            _check_proxy(proxies[kind])
    parts = urlsplit(url)
    proxy = next((proxies[kind] for kind in (parts.scheme, "all") if proxies.get(kind)), None)
    # With its port, as NO_PROXY may name one.
    if proxy is None or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _check_proxy(proxy: str) -> None:
    found = _unknown_scheme()
    if found is None and proxy.startswith("socks") and util.find_spec("aiohttp_socks") is None:
        found = _no_socks()
    if found is None:
        try:
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            is_address = bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        found = None if is_address else _no_address()
    if found is not None:
        raise ConfigError(found)


def certificates(url: str) -> ssl.SSLContext | bool:
    """Return what servers are checked by: the certificates of the environment, else those of certifi.

    True for an address without TLS, and no variable to check.

    Raises:
        ConfigError: If a variable names no certificates.
    """
    file, folder = (os.environ.get(name) for name in _CERTIFICATES)
    if url.startswith("http:") and not file and not folder:
        return True
    if not file and not folder:
        import certifi

        file = certifi.where()
    with environment_faults():
        return ssl.create_default_context(cafile=file or None, capath=folder or None)


def without_login(url: str) -> str:
    """Return the URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _fault(error: Exception) -> Problem | None:
    """Return which variable is wrong, and how; None if none is."""
    if isinstance(error, OSError):
        name = next((name for name in _CERTIFICATES if os.environ.get(name)), None)
        if name is None or error.errno in _NO_ROOM:
            return None
        said = f"{os.environ[name]}: {error.strerror or error}, expected certificates (PEM)"
        return Problem("endpoint.bad-certificates", f"{name}: {said}", fix=_FIX_OR_UNSET)
    if isinstance(error, ImportError):
        return _no_socks()
    if (fault := _unknown_scheme()) is not None:
        return fault
    # Of httpx, or of the one that the OpenAI client brings.
    return _no_address() if type(error).__name__ == "InvalidURL" else None


def _proxy_schemes() -> dict[str, str]:
    """Variable -> the scheme of the proxy that it names. Proxies may hold passwords."""
    names = [name for name in map(_set_name, _PROXIES) if name is not None]
    return {name: os.environ[name].rpartition("://")[0].lower() or "http" for name in names}


def _no_socks() -> Problem | None:
    """Return the problem that packages for SOCKS proxies are missing; None if no variable names one."""
    socks = ", ".join(name for name, scheme in _proxy_schemes().items() if scheme.startswith("socks"))
    packages = install(["aiohttp-socks", "httpx[socks]"])
    fix = f"Install them: {packages}; or unset the variable, or set NO_PROXY='*'."
    said = "a SOCKS proxy needs packages that are not here"
    return Problem("endpoint.no-socks", f"{socks}: {said}", fix=fix) if socks else None


def _unknown_scheme() -> Problem | None:
    for name, scheme in _proxy_schemes().items():
        if scheme not in _SCHEMES:
            expected = ", ".join(f"{known}://" for known in _SCHEMES)
            said = f"a proxy at {scheme}:// found, expected {expected}"
            return Problem("endpoint.bad-proxy", f"{name}: {said}", fix=_FIX_OR_UNSET)
    return None


def _no_address() -> Problem:
    given = ", ".join(filter(None, map(_set_name, (*_PROXIES, "NO_PROXY"))))
    said = "no address found, expected http://HOST:PORT (in NO_PROXY: hosts)"
    return Problem("endpoint.bad-proxy", f"{given}: {said}", fix="Fix the variable.")


def _set_name(name: str) -> str | None:
    """As it is written in the environment: both `http_proxy` and `HTTP_PROXY` are read, in this order."""
    return next((written for written in (name.lower(), name) if os.environ.get(written)), None)


@dataclass(frozen=True, slots=True)
class SentTo:
    """An address that rows are sent to."""

    address: str
    """The endpoint, without password or key."""
    key: str | None
    """Variable that its key comes from; null without one."""
    models: tuple[str, ...]
    """Models that are asked there."""

    def sentence(self, what: str) -> str:
        """Return which key goes to this address. what: the data that is sent there."""
        models = ", ".join(self.models)
        named = f" (model{'s' if len(self.models) > 1 else ''} {models})" if models else ""
        key = "No key" if self.key is None else self.key
        return f"{key} goes to {self.address}{named}; {what} are sent there"


@dataclass(frozen=True, slots=True)
class SendsTo(RunEvent):
    """Where the models are asked; it comes before the first request. what: the data that is sent."""

    kind: ClassVar[str] = "sends_to"
    to: tuple[SentTo, ...]
    what: str

    @property
    def sentences(self) -> list[str]:
        """One sentence for each address."""
        return [entry.sentence(self.what) for entry in self.to]
