"""A run at work, as its log tells it so far: what the live view shows, with nothing half-written in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from autoprompt.errors import Problem, Voice, tell
from autoprompt.report.wording import chosen, confirmation, refused, rung
from autoprompt.runs import RunFolder
from autoprompt.runs.progress import read_progress
from autoprompt.text.names import counted
from autoprompt.web.tail import Tail

_LOG_LINES = 60
_SETTLED_SHOWN = 8
_FINISHED = "finished"
Event = Mapping[str, Any]


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

    def add(self, event: Event) -> None:
        """Take in one event. Raises KeyError, TypeError or ValueError where it lacks what its kind has."""
        kind = str(event["event"])
        time = str(event.get("time", ""))
        self.last_time = time or self.last_time
        take = _TAKES.get(kind)
        text = take(self, event) if take is not None else _told(event)
        if text:
            self.log.appendleft(LogLine(time, kind, text))


def _started(state: LiveState, event: Event) -> str:
    state.model, state.optimizer_model = str(event.get("model", "")), str(event.get("optimizer_model", ""))
    state.sizes, state.caps = dict(event.get("sizes") or {}), dict(event.get("budget") or {})
    state.max_iterations = int(event.get("max_iterations") or 0)
    if event.get("resumed"):
        state.resumes += 1
        return "resumed"
    return f"started with {state.model}" if state.model else "started"


def _node(state: LiveState, event: Event) -> str:
    state.node, state.iteration = str(event["node"]), int(event.get("iteration") or 0)
    return ""


def _proposed(state: LiveState, event: Event) -> str:
    candidate = LiveCandidate(str(event["id"]), str(event["operator"]), state.iteration, str(event["change"]))
    # Proposed again by a resumed run: its race begins anew.
    state.candidates.pop(candidate.id, None)
    state.candidates[candidate.id] = candidate
    return f"{candidate.id[:6]} joins the race ({candidate.operator}): {candidate.change}"


def _refused(state: LiveState, event: Event) -> str:
    state.refused += 1
    state.candidates.pop(str(event.get("id")), None)  # it had joined the race, which it will not run
    return refused(event)


def _settled(state: LiveState, event: Event) -> str:
    known = state.candidates.get(str(event["id"]))
    if known is None:  # the log was cut
        known = LiveCandidate(str(event["id"]), "", state.iteration, "")
        state.candidates[known.id] = known
    known.state = "accepted" if event["accepted"] else "rejected"
    known.score, known.parent_score = float(event["score"]), _number(event.get("parent_score"))
    known.rows, known.p_value = int(event["rows"]), _number(event.get("p_value"))
    state.settled += 1
    against = "" if known.parent_score is None else f" against {known.parent_score:.3f}"
    return f"{known.id[:6]} {known.state}: {known.score:.3f}{against} on {counted(known.rows, 'row')}"


def _best(state: LiveState, event: Event) -> str:
    state.best_id, state.best = str(event["id"]), float(event["score"])
    state.original, state.rows = _number(event.get("original_score")), int(event["rows"])
    return f"best so far: {state.best_id[:6]}, {state.best:.3f} on {counted(state.rows, 'validation row')}"


def _analysis(_: LiveState, event: Event) -> str:
    total = int(event.get("total_count") or 0)
    return f"{event['error_count']} of {counted(total, 'train row')} wrong" if total else ""


def _confirmation(_: LiveState, event: Event) -> str:
    said = "better than the original" if event["confirmed"] else "not better than the original beyond luck"
    return f"the winner {str(event['candidate'])[:6]} is {said}: {confirmation(event)}"


def _run_finished(state: LiveState, event: Event) -> str:
    state.is_finished = True
    result = event.get("result") or {}
    return str(result.get("message") or _FINISHED)


def _told(event: Event) -> str:
    """Of an event that has no line of its own: what it says, if it says anything."""
    if event["event"] == "warning":
        return f"warning: {tell(Problem.from_dict(event), Voice.CLI)}"
    for name in ("message", "text"):
        if event.get(name):
            return f"{event['event']}: {event[name]}"
    return ""


_TAKES: dict[str, Callable[[LiveState, Event], str]] = {
    "run_started": _started,
    "node_started": _node,
    "candidate_proposed": _proposed,
    "candidate_refused": _refused,
    "candidate_settled": _settled,
    "rung_ended": lambda _, event: rung(event),
    "best_changed": _best,
    "analysis": _analysis,
    "winner_chosen": lambda _, event: chosen(event),
    "confirmation": _confirmation,
    "run_finished": _run_finished,
}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


class LiveRun:
    """Follows the files of one run; `look` takes in what is new. Not for several threads at once."""

    def __init__(self, folder: RunFolder) -> None:
        self._events = Tail(folder.events_path)
        self._progress_path = folder.progress_path
        self._progress_mark: tuple[int, int] | None = None
        self.state = LiveState()

    def look(self) -> bool:
        """Whether there was anything new. An event that a later version writes otherwise is passed over."""
        events = self._events.read()
        if self._events.is_restarted:
            self.state, self._progress_mark = LiveState(), None
        for event in events:
            try:
                self.state.add(event)
            except (KeyError, TypeError, ValueError, AttributeError):
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
        return True


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
