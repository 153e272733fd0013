"""One look at the files for all who watch: each gets the newest of every run, and nothing queues up."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from anyio import to_thread

from autoprompt.web.library import Entry, RunLibrary
from autoprompt.web.live import LiveRun, LiveState

POLL_S = 0.5
# A line that says nothing shows a proxy and a sleeping laptop that the connection lives.
PING_S = 15.0
# Runs whose last word is kept for a client that comes back.
_KEPT = 256
MOST_CLIENTS = 128
LIST = "list"  # topic: a run came, went, or changed its state
_ENDED = ("finished", "broken")
Draw = Callable[[Entry, LiveState], str]


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
        """Return the newest of each topic beyond `after`, for a page that may have missed something."""
        seen = self._number_of(after)
        return [{"id": f"{self._boot}-{number}", "data": data} for number, data in self._beyond(seen)]

    async def follow(self, after: str) -> AsyncIterator[bytes]:
        """Server-sent events from beyond `after`, a `position`; from the start where it is none of ours."""
        self.clients += 1
        self._wanted.set()
        try:
            seen = self._number_of(after)
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

    def _number_of(self, after: str) -> int:
        boot, _, number = after.partition("-")
        is_known = boot == self._boot and number.isascii() and number.isdigit() and len(number) < 16
        return min(int(number), self._number) if is_known else 0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Watcher:
    """Follows every run that has not ended. draw: the live part of its page, as HTML. For several threads."""

    def __init__(self, library: RunLibrary, draw: Draw) -> None:
        self._library = library
        self._draw = draw
        self._lock = threading.Lock()
        self._runs: dict[str, LiveRun] = {}
        self._statuses: dict[str, str] | None = None
        self._unsaid: set[str] = set()  # runs that a page has read on, which followers have not been told

    def scan(self) -> list[News]:
        with self._lock:
            entries = {entry.key: entry for entry in self._everything()}
            statuses = {key: entry.line.status for key, entry in entries.items()}
            before, self._statuses = self._statuses, dict(statuses)
            news = [News(LIST, json.dumps({"topic": LIST}))] if before not in (None, statuses) else []
            for key, entry in entries.items():
                was = (before or {}).get(key)
                if statuses[key] in _ENDED and was in (None, *_ENDED):
                    continue
                if self._look(key, entry) or statuses[key] != was or key in self._unsaid:
                    news.append(self._news(entry))
            self._unsaid.clear()
            self._forget(statuses)
            return news

    def state(self, entry: Entry) -> LiveState:
        """Return what is known of a run now, for a page that is just asked for. Not to be changed."""
        with self._lock:
            if self._look(entry.key, entry):
                self._unsaid.add(entry.key)
            return self._runs[entry.key].state

    def briefs(self) -> dict[str, str]:
        """Return how far each run is that has not ended, by its key; empty before the first look."""
        with self._lock:
            return {key: run.state.brief for key, run in self._runs.items()}

    def html(self, entry: Entry) -> str:
        """Return the live part of a run's page."""
        with self._lock:
            if self._look(entry.key, entry):
                self._unsaid.add(entry.key)
            return self._draw(entry, self._runs[entry.key].state)

    def _everything(self) -> Iterator[Entry]:
        for entry in self._library.runs():
            yield entry
            if entry.line.kind == "batch":
                yield from self._library.trials(entry)

    def _look(self, key: str, entry: Entry) -> bool:
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = LiveRun(entry.folder)
        # A broken folder may hold links that lead anywhere: none of its files is opened.
        return entry.line.status != "broken" and run.look()

    def _news(self, entry: Entry) -> News:
        state = self._runs[entry.key].state
        data = {
            "topic": entry.key,
            "status": entry.line.status,
            "settled": state.settled,
            "said": state.log[0].text if state.log else "",
            "brief": state.brief,
            "html": self._draw(entry, state),
        }
        return News(entry.key, json.dumps(data))

    def _forget(self, statuses: Mapping[str, str]) -> None:
        for key in [key for key in self._runs if statuses.get(key, "broken") in _ENDED]:
            del self._runs[key]
