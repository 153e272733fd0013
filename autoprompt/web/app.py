"""Which address is answered by what. Pages are made in worker threads, streams in the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

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
