"""One look at the files for all who watch: each gets the newest of every run, and nothing queues up."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from anyio import to_thread

POLL_S = 0.5
# A line that says nothing shows a proxy and a sleeping laptop that the connection lives.
PING_S = 15.0
# Runs whose last word is kept for a client that comes back.
_KEPT = 256
MOST_CLIENTS = 128


@dataclass(frozen=True, slots=True)
class News:
    """What changed. topic: only the newest news of one is ever sent. data: one line of JSON."""

    topic: str
    data: str


class Hub:
    """Calls `scan` in a worker thread while anybody listens, and hands on what it finds.

    A client holds no queue: it remembers the number of the last news it was sent, and is sent the newest of
    each topic beyond it. So a client that sleeps costs nothing, and 50 cost one scan.
    """

    def __init__(self, scan: Callable[[], Iterable[News]], *, poll_s: float = POLL_S) -> None:
        self._scan = scan
        self._poll_s = poll_s
        self._boot = secrets.token_hex(4)
        self._number = 0
        self._latest: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._is_closed = False
        self.clients = 0

    @property
    def position(self) -> str:
        """Where a client begins that knows everything up to now."""
        return f"{self._boot}-{self._number}"

    @property
    def is_full(self) -> bool:
        return self.clients >= MOST_CLIENTS

    async def run(self) -> None:
        """Until it is cancelled. An error of `scan` ends all streams: pages then say that they wait."""
        try:
            while True:
                await self._wanted.wait()
                self.publish(await to_thread.run_sync(lambda: list(self._scan())))
                await asyncio.sleep(self._poll_s)
        finally:
            self.close()

    def publish(self, news: Iterable[News]) -> None:
        for item in news:
            self._number += 1
            self._latest[item.topic] = (self._number, item.data)
            self._latest.move_to_end(item.topic)
            while len(self._latest) > _KEPT:
                self._latest.popitem(last=False)
            self._wake()

    def close(self) -> None:
        """End every stream: the server stops."""
        self._is_closed = True
        self._wake()

    def since(self, after: str) -> list[dict[str, str]]:
        """The newest of each topic beyond `after`, at once: for a page that may have missed something."""
        seen = self._seen(after)
        return [{"id": f"{self._boot}-{number}", "data": data} for number, data in self._beyond(seen)]

    async def follow(self, after: str) -> AsyncIterator[bytes]:
        """Server-sent events from beyond `after`, a `position`; from the start where it is none of ours."""
        self.clients += 1
        self._wanted.set()
        try:
            seen = self._seen(after)
            yield f"retry: 2000\nid: {self._boot}-{seen}\nevent: hello\ndata: {self._boot}\n\n".encode()
            while not self._is_closed:
                changed = self._changed  # before looking: what comes meanwhile sets this one
                for number, data in self._beyond(seen):
                    yield f"id: {self._boot}-{number}\nevent: news\ndata: {data}\n\n".encode()
                    seen = number
                try:
                    await asyncio.wait_for(changed.wait(), PING_S)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.clients -= 1
            if not self.clients:
                self._wanted.clear()

    def _beyond(self, seen: int) -> list[tuple[int, str]]:
        return [found for found in self._latest.values() if found[0] > seen]

    def _seen(self, after: str) -> int:
        boot, _, number = after.partition("-")
        is_known = boot == self._boot and number.isascii() and number.isdigit() and len(number) < 16
        return min(int(number), self._number) if is_known else 0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
