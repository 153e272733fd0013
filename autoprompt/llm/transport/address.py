"""Addresses of endpoints: checked, shown without what is secret, and made into that of one request."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from autoprompt.errors import UsageError
from autoprompt.text.redaction import ADDRESS_VARIABLES, HIDDEN

_REQUEST = "/chat/completions"


def checked_url(base_url: str) -> str:
    """Without spaces around it and a slash at the end.

    Raises UsageError for what is not an http(s) address, for that of one request, and for one out of a run's
    folder whose password is not there.
    """
    base_url = base_url.strip()
    if HIDDEN in base_url:
        raise UsageError(
            f"base URL {base_url}: the run began with a password or key in it, which is not kept. Set "
            f"{ADDRESS_VARIABLES[0]} to the whole address, or {' or '.join(ADDRESS_VARIABLES[1:3])} to that "
            "of another role, and call it again."
        )
    try:
        parts = urlsplit(base_url)
        # `a..b` and names of over 63 letters have no form that could be looked up: UnicodeError.
        host = (parts.hostname or "").encode("idna")
        is_address = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
        is_address = is_address and base_url.isprintable()
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(f"base URL {base_url!r}: expected http://HOST[:PORT]/v1 or https://HOST/v1")
    if parts.path.rstrip("/").endswith(_REQUEST):
        raise UsageError(
            f"base URL {shown_url(base_url)}: leave out {_REQUEST}, which is added to it; expected "
            f"{shown_url(base_url).rstrip('/').removesuffix(_REQUEST)}"
        )
    return base_url.rstrip("/")


def request_url(base_url: str, path: str) -> str:
    """The address of one request: `path` goes before a query, such as the `?api-version=...` of some."""
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))


def shown_url(url: str) -> str:
    """The URL without user, password and query, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
