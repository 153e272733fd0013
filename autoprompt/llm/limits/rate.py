"""How many requests may be at an endpoint at once, and how many in a minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autoprompt.errors import Interrupted
from autoprompt.llm.limits.ledger import Account

_WINDOW_S = 60.0
_LOOK_AGAIN_S = 0.1


@dataclass(slots=True, eq=False)
class Slot:
    """One request's place at the endpoint.

    tokens: estimated, and set right when the answer is there; is_open: until then, or until it has failed.
    number: of this request among those of all trials, where they share a rate.
    """

    tokens: int = 0
    is_open: bool = True
    number: int | None = None
    sent_at: float = 0.0
    round: int = 0


class Gate:
    """Lets requests through to one endpoint. Thread-safe.

    concurrency: most requests at once. "Too many requests" halves it, once for all that were on the way
        together; every answer brings it back by a little, as TCP does (additive increase, multiplicative
        decrease).
    rpm, tpm: requests and tokens in any 60 seconds, exactly; tokens are estimated until the answer is there,
        and a single request above `tpm` goes alone.
    account: of a trial; `rpm` and `tpm` then hold for all trials of the batch at `endpoint` together.
    wait: sleeps for so many seconds, and says whether the gate was closed meanwhile (for tests).
    """

    def __init__(
        self,
        concurrency: int,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
        account: Account | None = None,
        endpoint: str = "",
    ) -> None:
        self._most = concurrency
        self._limit = float(concurrency)
        self._round = 0
        self._in_use = 0
        self._rpm, self._tpm = rpm, tpm
        self._clock = clock
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._sent: deque[Slot] = deque()
        self._account, self._endpoint = account, endpoint

    @property
    def concurrency(self) -> int:
        """Most requests at once, as set."""
        return self._most

    @property
    def limit(self) -> int:
        """Requests allowed at once just now."""
        with self._changed:
            return int(self._limit)

    @contextmanager
    def slot(self) -> Iterator[Slot]:
        """Wait for a place and hold it; `enter` before anything is sent. Raises Interrupted when closed."""
        with self._changed:
            while self._in_use >= int(self._limit) and not self._closed.is_set():
                self._changed.wait()
            self._in_use += 1
        slot = Slot()
        try:
            self.check_open()
            yield slot
        finally:
            with self._changed:
                slot.is_open = False
                self._in_use -= 1
                self._changed.notify()

    def enter(self, slot: Slot, tokens: Callable[[], int]) -> None:
        """Wait until the rates let one more request through, and count it as sent now.

        tokens: what it will take, as far as is known when it is called. Raises Interrupted when closed.
        """
        slot.tokens = tokens()
        while (delay := self._enter(slot)) > 0:
            self.sleep(delay)
            slot.tokens = tokens()
        self.check_open()

    def check_open(self) -> None:
        """Raises Interrupted when the gate is closed."""
        if self._closed.is_set():
            raise Interrupted("stopped before the request was sent")

    def sleep(self, seconds: float) -> None:
        """Wait; `close()` ends it. Raises Interrupted then."""
        if self._wait(seconds):
            raise Interrupted("stopped while waiting for the endpoint")

    def throttled(self, slot: Slot) -> None:
        """The endpoint said that this request was one too many."""
        with self._changed:
            if slot.round == self._round:
                self._round += 1
                self._limit = max(1.0, self._limit / 2)

    def answered(self, slot: Slot, tokens: int) -> None:
        """The request was answered and took `tokens`."""
        if self._account is not None and slot.number is not None:
            self._account.ledger.answered(slot.number, tokens)
        with self._changed:
            slot.tokens, slot.is_open = tokens, False
            if self._limit < self._most:
                self._limit = min(float(self._most), self._limit + max(0.5, 1 / self._limit))
                self._changed.notify()

    def close(self) -> None:
        """Let nothing through any more, and end every wait. Safe to call twice."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    def _enter(self, slot: Slot) -> float:
        """0 and counted as sent now, or the seconds until it is worth asking again."""
        if self._account is not None and (self._rpm is not None or self._tpm is not None):
            slot.round = self._round
            ledger = self._account.ledger
            delay, slot.number = ledger.enter(self._endpoint, slot.tokens, self._rpm, self._tpm)
            return delay
        with self._changed:
            now = self._clock()
            slot.round = self._round
            if self._rpm is None and self._tpm is None:
                return 0.0
            while self._sent and self._sent[0].sent_at <= now - _WINDOW_S:
                self._sent.popleft()
            wait_s = self._sent[0].sent_at + _WINDOW_S - now + 0.001 if self._sent else 0.0
            if self._rpm is not None and len(self._sent) >= self._rpm:
                return wait_s
            used = sum(other.tokens for other in self._sent)
            if self._tpm is not None and self._sent and used + slot.tokens > self._tpm:
                # One without an answer counts by an estimate, which may turn out to be too much.
                is_open = any(other.is_open for other in self._sent)
                return min(wait_s, _LOOK_AGAIN_S) if is_open else wait_s
            slot.sent_at = now
            self._sent.append(slot)
            return 0.0
