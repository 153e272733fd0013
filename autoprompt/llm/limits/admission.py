"""When a request may go to an endpoint: places, requests a minute, and outages that all wait out."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

from autoprompt.errors import BudgetExhausted, EndpointError, Interrupted, RequestRefusedError
from autoprompt.llm import portal
from autoprompt.llm.client import CallRole, Client, Options, acomplete_of
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.demand import Asked, Costs
from autoprompt.llm.limits.ledger import Account
from autoprompt.llm.limits.pace import Pace, Sent
from autoprompt.llm.transport.failures import OwnClientError, UnreachableError, used_by
from autoprompt.llm.transport.rates import RatesLeft
from autoprompt.records import Message, Usage

_WINDOW_S = 60.0
_LOOK_AGAIN_S = 0.1
_LONGEST_PAUSE_S = 60.0  # for a rate of which nothing is left; then a request finds out


@dataclass(slots=True, eq=False)
class Slot:
    """One request's place at the endpoint, held in one `async with`.

    may_wait: If false, the request goes out even when no place is free.
    tokens: estimated, and set right when the answer is there; is_open: until then, or until it has failed.
    is_counted: among the tokens and requests of the last minute. sent: when, and how many beside it.
    number: of this request among those of all trials, where they share a rate.
    """

    gate: Gate = field(repr=False)
    may_wait: bool = True
    tokens: int = 0
    is_open: bool = True
    is_counted: bool = False
    number: int | None = None
    sent: Sent = field(default_factory=Sent)

    async def __aenter__(self) -> Self:
        await self.gate.take(self)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.gate.give_back(self)


class Gate:
    """Lets requests through to one endpoint. At work on the loop of `portal`; any thread may close it.

    concurrency: most requests at once. is_auto: begin with few, see `Pace`.
    rpm, tpm: requests and tokens in any 60 seconds, exactly; tokens are estimated until the answer is there,
        and a single request above `tpm` goes alone.
    account: of a trial; `rpm` and `tpm` then hold for all trials of the batch at `endpoint` together.
    wait: sleeps for so many seconds, and says whether the gate was closed meanwhile (for tests).
    seconds_left: until the run's time is over, None if it has all the time: nothing sleeps for longer.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        is_auto: bool = False,
        rpm: int | None = None,
        tpm: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], Awaitable[bool]] | None = None,
        account: Account | None = None,
        endpoint: str = "",
        seconds_left: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._seconds_left = seconds_left
        self._pace = Pace(concurrency, is_auto=is_auto)
        self._paused_until = -math.inf  # on the clock
        self._in_use = 0
        self._rpm, self._tpm = rpm, tpm
        self._clock = clock
        self._closed = threading.Event()
        self._wait = wait
        self._queue: deque[asyncio.Future[None]] = deque()  # requests that wait for a place
        self._sleepers: set[asyncio.Future[None]] = set()
        # Sums over `_sent`, kept: at 20,000 requests a minute, adding up for each request took 425 µs.
        self._sent: deque[Slot] = deque()
        self._tokens, self._open = 0, 0
        self._account, self._endpoint = account, endpoint

    @property
    def concurrency(self) -> int:
        """Most requests at once, as set."""
        return self._pace.most

    @property
    def in_use(self) -> int:
        """Places that are held."""
        return self._in_use

    @property
    def limit(self) -> int:
        """Requests allowed at once just now."""
        return self._pace.limit

    @property
    def settled_on(self) -> int | None:
        """Requests allowed at once at last, with `is_auto`."""
        return self._pace.limit if self._pace.is_auto else None

    def slot(self, *, may_wait: bool = True) -> Slot:
        """Return a place to wait for and to hold in `async with`; `enter` before anything is sent."""
        return Slot(self, may_wait)

    async def take(self, slot: Slot) -> None:
        """Wait for a place, and count it as held.

        Raises:
            Interrupted: When closed.
        """
        is_full = bool(self._queue) or self._in_use >= self._pace.limit
        if is_full and slot.may_wait and not self._closed.is_set():
            await self._await_place()
        else:
            self._in_use += 1
        if self._closed.is_set():
            self.give_back(slot)
            self.check_open()

    def give_back(self, slot: Slot) -> None:
        """Release the place, and let the next request in."""
        self._end(slot, slot.tokens)
        self._in_use -= 1
        self._let_in()

    async def enter(
        self, slot: Slot, tokens: Callable[[], int], check: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until the rates let one more request through, and count it as sent now.

        tokens: what it will take, as far as is known when it is called. check: raises if it is not to be sent
        any more.

        Raises:
            Interrupted: When closed.
        """
        while True:
            slot.tokens = tokens() if self._tpm is not None or self._account is not None else 0
            if (delay := self._enter(slot)) <= 0:
                break
            await self.sleep(delay)
            check()
        self.check_open()

    def check_open(self) -> None:
        """Raise Interrupted if the gate is closed."""
        if self._closed.is_set():
            raise Interrupted("stopped before the request was sent")

    async def sleep(self, seconds: float) -> None:
        """Wait, not longer than the run has time; `close()` ends it. Raises Interrupted then."""
        left = self._seconds_left()
        if left is not None:
            seconds = min(seconds, max(0.0, left))
        if await self._slept(seconds):
            raise Interrupted("stopped while waiting for the endpoint")

    async def _slept(self, seconds: float) -> bool:
        """Return whether the gate was closed meanwhile."""
        if self._wait is not None:
            return await self._wait(seconds)
        end = asyncio.get_running_loop().create_future()
        self._sleepers.add(end)
        try:
            if not self._closed.is_set():
                await asyncio.wait([end], timeout=seconds)
        finally:
            self._sleepers.discard(end)
        return self._closed.is_set()

    def throttled(self, slot: Slot) -> None:
        """Note that the endpoint refused this request as one too many."""
        self._pace.too_many(slot.sent)

    def note_left(self, left: RatesLeft) -> None:
        """Note what the endpoint has left of its rates: no more go out at once, and none before its pause."""
        if left.requests is not None:
            self._pace.at_most(left.requests)
        if left.pause_s > 0:
            self._paused_until = self._clock() + min(left.pause_s, _LONGEST_PAUSE_S)

    def answered(self, slot: Slot, tokens: int, *, is_row: bool = False) -> None:
        """Note that the request was answered and took `tokens`.

        is_row: it takes about as long as others of its kind; a writer's answer may be of any length.
        """
        if self._account is not None and slot.number is not None:
            self._account.ledger.answered(slot.number, tokens)
        self._end(slot, tokens)
        if is_row:
            self._pace.time_row(slot.sent, self._clock() - slot.sent.at_s)
        self._pace.answered(self._in_use)
        self._let_in()

    def close(self) -> None:
        """Let nothing through any more, and end every wait. Safe to call twice."""
        self._closed.set()
        portal.call_later(self._wake_all)

    async def _await_place(self) -> None:
        """Wait for a place in turn. Who gives a place back counts the next one in."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was counted in
                self._in_use -= 1
                self._let_in()
            elif turn in self._queue:  # `_let_in` may have left it out
                self._queue.remove(turn)
            raise

    def _let_in(self) -> None:
        while self._queue and (self._in_use < self._pace.limit or self._closed.is_set()):
            turn = self._queue.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)

    def _wake_all(self) -> None:
        self._let_in()
        for end in self._sleepers:
            if not end.done():
                end.set_result(None)

    def _enter(self, slot: Slot) -> float:
        """0 and counted as sent now, or the seconds until it is worth asking again."""
        slot.sent = Sent(self._clock(), self._pace.round, self._in_use)
        now = slot.sent.at_s
        if now < self._paused_until:
            return self._paused_until - now
        if self._rpm is None and self._tpm is None:
            return 0.0
        if self._account is not None:
            ledger = self._account.ledger
            delay, slot.number = ledger.enter(self._endpoint, slot.tokens, self._rpm, self._tpm)
            return delay
        while self._sent and self._sent[0].sent.at_s <= now - _WINDOW_S:
            self._forget(self._sent.popleft())
        wait_s = self._sent[0].sent.at_s + _WINDOW_S - now + 0.001 if self._sent else 0.0
        if self._rpm is not None and len(self._sent) >= self._rpm:
            return wait_s
        if self._tpm is not None and self._sent and self._tokens + slot.tokens > self._tpm:
            # One without an answer counts by an estimate, which may turn out to be too much.
            return min(wait_s, _LOOK_AGAIN_S) if self._open else wait_s
        slot.is_counted = True
        self._sent.append(slot)
        self._tokens += slot.tokens
        self._open += slot.is_open
        return 0.0

    def _end(self, slot: Slot, tokens: int) -> None:
        """Count what a request took; nothing of it is open any more."""
        if slot.is_counted:
            self._tokens += tokens - slot.tokens
            self._open -= slot.is_open
        slot.tokens, slot.is_open = tokens, False

    def _forget(self, slot: Slot) -> None:
        """Take a request that is older than a minute out of the sums."""
        self._tokens -= slot.tokens
        self._open -= slot.is_open
        slot.is_counted = False


_log = logging.getLogger(__name__)

# As many failures in a row as there are requests at once, within these bounds: then it is the endpoint.
_FEWEST_FAILURES, _MOST_FAILURES = 3, 8
_DEAD_AFTER_S = 60.0
LONGEST_RETRY_AFTER_S = 120.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0
# Of an endpoint that has not answered yet, these say that it is not ready, and not that a row is at fault.
_NOT_READY = (502, 503, 504)


class Outage:
    """A circuit breaker: an endpoint that fails everybody is asked by one, while the others wait.

    Left to themselves, sixteen requests in flight try eight times each, and each attempt counts: of a cap of
    200 calls, 145 went into 20 seconds of HTTP 503, and what they were kept for was never measured. 429 is no
    failure here, but an answer of an endpoint that lives. At work on the loop of `portal`.
    """

    def __init__(self, concurrency: int, clock: Callable[[], float]) -> None:
        self._opens_after = max(_FEWEST_FAILURES, min(_MOST_FAILURES, concurrency))
        self._clock = clock
        self._jitter = random.Random()
        self._answers = 0
        self._failures = 0  # in a row, over all requests
        self._probes = 0  # since the outage began
        self._failing_since = 0.0
        self._asked_until: float | None = None  # by the first Retry-After of the outage
        self._error: EndpointError | None = None

    @property
    def has_succeeded(self) -> bool:
        """Whether the endpoint has ever answered."""
        return self._answers > 0

    @property
    def answers(self) -> int:
        """How many requests it has answered, probes among them."""
        return self._answers

    @property
    def is_open(self) -> bool:
        """Whether everybody fails, of an endpoint that has answered before or says that it is not ready.

        Of one that has done neither, each request decides for itself, within seconds.
        """
        return self._is_known() and self._failures >= self._opens_after

    def answered(self) -> None:
        """Note that the endpoint answered, which ends an outage."""
        self._answers += 1
        self.end()

    def end(self) -> None:
        """Mark the endpoint as alive: it refused a request, or asked for fewer."""
        self._failures, self._probes, self._error, self._asked_until = 0, 0, None, None

    def failed(self, error: EndpointError) -> None:
        """Count a failure. Raises EndpointError, `is_fatal`, where nobody was answered for a minute."""
        if self._failures == 0:
            self._failing_since = self._clock()
        self._failures += 1
        self._error = error
        if self._asked_until is None and error.retry_after_s is not None:
            self._asked_until = self._clock() + min(error.retry_after_s, LONGEST_RETRY_AFTER_S)
        dead = self._dead()
        if dead is not None:
            raise dead from error

    def raise_if_dead(self) -> None:
        """Raise as `failed` did, so that a request that waited for another is not sent."""
        dead = self._dead()
        if dead is not None:
            raise dead

    def wait_s(self) -> float:
        """Seconds until it is asked again: twice as long each time, or until when it asked for."""
        if self._error is None:
            return 0.0
        wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**self._probes) * self._jitter.uniform(0.5, 1.0)
        if self._probes == 0:
            _log.warning("%s. All requests wait until it answers again, up to a minute.", self._error)
        self._probes += 1
        return max(wait_s, (self._asked_until or 0.0) - self._clock())

    def _is_known(self) -> bool:
        return self.has_succeeded or (self._error is not None and self._error.status in _NOT_READY)

    def _dead(self) -> EndpointError | None:
        """Return what to raise where it is gone. Never without a probe: some rows no endpoint can answer."""
        now = self._clock()
        failing_s = now - self._failing_since
        is_seen = self._probes > 0 or not self._is_known()
        fewest = min(_MOST_FAILURES, self._opens_after + 2)
        if not is_seen or self._failures < fewest or failing_s < _DEAD_AFTER_S:
            return None
        if self._asked_until is not None and now < self._asked_until:
            return None
        status = None if self._error is None else self._error.status
        message = f"{self._error}. No answer for {failing_s:.0f} s, {self._failures} failures in a row."
        return EndpointError(message, status=status, is_fatal=True)


PROBE = (Message("user", "Say: ok"),)
_LOOK_EVERY_S = 1.0  # whether an outage is over, while it is waited out


@dataclass(slots=True)
class Probes:
    """What was sent while one request waited, to see whether the endpoint is back."""

    sent: int = 0
    usage: Usage = Usage()


class Prober:
    """Waits with every request until an outage is over, and lets one of them probe.

    A probe asks the model a fixed question for one token, so a row that no endpoint can answer is not taken
    for an outage, and none of the user's rows is kept or sent again for it.

    Args:
        can_probe: Whether the transport answers any question. A client of one's own may know its rows alone:
            then a request that has waited is sent as it is.
    """

    def __init__(
        self,
        transport: Client,
        outage: Outage,
        budget: BudgetMeter,
        gate: Gate,
        costs: Costs,
        clock: Callable[[], float],
        *,
        can_probe: bool = True,
    ) -> None:
        self._ask, self._outage, self._budget = acomplete_of(transport), outage, budget
        self._can_probe = can_probe
        self._gate, self._costs, self._clock = gate, costs, clock
        self._probing = asyncio.Lock()  # held by the one that asks

    async def await_endpoint(self, role: CallRole, probes: Probes) -> None:
        """Wait while the endpoint answers nobody.

        One request probes, and the others wait for it. A request that comes when nobody probes does so, even
        after the end of the outage.

        Args:
            role: Whose budget line pays for the probes.
            probes: Counts what is sent meanwhile.

        Raises:
            EndpointError: If nobody was answered for a minute; it is fatal.
        """
        if not self._outage.is_open:
            return
        has_waited = self._probing.locked()
        async with self._probing:
            if has_waited and self._outage.is_open:
                self._outage.raise_if_dead()
            while self._outage.is_open:
                await self._sleep_until_answered(self._outage.wait_s())
                if self._outage.is_open and not await self._probe(role, probes):
                    return

    async def _sleep_until_answered(self, seconds: float) -> None:
        """Sleep, but wake when a request that was on its way ends the outage."""
        has_s = self._budget.seconds_left()
        until = self._clock() + (seconds if has_s is None else min(seconds, has_s))
        while self._outage.is_open and (left := until - self._clock()) > 0:
            await self._gate.sleep(min(left, _LOOK_EVERY_S))

    async def _probe(self, role: CallRole, probes: Probes) -> bool:
        """Send one request to see whether the endpoint is back; its answer is of no further use.

        Returns:
            False if the transport cannot be probed, or no cap has room for it: then the request that waits
            tries itself, perhaps out of what was set aside for it.
        """
        if not self._can_probe:
            return False
        options = Options(role=role, max_output_tokens=1)
        asked = Asked.of(PROBE, options)
        async with self._gate.slot() as slot:
            try:
                demand = self._costs.demand(asked, self._gate.limit)
                charge = self._budget.charge(role, is_retry=True, is_repeat=True, demand=demand)
            except BudgetExhausted:
                return False
            if charge is None:
                return False
            probes.sent += 1
            try:
                await self._gate.enter(slot, lambda: self._costs.tokens(asked), self._budget.check_seconds)
                answer = await self._ask(PROBE, options)
            except (Interrupted, BudgetExhausted):
                probes.sent -= 1
                self._budget.refund(charge)
                raise
            except UnreachableError as error:
                probes.sent -= 1
                self._budget.refund(charge)
                self._outage.failed(error)
            except (RequestRefusedError, OwnClientError):  # by one that lives
                self._budget.settle(charge)
                self._outage.end()
            except EndpointError as error:
                self._budget.settle(charge, self._costs.of(used_by(error)))
                if error.is_fatal:
                    raise
                if error.status == 429:
                    self._gate.throttled(slot)
                    self._outage.end()
                else:
                    self._outage.failed(error)
            except BaseException:
                self._budget.settle(charge)
                raise
            else:
                usage = self._costs.of(answer.usage)
                probes.usage = probes.usage + usage
                self._budget.settle(charge, usage)
                self._gate.answered(slot, usage.total_tokens)
                self._outage.answered()
        return True
