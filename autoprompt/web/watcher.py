"""What has changed among the runs since the last look: the one reader behind all that follow."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping

from autoprompt.web.hub import News
from autoprompt.web.library import Entry, RunLibrary
from autoprompt.web.live import LiveRun, LiveState

LIST = "list"  # topic: a run came, went, or changed its state
_ENDED = ("finished", "broken")
Draw = Callable[[Entry, LiveState], str]


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
        """What is known of a run now, for a page that is just asked for. Not to be changed."""
        with self._lock:
            if self._look(entry.key, entry):
                self._unsaid.add(entry.key)
            return self._runs[entry.key].state

    def briefs(self) -> dict[str, str]:
        """How far each run is that has not ended, by its key; empty before the first look."""
        with self._lock:
            return {key: run.state.brief for key, run in self._runs.items()}

    def html(self, entry: Entry) -> str:
        """The live part of a run's page."""
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
