"""What is known of a running optimization, gathered from its events; what panel and plain lines show."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoprompt.cli.pace import Pace
from autoprompt.errors import Problem, Voice, tell
from autoprompt.report.wording import chosen, confirmation, refused, rung
from autoprompt.stats import p_text

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
    shown: set[str] = field(default_factory=set)  # messages of the warnings that people have seen
    started: float = 0.0
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.started, self.pace = self.clock(), Pace(self.clock)

    @property
    def seconds(self) -> float:
        """How long this process has watched the run."""
        return self.clock() - self.started

    @property
    def step_seconds_left(self) -> float | None:
        """Until the rows that are being measured now are done."""
        rate = self.pace.rows_per_second
        return (self.total - self.done) / rate if rate and self.total else None

    @property
    def most_seconds_left(self) -> float | None:
        """About how long until the cap on calls is reached; a run may end before.

        This step's rows take as long as they have, with the first ones of prompts; those after it, as usual.
        """
        usual, rate = self.pace.usual_seconds, self.pace.rows_per_second
        cap = self.budget.get("max_calls")
        if not usual or not cap:
            return None
        calls = max(0, int(cap) - int(self.spent.get("calls", 0)))
        step = min(calls, self.total - self.done)
        left = (calls - step) * usual + step * (1 / rate if rate else usual)
        max_seconds = self.budget.get("max_seconds")
        return left if max_seconds is None else min(left, max(0.0, float(max_seconds) - self.seconds))

    def add(self, event: Mapping[str, Any]) -> str | None:
        """Take in one event; the line that tells of it, None where it needs none."""
        line = self._line(event)
        if line is not None:
            self.recent.append(line)
        return line

    def _line(self, event: Mapping[str, Any]) -> str | None:
        match event["event"]:
            case "run_started":
                return self._started(event)
            case "node_started":
                self.phase, self.iteration = event["node"], event["iteration"]
                self.what, self.done, self.total, self.download = "", 0, 0, None
                self.pace.begin_step()
            case "rows_evaluated":
                if event["done"] <= self.done or event["total"] != self.total:
                    self.pace.begin_block()
                self.what, self.done, self.total = event["what"], event["done"], event["total"]
                self.spent, self.download = event["spent"], None
                self.pace.add_row()
            case "weights_progress":
                self.what, self.download = event["what"], (event["done_bytes"], event["total_bytes"])
            case "candidate_proposed":
                return f"try {event['id'][:6]} ({event['operator']}): {event['change']}"
            case "candidate_refused":
                return refused(event)
            case "rung_ended":
                return rung(event)
            case "candidate_settled":
                return self._settled(event)
            case "best_changed":
                self.best, self.original = event["score"], event["original_score"]
                return (
                    f"best so far: {event['id'][:6]}, {_score(event['score'])} on {event['rows']} validation "
                    f"rows (original {_score(event['original_score'])})"
                )
            case "winner_chosen":
                return chosen(event)
            case "confirmation":
                return self._confirmation(event)
            case "analysis":
                if not event["total_count"]:
                    return None
                return f"{event['error_count']} of {event['total_count']} train rows wrong"
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
        self.pace.concurrency = event.get("concurrency", 0)  # an older run has none
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
        refused = f"; {event['refused']} requests refused by the endpoint" if event.get("refused") else ""
        return (
            f"{verdict} {event['id'][:6]}: {_score(event['score'])} against {against} "
            f"on {event['rows']} rows{chance}{refused}"
        )

    def _confirmation(self, event: Mapping[str, Any]) -> str:
        said = (
            "better than the original" if event["confirmed"] else "not better than the original beyond luck"
        )
        return f"winner {event['candidate'][:6]} is {said}: {confirmation(event)}"


def _score(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"


def duration(seconds: float) -> str:
    """`0:07`, `12:30`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def megabytes(count: float) -> str:
    """`358 kB`, `12 MB`, `1.12 GB`."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def money(cost_usd: float | None) -> str:
    if cost_usd is None:
        return "unknown"
    return f"${cost_usd:.2f}" if cost_usd >= 0.1 or cost_usd == 0 else f"${cost_usd:.4f}"
