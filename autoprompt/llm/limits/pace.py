"""How many requests an endpoint gets at once: as many as it takes without making them wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoprompt.records import record

FIRST_AT_ONCE = 8
"""What `concurrency: auto` begins with."""

_FEWEST_TIMED = 16  # rows that are compared, or one round of them: single rows differ too much
_MUCH_SLOWER = 2.0
# Per answer, up to this share of the limit that was too many; above, one per round. Of an endpoint that takes
# 20 at once, 6% of 2,000 requests are refused then; if it grows fast at all times, 67% are.
_FAST, _FAST_UP_TO = 0.5, 0.8


@record
class Sent:
    """When a request was sent. at_once: requests on their way then, this one included."""

    at_s: float = 0.0
    round: int = 0
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class _Slow:
    """Rows for which the limit was halved. limit, fast_up_to: before that."""

    seconds: float
    at_once: int
    limit: float
    fast_up_to: float


class Pace:
    """The limit on requests at once; as TCP finds out what a line takes.

    It grows by half with each round of answers, if they have used it up. "Too many requests" halves it, once
    for all that were on the way together. Then it grows fast nearly up to where it was, from there by one.

    Args:
        most: The largest limit, and the first one.
        is_auto: Begin with few instead, and halve if rows take much longer, too, because they wait in a queue
            at the endpoint.
    """

    def __init__(self, most: int, *, is_auto: bool = False) -> None:
        self.most = most
        self.is_auto = is_auto and most > FIRST_AT_ONCE
        self.round = 0  # halvings so far
        self._limit = float(FIRST_AT_ONCE if self.is_auto else most)
        self._fast_up_to = math.inf
        self._left = most  # of the endpoint's rate, as it last said; answers since then count as room again
        self._timed: list[tuple[float, int]] = []  # rows of this round: seconds, and how many were at once
        self._usual_s = math.inf
        self._fine_at_once = FIRST_AT_ONCE  # with so many, no row has waited
        self._slow: _Slow | None = None

    @property
    def limit(self) -> int:
        """Requests allowed at once just now."""
        return max(1, min(int(self._limit), self._left))

    def too_many(self, sent: Sent) -> None:
        """Note that the endpoint refused this request as one too many."""
        if sent.round == self.round:
            self._slow = None
            self._reduce(max(1.0, self._limit / 2))

    def at_most(self, requests: int) -> None:
        """Note that the endpoint has no more than these requests left of its rate."""
        self._left = requests

    def answered(self, at_once: int) -> None:
        """Note an answer. at_once: requests on their way, this one included; unused places prove nothing."""
        self._left += 1
        is_trying = self._slow is not None  # whether fewer are faster
        if not is_trying and self._limit < self.most and self._limit <= 2 * at_once:
            more = _FAST if self._limit < self._fast_up_to else 1 / self._limit
            self._limit = min(float(self.most), self._limit + more)

    def time_row(self, sent: Sent, seconds: float) -> None:
        """Note how long a row took; halve the limit if rows take much longer than usual because they wait.

        They may also take longer because their prompts are longer, or make the model think. Then half as many
        at once take as long, and the limit gets its place back.
        """
        if not self.is_auto or sent.round != self.round:
            return
        self._timed.append((seconds, sent.at_once))
        if len(self._timed) < max(_FEWEST_TIMED, self._limit):
            return
        seconds, at_once = sorted(self._timed)[len(self._timed) // 4]
        self._timed.clear()
        slow, self._slow = self._slow, None
        if slow is not None and seconds > slow.seconds * math.sqrt(at_once / slow.at_once):
            self._usual_s, self._fast_up_to = seconds, slow.fast_up_to
            self._limit = max(self._limit, slow.limit)
        elif seconds > _MUCH_SLOWER * self._usual_s and at_once > self._fine_at_once:
            self._slow = _Slow(seconds, at_once, self._limit, self._fast_up_to)
            self._reduce(max(float(FIRST_AT_ONCE), min(self._limit, at_once) / 2))
        else:
            self._usual_s = min(self._usual_s, seconds)
            self._fine_at_once = max(self._fine_at_once, at_once)

    def _reduce(self, limit: float) -> None:
        self._fast_up_to, self._limit = _FAST_UP_TO * self._limit, limit
        self.round += 1
        self._timed.clear()
