"""Failures of a node that say nothing of the prompts: a model, tool or service was not there to be asked."""

from __future__ import annotations

from autoprompt.errors import EndpointError, RequestRefusedError
from autoprompt.types import REFUSED
from autoprompt.workflow.errors import NodeError, UnknownToolError

# A key that is wrong, too many requests, and a service behind which nobody answers. Other statuses may well
# be the answer to what a model asked for: were such rows left out, a prompt that asks for nonsense gained.
_OUTAGES = frozenset({401, 403, 407, 408, 429, 502, 503, 504})
# What a function says of a path that a model may have named.
_OF_FILES = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def outage(error: NodeError) -> str | None:
    """What went wrong outside, with REFUSED before what a model's endpoint would not take; None for any
    other failure, which is an answer's.

    Raises a fatal EndpointError: no further row would fare better.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RequestRefusedError):
            return REFUSED + str(error)
        if isinstance(cause, EndpointError) and cause.is_fatal:
            raise cause
        if isinstance(cause, EndpointError | UnknownToolError) or _is_unreachable(cause):
            return str(error)
        cause = getattr(cause, "original_error", None) or cause.__cause__
    return None


def _is_unreachable(error: BaseException) -> bool:
    """By the status of the answer where there was one, as httpx, requests and urllib keep it; else by the
    kind of the error: of the network, not of a file."""
    import httpx

    status = _status(error)
    if status is not None:
        return status in _OUTAGES
    return isinstance(error, OSError | httpx.TransportError) and not isinstance(error, _OF_FILES)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for holder, name in ((error, "status"), (error, "code"), (response, "status_code"), (response, "status")):
        value = getattr(holder, name, None)
        if isinstance(value, int) and value >= 100:
            return value
    return None
