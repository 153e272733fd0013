"""Who may ask what: this machine's own pages, reading. Everything else is refused before a page is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = frozenset({"127.0.0.1", "localhost"})
METHODS = ("GET", "HEAD")

# No inline script or style, nothing from elsewhere, no frame around us. `data:` is for the plots of a report.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Guard:
    """Around the whole application, so that no page, asset or error leaves without the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's own start and stop; web sockets are not served
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                # What a run holds must not stay in a browser's cache; assets say otherwise themselves.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        app = refusal(scope["method"], Headers(scope=scope)) or self._app
        await app(scope, receive, send_guarded)


def refusal(method: str, headers: Headers) -> PlainTextResponse | None:
    """The answer to a request that is not ours to serve, None for one that is.

    A page of another site can make a browser ask us, under a name of its own that it lets point here (DNS
    rebinding: the Host header gives it away) or as a part of itself (Sec-Fetch-Site does).
    """
    if not is_ours(headers.getlist("host")):
        return PlainTextResponse("Unknown Host: ask for http://127.0.0.1 or http://localhost.\n", 400)
    if method not in METHODS:
        answer = PlainTextResponse("Read-only: GET and HEAD.\n", 405)
        answer.headers["Allow"] = ", ".join(METHODS)
        return answer
    is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_visit:
        return PlainTextResponse("Not for pages of other sites.\n", 403)
    return None


def is_ours(hosts: Iterable[str]) -> bool:
    """Whether there is one Host header and it names this machine. Any port: a tunnel may have its own."""
    found = list(hosts)
    if len(found) != 1:
        return False
    name, colon, port = found[0].partition(":")
    return name.lower() in HOSTS and (not colon or (port.isascii() and port.isdigit()))
