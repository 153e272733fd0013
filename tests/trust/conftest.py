from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_endpoint import FakeEndpoint, answer, fake_endpoint


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with fake_endpoint(lambda body: answer("1")) as endpoint:
        yield endpoint
