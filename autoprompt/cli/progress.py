"""What is known of a running optimization, gathered from its events; what panel and plain lines show."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoprompt.cli.remaining import Remaining, Work
from autoprompt.errors import Problem, Voice, tell
from autoprompt.llm.endpoints import SENDS_TO, sentences
from autoprompt.report.wording import chosen, confirmed, refused, rung
from autoprompt.runs.result import Confirmation
from autoprompt.stats import p_text
from autoprompt.text.names import counted

PHASES = {
    "predict": "measuring candidates",
    "analyze": "reading the errors",
    "rewrite": "writing candidates",
    "memory": "noting what was learned",
    "increment_iteration": "next round",
    "final_predict": "last race, confirmation, sealed test",
}
_RECENT = 6


@dataclass(slots=True)
class Progress:
    """Feed it events with `add`; it keeps the last of each kind.

    best, original: validation scores on the same rows, in [0, 1]; None until there is one.
    """

    clock: Callable[[], float] = time.monotonic
    run_id: str = ""
    run_dir: str = ""
    model: str = ""
    optimizer_model: str = ""
    max_iterations: int = 0
    budget: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    iteration: int = 0
    phase: str = "starting"
    what: str = ""
    done: int = 0
    total: int = 0
    download: tuple[int, int] | None = None
    spent: Mapping[str, Any] = field(default_factory=dict)
    best: float | None = None
    original: float | None = None
    tried: int = 0
    accepted: int = 0
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_RECENT))
    sent_to: list[Mapping[str, Any]] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)  # messages of the warnings that people have seen
    started: float = 0.0
    remaining: Remaining = field(init=False)

    def __post_init__(self) -> None:
        self.started, self.remaining = self.clock(), Remaining(self.clock)

    @property
    def seconds(self) -> float:
        """How long this process has watched the run."""
        return self.clock() - self.started

    @property
    def seconds_left(self) -> float | None:
        """About how long until the run ends, by its own cap on time at the latest."""
        left, most = self.remaining.run_seconds, self.budget.get("max_seconds")
        if left is None or most is None:
            return left
        return min(left, max(0.0, float(most) - self.seconds))

    def add(self, event: Mapping[str, Any]) -> str | None:
        """Take in one event; the line that tells of it, None where it needs none."""
        line = self._line(event)
        if line is not None:
            self.recent.append(line)
        return line

    def _line(self, event: Mapping[str, Any]) -> str | None:
        match event["event"]:
            case kind if kind == SENDS_TO:
                self.sent_to = event["to"]
                return "\n".join(sentences(event))
            case "run_started":
                return self._started(event)
            case "node_started":
                self.phase, self.iteration = event["node"], event["iteration"]
                self.what, self.done, self.total, self.download = "", 0, 0, None
                self.remaining.begin_node(event["node"], event["iteration"])
            case "rows_evaluated":
                calls = event["spent"].get("calls", 0)
                self.remaining.add_row(event["what"], event["done"], event["total"], calls)
                self.what, self.done, self.total = event["what"], event["done"], event["total"]
                self.spent, self.download = event["spent"], None
            case "weights_progress":
                self.what, self.download = event["what"], (event["done_bytes"], event["total_bytes"])
            case "candidate_proposed":
                self.remaining.add_candidate()
                return f"try {event['id'][:6]} ({event['operator']}): {event['change']}"
            case "candidate_refused":
                return refused(event)
            case "rung_ended":
                return rung(event)
            case "candidate_settled":
                return self._settled(event)
            case "best_changed":
                self.best, self.original = event["score"], event["original_score"]
                self.remaining.add_gain(event["score"])
                return (
                    f"best so far: {event['id'][:6]}, {_score(event['score'])} on "
                    f"{counted(event['rows'], 'validation row')} (original {_score(event['original_score'])})"
                )
            case "winner_chosen":
                return chosen(event)
            case "confirmation":
                self.remaining.is_confirmed = bool(event["confirmed"])
                return confirmed(Confirmation.from_dict(event))
            case "analysis":
                if not event["total_count"]:
                    return None
                return f"{event['error_count']} of {counted(event['total_count'], 'train row')} wrong"
            case "experiment":
                first = " ".join(event["observation"].split())[:120]
                return f"analyst's experiment {event['number']}, exit code {event['exit_code']}: {first}"
            case "lesson":
                return f"lesson: {event['text']}"
            case "warning":
                return f"warning: {tell(Problem.from_dict(event), Voice.CLI)}"
            case _:
                return None
        return None

    def _started(self, event: Mapping[str, Any]) -> str:
        for name in ("run_id", "run_dir", "model", "optimizer_model", "max_iterations", "budget", "sizes"):
            setattr(self, name, event[name])
        self.remaining.concurrency, self.remaining.work = event.get("concurrency", 1), Work.of(event)
        sizes = ", ".join(f"{count} {part}" for part, count in self.sizes.items())
        verb = "resumed" if event.get("resumed") else "started"
        return f"run {self.run_id} {verb}: {self.model}; rows: {sizes}"

    def _settled(self, event: Mapping[str, Any]) -> str:
        self.tried += 1
        self.accepted += bool(event["accepted"])
        if not event["rows"]:
            return f"dropped {event['id'][:6]}: the budget ended before it was measured"
        p_value = event.get("p_value")
        chance = "" if p_value is None else f", {p_text(p_value)}"
        verdict = "accepted" if event["accepted"] else "dropped"
        against = _score(event.get("parent_score"))
        refused = (
            f"; {counted(event['refused'], 'request')} refused by the endpoint"
            if event.get("refused")
            else ""
        )
        return (
            f"{verdict} {event['id'][:6]}: {_score(event['score'])} against {against} "
            f"on {counted(event['rows'], 'row')}{chance}{refused}"
        )


def _score(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"
