"""Failures of a node that say nothing of the prompts: a model, tool or service was not there to be asked."""

from __future__ import annotations

import errno
import socket
import ssl
import urllib.error
from collections.abc import Iterator

from autoprompt.errors import EndpointError, RequestRefusedError
from autoprompt.measure.program import failure_of
from autoprompt.records import Failure
from autoprompt.workflow.engine.errors import (
    AddressRefusedError,
    NodeError,
    ToolOutputError,
    UnknownToolError,
)

# A key that is wrong, too many requests, and a service behind which nobody answers. Other statuses may well
# be the answer to what a model asked for.
_STATUSES = frozenset({401, 403, 407, 408, 429, 502, 503, 504})
_OF_NETWORK = (ConnectionError, TimeoutError, socket.gaierror, ssl.SSLError)
_UNREACHABLE = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH})
# By name, as `requests` need not be there: its other errors are of addresses that a model may have written.
_OF_REQUESTS = frozenset({"requests.exceptions.ConnectionError", "requests.exceptions.Timeout"})


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from, one after the other."""
    seen: set[int] = set()
    cause: object = error
    while isinstance(cause, BaseException) and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = getattr(cause, "original_error", None) or cause.__cause__


def outage(error: NodeError) -> Failure | None:
    """Return the kind of failure if something outside went wrong; None if not, as it is an answer's then.

    Raises a fatal EndpointError: no further row would fare better.
    """
    for cause in causes(error):
        if isinstance(cause, RequestRefusedError):
            return failure_of(cause)
        if isinstance(cause, EndpointError):
            if cause.is_fatal:
                raise cause
            return "failed"
        if isinstance(cause, ToolOutputError):
            return "failed"
        if isinstance(cause, UnknownToolError | AddressRefusedError) or _is_unreachable(cause):
            return "not reached"
    return None


def is_out_of_reach(error: BaseException) -> bool:
    """Whether a tool or a service was not there: the same may work at another time."""
    return any(_is_unreachable(cause) for cause in causes(error))


def _is_unreachable(error: BaseException) -> bool:
    """By the status of the answer where there was one, as httpx, requests and urllib keep it; else by the
    kind of the error."""
    status = _status(error)
    if status is not None:
        return status in _STATUSES
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, BaseException) and _is_of_network(error.reason)
    return _is_of_network(error)


def _is_of_network(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.TransportError):
        return not isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    is_unreachable = isinstance(error, OSError) and error.errno in _UNREACHABLE
    return isinstance(error, _OF_NETWORK) or is_unreachable or not names.isdisjoint(_OF_REQUESTS)


def _status(error: BaseException) -> int | None:
    response = _attribute(error, "response")
    for holder in (error, response):
        for name in ("status", "status_code", "code"):
            value = _attribute(holder, name)
            if isinstance(value, int) and value >= 100:
                return value
    return None


def _attribute(holder: object, name: str) -> object:
    """None where there is none, or where it raises: these are other people's errors."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001
        return None
