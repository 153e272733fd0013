"""Notes what a page must not do: complain, or ask anybody but this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Request

_LOCAL_SCHEMES = ("file", "data", "blob", "about")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def watch(context: BrowserContext, complaints: list[str]) -> None:
    def check(request: Request) -> None:
        if not stays_here(request.url):
            complaints.append(f"a request left the machine: {request.url[:200]}")

    context.on("request", check)
    context.route(lambda url: not stays_here(url), lambda route: route.abort())
    context.on(
        "console",
        lambda message: (
            message.type in ("error", "warning") and complaints.append(f"console: {message.text}")
        ),
    )
    context.on("weberror", lambda error: complaints.append(f"script: {error.error}"))


def stays_here(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in _LOCAL_SCHEMES or parts.hostname in _LOOPBACK
