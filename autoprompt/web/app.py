"""Which address is answered by what, served until Ctrl-C. Pages are made in threads, streams in the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from autoprompt.errors import InputError, Problem
from autoprompt.web.hub import POLL_S, Hub, Watcher
from autoprompt.web.library import RunLibrary
from autoprompt.web.pages import Pages, load_assets

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


# Pages wait for the disk, not for the network: more threads would only take more memory.
THREADS = 8
_FOREVER = "public, max-age=31536000, immutable"
Page = Callable[[Request], str]


class Site(NamedTuple):
    """app: to be served. hub: who follows; to be closed when the server stops."""

    app: ASGIApp
    hub: Hub


def make_site(runs_dir: Path, *, poll_s: float = POLL_S) -> Site:
    """Return the pages over the runs of this folder, which need not exist yet."""
    library = RunLibrary(runs_dir)
    pages = Pages(library, load_assets())
    watcher = Watcher(library, pages.draw_live)
    hub = Hub(watcher.scan, poll_s=poll_s)
    pages.connect(watcher, lambda: hub.position)

    app = Starlette(
        routes=[
            Route("/", _page(pages.runs)),
            Route("/compare", _page(pages.comparison)),
            Route("/runs/{run}", _page(pages.run)),
            Route("/runs/{run}/{trial}", _page(pages.run)),
            Route("/events", _events(hub)),
            Route("/news", _news(hub)),
            *_asset_routes(pages),
        ],
        exception_handlers={HTTPException: pages.problem},
        lifespan=_lifespan(hub),
    )
    # Around everything: the answer to an error of ours has the headers too.
    return Site(_Guard(app), hub)


def _page(make: Page) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return Response(make(request), media_type="text/html; charset=utf-8")

    return answer


def _events(hub: Hub) -> Callable[[Request], object]:
    async def answer(request: Request) -> Response:
        if hub.is_full:
            return PlainTextResponse("Too many listeners.\n", 503, {"Retry-After": "10"})
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return StreamingResponse(hub.follow(after), media_type="text/event-stream")

    return answer


def _news(hub: Hub) -> Callable[[Request], object]:
    async def answer(request: Request) -> Response:
        return JSONResponse(hub.since(request.query_params.get("after", "")))

    return answer


def _asset_routes(pages: Pages) -> list[Route]:
    def route(address: str, content: bytes, media_type: str) -> Route:
        async def answer(_: Request) -> Response:
            return Response(content, media_type=media_type, headers={"Cache-Control": _FOREVER})

        return Route(address, answer)

    async def icon(_: Request) -> Response:
        return RedirectResponse(pages.assets["icon.svg"].address)

    routes = [route(a.address, a.content, a.media_type) for a in pages.assets.values()]
    return [*routes, Route("/favicon.ico", icon)]


def _lifespan(hub: Hub) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        watching = asyncio.create_task(hub.run())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    return lifespan


HOST = "127.0.0.1"
DEFAULT_PORT = 8642
# Where the port is not asked for by name, so many after it are tried.
_TRIED = 20


def bind(port: int | None) -> socket.socket:
    """Return a socket of this machine's own. port: None for the first free one from DEFAULT_PORT, 0 for any.

    Raises:
        InputError: If the port that was asked for is taken, or none is free.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + _TRIED) if port is None else (port,)
    for number in ports:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((HOST, number))
            found.listen()  # only this tells that nobody else does
        except OSError as error:
            found.close()
            reason = error
            continue
        return found
    what = f"port {port}" if port is not None else f"each of the ports {ports[0]} to {ports[-1]}"
    said = f"{what} of {HOST} cannot be used ({reason.strerror})"
    fix = "Stop the program that uses it, or choose another with {port}."
    raise InputError(Problem("web.port", said, fix=fix, settings={"port": None})) from reason


class _Server(uvicorn.Server):
    """Ends the streams when asked to stop: it would wait for them, and they for news."""

    def __init__(self, config: uvicorn.Config, hub: Hub, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._hub.close()


def serve(runs_dir: Path, listening: socket.socket, *, on_start: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM. on_start: called when requests are answered."""
    site = make_site(runs_dir)
    config = uvicorn.Config(
        site.app,
        http="h11",
        loop="asyncio",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    _Server(config, site.hub, on_start).run(sockets=[listening])


# --- who may ask what: pages of this machine, reading; the rest is refused ---

_HOSTS = frozenset({"127.0.0.1", "localhost"})
_METHODS = ("GET", "HEAD")

# No inline script or style, nothing from elsewhere, no frame around us. `data:` is for the plots of a report.
_CONTENT_SECURITY_POLICY = "; ".join(
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
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class _Guard:
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
    """Return the answer to a request that is not ours to serve, None for one that is.

    A page of another site can make a browser ask us, under a name of its own that it lets point here (DNS
    rebinding: the Host header gives it away) or as a part of itself (Sec-Fetch-Site does).
    """
    if not is_ours(headers.getlist("host")):
        return PlainTextResponse("Unknown Host: ask for http://127.0.0.1 or http://localhost.\n", 400)
    if method not in _METHODS:
        answer = PlainTextResponse("Read-only: GET and HEAD.\n", 405)
        answer.headers["Allow"] = ", ".join(_METHODS)
        return answer
    is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_visit:
        return PlainTextResponse("Not for pages of other sites.\n", 403)
    return None


def is_ours(hosts: Iterable[str]) -> bool:
    """Return whether there is one Host header and it names this machine.

    Any port: a tunnel may have its own.
    """
    found = list(hosts)
    if len(found) != 1:
        return False
    name, colon, port = found[0].partition(":")
    return name.lower() in _HOSTS and (not colon or (port.isascii() and port.isdigit()))
