"""A folder with rows, and an endpoint on the loopback that knows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from batches import Home, reply
from fake_endpoint import FakeEndpoint, fake_endpoint
from fakes import write_rows


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with fake_endpoint(reply) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    write_rows(tmp_path / "rows.jsonl", range(40))
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path)


@pytest.fixture
def online(home: Home, endpoint: FakeEndpoint) -> Home:
    home.base_url = endpoint.base_url
    return home
