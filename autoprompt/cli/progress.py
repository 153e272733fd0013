"""What is known of a running optimization, gathered from its events; what panel and plain lines show."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

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
# The rate is that of the last rows, since a new prompt can change it.
_RATE_ROWS = 40
# One by one, the slowest of so many requests is a prompt's first: a model reads its demonstrations once, and
# that takes as long as 60 rows behind them. What is left holds few of these, so they say nothing of it.
_ONE_FIRST_IN = 12


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
    concurrency: int = 0
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
    told: set[str] = field(default_factory=set)  # warnings that were shown
    started: float = 0.0
    _last_rate: float | None = None
    _last_pace: float | None = None
    _block_start: float = 0.0
    _row_times: deque[float] = field(default_factory=lambda: deque(maxlen=_RATE_ROWS))

    def __post_init__(self) -> None:
        self.started = self._block_start = self.clock()

    @property
    def seconds(self) -> float:
        """How long this process has watched the run."""
        return self.clock() - self.started

    @property
    def rows_per_second(self) -> float | None:
        """Of the last rows of this step, else of the step before; None before there are two."""
        if len(self._row_times) < 2:
            return self._last_rate
        if self.concurrency > 1 and len(self._row_times) < _RATE_ROWS:
            # Answers come by as many as are asked at once: what the first of them took counts, too.
            elapsed = self._row_times[-1] - self._block_start
            return len(self._row_times) / elapsed if elapsed > 0 else self._last_rate
        elapsed = self._row_times[-1] - self._row_times[0]
        return (len(self._row_times) - 1) / elapsed if elapsed > 0 else self._last_rate

    @property
    def _pace(self) -> float | None:
        """Seconds of a usual row: the inverse of the rate; one by one, without the first ones of prompts."""
        if self.concurrency != 1:
            return 1 / rate if (rate := self.rows_per_second) else None
        if len(self._row_times) < 2:
            return self._last_pace
        taken = sorted(later - earlier for earlier, later in pairwise(self._row_times))
        usual = taken[: len(taken) - len(taken) // _ONE_FIRST_IN]
        return sum(usual) / len(usual) or None

    @property
    def step_seconds_left(self) -> float | None:
        """Until the rows that are being measured now are done."""
        rate = self.rows_per_second
        return (self.total - self.done) / rate if rate and self.total else None

    @property
    def most_seconds_left(self) -> float | None:
        """About how long until the cap on calls is reached; a run may end before.

        This step's rows take as long as they have, with the first ones of prompts; those after it, as usual.
        """
        pace, cap = self._pace, self.budget.get("max_calls")
        if not pace or not cap:
            return None
        calls = max(0, int(cap) - int(self.spent.get("calls", 0)))
        step = min(calls, self.total - self.done)
        left = (calls - step) * pace + step * (1 / self.rows_per_second if self.rows_per_second else pace)
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
                self._block_start = self.clock()
            case "rows_evaluated":
                if event["done"] <= self.done or event["total"] != self.total:
                    # Another block: the time that writing took in between is not the rows'.
                    self._last_pace, self._last_rate = self._pace, self.rows_per_second
                    self._block_start = max([self._block_start, *self._row_times])
                    self._row_times.clear()
                self.what, self.done, self.total = event["what"], event["done"], event["total"]
                self.spent, self.download = event["spent"], None
                self._row_times.append(self.clock())
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
                return f"warning: {event['message']}"
            case _:
                return None
        return None

    def _started(self, event: Mapping[str, Any]) -> str:
        for name in ("run_id", "run_dir", "model", "optimizer_model", "max_iterations", "budget", "sizes"):
            setattr(self, name, event[name])
        self.concurrency = event.get("concurrency", 0)  # an older run has none
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
