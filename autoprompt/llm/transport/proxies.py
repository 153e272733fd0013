"""Proxies and certificates that the environment names: what is wrong with them, and which is in between."""

from __future__ import annotations

import errno
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from autoprompt.errors import ConfigError
from autoprompt.text.extras import install

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# Of the machine, whatever file it was that could not be opened.
_NO_ROOM = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)
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


def _fault(error: Exception) -> str | None:
    """What is wrong with which variable; None where none has to do with it. Proxies may hold passwords."""
    if isinstance(error, OSError):
        name = next((name for name in _CERTIFICATES if os.environ.get(name)), None)
        if name is None or error.errno in _NO_ROOM:
            return None
        return (
            f"{name}={os.environ[name]}: {error.strerror or error}, expected certificates (PEM). Fix or "
            "unset the variable."
        )
    names = [name for name in map(_set_name, _PROXIES) if name is not None]
    schemes = {name: os.environ[name].rpartition("://")[0].lower() or "http" for name in names}
    if isinstance(error, ImportError):
        socks = ", ".join(name for name, scheme in schemes.items() if scheme.startswith("socks"))
        todo = f"{install(['httpx[socks]'])}; or unset the variable, or set NO_PROXY='*'"
        return (
            f"{socks}: a SOCKS proxy needs a package that is not here. Get it with: {todo}" if socks else None
        )
    for name, scheme in schemes.items():
        if scheme not in _SCHEMES:
            expected = ", ".join(f"{known}://" for known in _SCHEMES)
            return f"{name}: a proxy at {scheme}:// found, expected {expected}. Fix or unset the variable."
    if type(error).__name__ == "InvalidURL":  # of httpx, or of the one that the OpenAI client brings
        given = ", ".join(filter(None, [*names, _set_name("NO_PROXY")]))
        return f"{given}: no address found, expected http://HOST:PORT (in NO_PROXY: hosts). Fix the variable."
    return None


def _set_name(name: str) -> str | None:
    """As it is written in the environment: both `http_proxy` and `HTTP_PROXY` are read, in this order."""
    return next((written for written in (name.lower(), name) if os.environ.get(written)), None)
