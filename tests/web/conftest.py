"""A store of runs, the pages over it, and a way to ask for them without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.app import Site, make_site

Ask = Callable[..., httpx.Response]


@pytest.fixture
def runs(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


@pytest.fixture
def site(runs: RunStore) -> Site:
    return make_site(runs.runs_dir)


@pytest.fixture
def ask(site: Site) -> Ask:
    """`ask("/path", method="GET", headers=...)`: one request to the application, without a network."""

    def asked(path: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=site.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(send())

    return asked


@pytest.fixture
def held() -> Iterator[Callable[[RunFolder], None]]:
    """`held(run)`: a process holds this run until the test ends."""
    with ExitStack() as stack:
        yield lambda run: stack.enter_context(run.lock())
