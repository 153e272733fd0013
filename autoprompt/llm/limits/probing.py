"""Waiting out an outage: one asks whether the endpoint is back, the others wait for what it hears."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprompt.errors import BudgetExhausted, EndpointError, Interrupted, RequestRefusedError
from autoprompt.llm.client import Client, Options
from autoprompt.llm.limits.budget import Budget
from autoprompt.llm.limits.costs import Asked, Costs, within
from autoprompt.llm.limits.outage import Outage
from autoprompt.llm.limits.rate import Gate
from autoprompt.llm.transport.failures import OwnClientError, UnreachableError, used_by
from autoprompt.records import Message, Usage

_LOOK_EVERY_S = 1.0  # whether an outage is over, while it is waited out


@dataclass(slots=True)
class Probes:
    """What was sent while one request waited, to see whether the endpoint is back."""

    sent: int = 0
    usage: Usage = Usage()


class Prober:
    """Waits with every request until an outage is over, and lets one of them probe. Thread-safe.

    With the request that was answered last, so that a row that no endpoint can answer is not taken for an
    outage.
    """

    def __init__(
        self,
        transport: Client,
        outage: Outage,
        budget: Budget,
        gate: Gate,
        costs: Costs,
        clock: Callable[[], float],
    ) -> None:
        self._transport, self._outage, self._budget = transport, outage, budget
        self._gate, self._costs, self._clock = gate, costs, clock
        self._probing = threading.Lock()  # held by the one that asks
        self._answered_last: tuple[Sequence[Message], Options] | None = None

    def remember(self, messages: Sequence[Message], options: Options) -> None:
        """That the endpoint has answered this one."""
        self._answered_last = messages, options

    def await_endpoint(self, messages: Sequence[Message], options: Options, probes: Probes) -> None:
        """Wait while the endpoint answers nobody; `probes` counts what is sent meanwhile.

        One probes, and the others wait for it; who comes when nobody does is the one, be it after the end.
        Raises EndpointError, `is_fatal`, after a minute of it.
        """
        if not self._outage.is_open:
            return
        has_waited = not self._probing.acquire(blocking=False)
        if has_waited:
            self._probing.acquire()
        try:
            if has_waited and self._outage.is_open:
                self._outage.raise_if_dead()
            while self._outage.is_open:
                self._sleep_until_answered(self._outage.wait_s())
                if self._outage.is_open and not self._probe(messages, options, probes):
                    return
        finally:
            self._probing.release()

    def _sleep_until_answered(self, seconds: float) -> None:
        """A request that was on its way may end the outage meanwhile."""
        until = self._clock() + seconds
        while self._outage.is_open and (left := until - self._clock()) > 0:
            self._gate.sleep(min(left, _LOOK_EVERY_S))

    def _probe(self, messages: Sequence[Message], options: Options, probes: Probes) -> bool:
        """One request to see whether the endpoint is back; its answer is of no further use.

        The one that was answered last, if there is any. False: no cap has room for it, so the request that
        waits tries itself, perhaps out of what was set aside for it.
        """
        messages, options = self._answered_last or (messages, options)
        asked = Asked.of(messages, options)
        with self._gate.slot() as slot:
            try:
                demand = self._costs.demand(asked, self._gate.limit)
                charge = self._budget.charge(options.role, is_retry=True, is_repeat=True, demand=demand)
            except BudgetExhausted:
                return False
            if charge is None:
                return False
            probes.sent += 1
            try:
                self._gate.enter(slot, lambda: self._costs.tokens(asked))
                answer = self._transport.complete(messages, within(charge.limit, options))
            except Interrupted:
                probes.sent -= 1
                self._budget.refund(charge)
                raise
            except UnreachableError as error:
                probes.sent -= 1
                self._budget.refund(charge)
                self._outage.failed(error)
            except RequestRefusedError:  # by one that lives
                self._budget.settle(charge)
                self._outage.end()
            except EndpointError as error:
                self._budget.settle(charge, self._costs.of(used_by(error)))
                if error.is_fatal or isinstance(error, OwnClientError):
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
