"""Which address is answered by what, served until Ctrl-C. Pages are made in threads, streams in the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from autoprompt.errors import InputError, Problem
from autoprompt.web.guard import Guard
from autoprompt.web.hub import POLL_S, Hub, Watcher
from autoprompt.web.library import RunLibrary
from autoprompt.web.pages import Pages, load_assets

# Pages wait for the disk, not for the network: more threads would only take more memory.
THREADS = 8
_FOREVER = "public, max-age=31536000, immutable"
Page = Callable[[Request], str]


class Site(NamedTuple):
    """app: to be served. hub: who follows; to be closed when the server stops."""

    app: ASGIApp
    hub: Hub


def make_site(runs_dir: Path, *, poll_s: float = POLL_S) -> Site:
    """The pages over the runs of this folder, which need not exist yet."""
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
    return Site(Guard(app), hub)


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
    """A socket of this machine's own. port: None for the first free one from DEFAULT_PORT, 0 for any.

    Raises InputError where the port that was asked for is taken, or none is free.
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
