"""A run at work, as its log tells it so far: what the live view shows, with nothing half-written in it."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Literal

from autoprompt.report.remaining import Remaining
from autoprompt.report.wording import sentence
from autoprompt.runs import RunFolder
from autoprompt.runs.events import (
    AnyEvent,
    BestChanged,
    CandidateProposed,
    CandidateRefused,
    CandidateSettled,
    NodeStarted,
    RowsEvaluated,
    RunFinished,
    RunStarted,
    read_event,
    read_progress,
)

_BLOCK = 1 << 20
# Nothing here writes such a line; a file that does must not fill the memory.
_LONGEST_LINE = 32 << 20
_LOG_LINES = 60
_SETTLED_SHOWN = 8


class Tail:
    """Reads on from where it was. Only the end of a line makes it count, so half a line is never seen.

    A file that was replaced, or cut shorter than what was read, is read from its start again; `is_restarted`
    then tells the reader to forget what it knew. (A resumed run cuts off an unfinished last line, which does
    not count here anyway.)
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._position = 0
        self.is_restarted = False

    @property
    def position(self) -> int:
        """Bytes of whole lines that were read."""
        return self._position

    def read(self) -> list[dict[str, Any]]:
        """Return the objects that were added, in their order; lines that are none are passed over."""
        self.is_restarted = False
        try:
            with open(self._path, "rb", opener=_open_no_link) as stream:
                return self._read_on(stream)
        except OSError:  # not written yet, just removed, another user's: no reason to end the others' news
            return []

    def _read_on(self, stream: IO[bytes]) -> list[dict[str, Any]]:
        status = os.fstat(stream.fileno())
        file = (status.st_dev, status.st_ino)
        if self._file is not None and (file != self._file or status.st_size < self._position):
            self.is_restarted = True
            self._position = 0
        self._file = file
        stream.seek(self._position)
        return list(self._lines(stream.read))

    def _lines(self, read: Callable[[int], bytes]) -> Iterator[dict[str, Any]]:
        rest = b""
        while block := read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._position += len(line) + 1
                if (row := _as_object(line)) is not None:
                    yield row
            if len(rest) > _LONGEST_LINE:
                return


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _as_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # damaged, or made to hurt
        return None
    return value if isinstance(value, dict) else None


@dataclass(slots=True)
class LiveCandidate:
    """A candidate and its race. score, parent_score: on the same `rows` rows; None while it races."""

    id: str
    operator: str
    iteration: int
    change: str
    state: Literal["racing", "accepted", "rejected"] = "racing"
    score: float | None = None
    parent_score: float | None = None
    rows: int = 0
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """time: UTC, ISO 8601. kind: of the event; what it is about decides how it is shown. text: as written."""

    time: str
    kind: str
    text: str


@dataclass(slots=True)
class LiveState:
    """All that is known; the newest log line first. spent: the counters of the budget, at first {}."""

    node: str = ""
    iteration: int = 0
    max_iterations: int = 0
    model: str = ""
    optimizer_model: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    caps: Mapping[str, Any] = field(default_factory=dict)
    what: str = ""
    done: int = 0
    total: int = 0
    spent: Mapping[str, Any] = field(default_factory=dict)
    best_id: str = ""
    best: float | None = None
    original: float | None = None
    rows: int = 0
    candidates: dict[str, LiveCandidate] = field(default_factory=dict)
    refused: int = 0
    resumes: int = 0
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=_LOG_LINES))
    settled: int = 0
    last_time: str = ""
    is_finished: bool = False
    now: float = 0.0  # Unix time of what was added last
    remaining: Remaining = field(init=False)

    def __post_init__(self) -> None:
        self.remaining = Remaining(lambda: self.now)

    @property
    def seconds_left(self) -> float | None:
        """About how long until the run ends; None until it is known how long a row takes."""
        seconds = self.spent.get("seconds")
        return self.remaining.seconds_left(seconds if isinstance(seconds, int | float) else 0.0)

    @property
    def racing(self) -> list[LiveCandidate]:
        return [candidate for candidate in self.candidates.values() if candidate.state == "racing"]

    @property
    def brief(self) -> str:
        """How far it is, in a few words for a line of the list."""
        rounds = f"round {self.iteration} of {self.max_iterations}" if self.max_iterations else ""
        best = "" if self.best is None else f"best so far {self.best:.3f}"
        return ", ".join(filter(None, (rounds, best)))

    @property
    def last_settled(self) -> list[LiveCandidate]:
        """The newest first; the best so far is always among them."""
        settled = [c for c in reversed(self.candidates.values()) if c.state != "racing"]
        best = [c for c in settled[_SETTLED_SHOWN:] if c.id == self.best_id]
        return settled[:_SETTLED_SHOWN] + best

    @property
    def tried(self) -> int:
        return sum(candidate.state != "racing" for candidate in self.candidates.values())

    @property
    def accepted(self) -> int:
        return sum(candidate.state == "accepted" for candidate in self.candidates.values())

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event.

        Raises:
            ValueError: If it lacks what its kind has.
        """
        kind, time = str(event.get("event")), str(event.get("time", ""))
        found = read_event(event)
        self.last_time = time or self.last_time
        self.now = max(self.now, _unix_time(time))
        if found is not None:
            self._note(found)
            self.remaining.note(found)
        if text := _unknown_event(event) if found is None else sentence(found):
            self.log.appendleft(LogLine(time, kind, text))

    def _note(self, event: AnyEvent) -> None:
        match event:
            case RunStarted():
                self.model, self.optimizer_model = event.model, event.optimizer_model
                self.sizes, self.caps, self.max_iterations = event.sizes, event.budget, event.max_iterations
                self.resumes += event.resumed
                self.remaining = Remaining(lambda: self.now)  # no work was done since it was interrupted
            case NodeStarted():
                self.node, self.iteration = event.node, event.iteration
            case CandidateProposed():
                # Proposed again by a resumed run: its race begins anew.
                self.candidates.pop(event.id, None)
                self.candidates[event.id] = LiveCandidate(
                    event.id, event.operator, self.iteration, event.change
                )
            case CandidateRefused():
                self.refused += 1
                self.candidates.pop(event.id, None)  # it had joined the race, which it will not run
            case CandidateSettled():
                self._settle(event)
            case BestChanged():
                self.best_id, self.best = event.id, event.score
                self.original, self.rows = event.original_score, event.rows
            case RunFinished():
                self.is_finished = True

    def _settle(self, event: CandidateSettled) -> None:
        known = self.candidates.get(event.id)
        if known is None:  # the log was cut
            known = self.candidates[event.id] = LiveCandidate(event.id, "", self.iteration, "")
        known.state = "accepted" if event.accepted else "rejected"
        known.score, known.parent_score = event.score, event.parent_score
        known.rows, known.p_value = event.rows, event.p_value
        self.settled += 1


def _unix_time(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _unknown_event(event: Mapping[str, Any]) -> str:
    """Of an event of a kind that is not known here: what it says, if it says anything."""
    said = next((event[name] for name in ("message", "text") if event.get(name)), "")
    return f"{event.get('event')}: {said}" if said else ""


class LiveRun:
    """Follows the files of one run; `look` takes in what is new. Not for several threads at once."""

    def __init__(self, folder: RunFolder) -> None:
        self._events = Tail(folder.events_path)
        self._progress_path = folder.progress_path
        self._progress_mark: tuple[int, int] | None = None
        self.state = LiveState()

    def look(self) -> bool:
        """Return whether there was anything new.

        An event that a later version writes otherwise is passed over.
        """
        events = self._events.read()
        if self._events.is_restarted:
            self.state, self._progress_mark = LiveState(), None
        for event in events:
            try:
                self.state.add(event)
            except ValueError:
                continue
        return self._read_progress() or bool(events)

    def _read_progress(self) -> bool:
        try:
            status = self._progress_path.stat()
            mark = (status.st_mtime_ns, status.st_ino)
            if mark == self._progress_mark:
                return False
        except OSError:  # there is none yet
            return False
        progress = read_progress(self._progress_path)
        if not progress:  # not whole
            return False
        self._progress_mark = mark
        state, spent = self.state, progress.get("spent")
        state.what = str(progress.get("what") or "")
        state.done, state.total = _count(progress.get("done")), _count(progress.get("total"))
        state.spent = spent if isinstance(spent, dict) else {}
        state.now = max(state.now, status.st_mtime)
        calls = {"calls": _count(state.spent.get("calls"))}
        state.remaining.note(RowsEvaluated(state.what, state.done, state.total, calls))
        return True


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
