"""Addresses of endpoints: checked, shown without what is secret, and made into that of one request."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from autoprompt.errors import Problem, UsageError
from autoprompt.text.redaction import ADDRESS_VARIABLES, HIDDEN

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
