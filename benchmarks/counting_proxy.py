"""A proxy in front of one endpoint that counts what passes: by phase (search, score) and by model's name.

What a library says of its own calls is not believed: every request is counted here, where it passes.
One request goes on at a time, so that all tools share one slot; `busy_s` is the time that the endpoint
worked.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web

from autoprompt.llm.transport.stream import is_stream, read_stream


class CountingProxy:
    """`with CountingProxy(base_url, api_key) as proxy:` listens on `proxy.base_url` (any key is taken).

    counts: phase -> model -> {calls, prompt_tokens, completion_tokens, failed, busy_s}. GET /count gives
    them; POST /phase/NAME begins another phase.
    """

    def __init__(self, upstream: str, api_key: str) -> None:
        self._upstream = upstream.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._phase = "search"
        self.counts: dict[str, dict[str, dict[str, float]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(float))
        )
        self.base_url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> CountingProxy:
        self._thread.start()
        if not self._ready.wait(30):
            raise RuntimeError("the proxy did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def begin(self, phase: str) -> None:
        self._phase = phase

    def totals(self, phase: str) -> dict[str, dict[str, float]]:
        """Model -> counts of one phase, as plain dicts."""
        return {model: dict(count) for model, count in self.counts[phase].items()}

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        self._loop.run_until_complete(self._session.close())

    async def _start(self) -> None:
        self._slot = asyncio.Lock()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/phase/{name}", self._begin)
        app.router.add_get("/count", self._count)
        app.router.add_route("*", "/v1/{tail:.*}", self._forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._ready.set()

    async def _begin(self, request: web.Request) -> web.Response:
        self.begin(request.match_info["name"])
        return web.json_response({})

    async def _count(self, request: web.Request) -> web.Response:
        return web.json_response({phase: self.totals(phase) for phase in list(self.counts)})

    async def _forward(self, request: web.Request) -> web.Response:
        url = f"{self._upstream}/{request.match_info['tail']}"
        body = await request.json() if request.can_read_body else None
        async with self._slot:
            started = time.monotonic()
            async with self._session.request(request.method, url, json=body, headers=self._headers) as answer:
                raw = await answer.read()
            busy_s = time.monotonic() - started
        if request.path.endswith("/chat/completions") and body is not None:
            self._record(body, answer.status, raw, busy_s)
        return web.Response(body=raw, status=answer.status, content_type="application/json")

    def _record(self, body: dict[str, Any], status: int, raw: bytes, busy_s: float) -> None:
        count = self.counts[self._phase][str(body.get("model"))]
        count["calls"] += 1
        count["busy_s"] += busy_s
        if status != 200:
            count["failed"] += 1
            return
        usage = _usage(raw)
        count["prompt_tokens"] += usage.get("prompt_tokens", 0)
        count["completion_tokens"] += usage.get("completion_tokens", 0)


def _usage(raw: bytes) -> dict[str, int]:
    """Of an answer, streamed or whole; {} for one that broke off."""
    try:
        answer: dict[str, Any] = read_stream(raw) if is_stream(raw) else json.loads(raw)
    except ValueError:
        return {}
    return answer.get("usage") or {}
