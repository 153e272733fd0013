"""For whole commands: a server on the loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from endpoint import Endpoint, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made
