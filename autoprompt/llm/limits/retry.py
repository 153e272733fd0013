"""Sending a request until it is answered: budget before each attempt, waiting after each failure."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from autoprompt.errors import (
    BudgetExhausted,
    EndpointError,
    ModelError,
    Problem,
    RequestRefusedError,
)
from autoprompt.llm import portal
from autoprompt.llm.client import (
    CUT,
    FILTERED,
    REFUSAL,
    Client,
    Completion,
    Options,
    acomplete_of,
    own_acomplete,
)
from autoprompt.llm.limits.admission import LONGEST_RETRY_AFTER_S, Gate, Outage, Prober, Probes, Slot
from autoprompt.llm.limits.amounts import Charge
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.demand import Asked, Costs, within
from autoprompt.llm.limits.fitting import Fitting, Request, as_cut
from autoprompt.llm.prices import FREE, Price, Reported
from autoprompt.llm.traits import LearnedTraits
from autoprompt.llm.transport.failures import (
    BrokenAnswerError,
    OwnClientError,
    TimedOutError,
    UnreachableError,
    never_reached,
    used_by,
)
from autoprompt.llm.transport.rates import RatesLeft
from autoprompt.llm.transport.wire import Parameters
from autoprompt.records import Message, Usage
from autoprompt.text.names import counted

_log = logging.getLogger(__name__)

_MOST_ATTEMPTS = 8  # for 429, 5xx and broken connections; the waits between them add up to about a minute
_MOST_TIMEOUTS = 3  # each of them has cost `timeout` seconds already
_ASKED_IN_VAIN = (CUT, FILTERED, REFUSAL)  # why an answer is empty: it would be so again
_MOST_BROKEN = 3  # empty answers and answers that are not one: two retries, then the row is unparsed
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_LOOK_EVERY_S = 0.2  # whether others have given back what a request waits for
_SILENT_WAIT_S = 10.0  # a longer wait after "too many requests" causes one warning

# "Without an endpoint: exit 4 within 30 s": a server that has never answered gets this long to start.
_NEVER_REACHED_S, _NEVER_REACHED = 6.0, 5
_MOST_UNREACHED = 12


@dataclass(slots=True)
class _Tries:
    """What has become of one request so far."""

    begun: float
    attempts: int = 0  # requests sent
    max_attempts: int | None = None  # the caller's wish
    unreached: int = 0  # times that no connection came about
    timeouts: int = 0
    broken: int = 0
    answered_before: int | None = None  # answers to all requests, at the first broken one to this
    usage: Usage = Usage()
    probes: Probes = field(default_factory=Probes)  # sent while it waited
    empty: Completion | None = None  # the model's own, to be taken if no better one comes
    error: ModelError | None = None
    wait_s: float = 0.0  # before the next attempt
    is_throttled: bool = False
    cut: Completion | None = None  # an answer that was to get more room than `cut_at`
    cut_at: int = 0
    is_whole: bool = False  # an answer was cut by a limit below the one asked for: no such limit again

    @property
    def sent(self) -> int:
        """Requests that were sent for it and counted."""
        return self.attempts + self.probes.sent

    @property
    def used(self) -> Usage:
        return self.usage + self.probes.usage

    @property
    def is_over(self) -> bool:
        """Whether the caller wants no more attempts."""
        return self.max_attempts is not None and self.attempts + self.unreached >= self.max_attempts


class LimitedClient:
    """A client that pays for every attempt, keeps the rates, and retries what may succeed later.

    Where everybody fails, one asks whether the endpoint is back, and the others wait (`Outage`, `Prober`).

    parameters: the transport's, to drop what the endpoint refuses; None for one that sends no parameters.
    traits: what is known of the model; None: nothing, and nobody keeps what is learned.
    find_address: see `Fitting`.
    price: of the model, None where unknown; `REPORTED` where the transport says what an answer cost.
    owns_transport: whether `close()` closes it too.
    Raises, besides the errors that are not retried: EndpointError for a request that failed for good (its
    row), `is_fatal` when the endpoint is gone (the run); BudgetExhausted before a first attempt that a cap
    forbids; Interrupted after `close()`.
    """

    def __init__(
        self,
        transport: Client,
        *,
        budget: BudgetMeter,
        gate: Gate,
        parameters: Parameters | None = None,
        price: Price | Reported | None = FREE,
        traits: LearnedTraits | None = None,
        find_address: Callable[[], str] = lambda: "",
        owns_transport: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport, self._budget, self._gate = transport, budget, gate
        self._parameters, self._clock = parameters, clock
        self._costs = Costs(price)
        traits = traits if traits is not None else LearnedTraits()
        self._fitting = Fitting(traits, parameters, find_address)
        self._owns_transport = owns_transport
        self._jitter = random.Random()
        self._outage = Outage(gate.concurrency, clock)
        self._ask, self._has_told = acomplete_of(transport), False
        # Only our own transport sees the headers of an answer.
        self._take_rates_left: Callable[[], RatesLeft | None] = getattr(
            transport, "take_rates_left", lambda: None
        )
        self._prober = Prober(
            transport, self._outage, budget, gate, self._costs, clock, can_probe=owns_transport
        )

    @property
    def name(self) -> str:
        return self._transport.name

    @property
    def dropped_parameters(self) -> tuple[str, ...]:
        """Parameters that the endpoint refused, and that are sent no more."""
        dropped = self._parameters.dropped if self._parameters is not None else ()
        return tuple(name for name in dropped if name not in self._fitting.never_sent)

    @property
    def usage_warnings(self) -> list[Problem]:
        """Which figures the endpoint reported that cannot be right, or did not report."""
        reads = self._transport if self._parameters is None else self._parameters
        reader = getattr(reads, "usage", None)
        found = list(reader.warnings) if reader is not None else []
        if (usd := self._costs.rejected_usd) is not None:
            said = (
                f"{self.name} reports a cost of ${usd:.4g} for one answer, more than ten times the "
                "price of its tokens: autoprompt computes such a cost from the price"
            )
            found.append(Problem("model.wrong-usage", said))
        return found

    def priced(self, usage: Usage) -> Usage:
        """Return what it would cost now, as a cached answer may be of a time with another price."""
        return self._costs.of(usage)

    @property
    def settled_on(self) -> int | None:
        """See `Gate.settled_on`."""
        return self._gate.settled_on

    @property
    def traits(self) -> LearnedTraits:
        """What is known of the model by now."""
        return self._fitting.traits

    @property
    def is_async(self) -> bool:
        """Whether a request on its way needs no thread."""
        return own_acomplete(self._transport) is not None

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """Return one answer, with the attempts that it took and all that they used."""
        return portal.run(self.acomplete(messages, options))

    async def acomplete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """Answer as `complete` does, on the loop of `portal`."""
        async with self._fitting.turn(options):
            tries = _Tries(self._clock(), max_attempts=options.max_attempts)
            asked = Asked.of(messages, options)
            request = Request(messages, options, asked.estimate)
            try:
                answer = None
                while answer is None:
                    await self._prober.await_endpoint(options.role, tries.probes)
                    async with self._gate.slot(may_wait=not options.blocks_loop) as slot:
                        try:
                            answer = await self._attempt(request, asked, tries, slot)
                        finally:  # after an answer has let more in: these headers know better
                            if (left := self._take_rates_left()) is not None:
                                self._gate.note_left(left)
                        if tries.is_throttled:  # a place that waits is one request less at the endpoint
                            await self._gate.sleep(tries.wait_s)
                    if answer is None and not tries.is_throttled and not self._outage.is_open:
                        await self._gate.sleep(tries.wait_s)
            except ModelError as error:
                error.attempts, error.usage = tries.sent, tries.used.to_record()
                answer = tries.empty or tries.cut
                if answer is None or not isinstance(error, EndpointError) or error.is_fatal:
                    raise
            if answer.usage is tries.used and answer.attempts == tries.sent:
                return answer
            return replace(answer, usage=tries.used, attempts=tries.sent)

    async def wait(self, seconds: float) -> None:
        """Wait, and raise Interrupted if the client is closed meanwhile."""
        await self._gate.sleep(seconds)

    def close(self) -> None:
        """End every wait with Interrupted, and close the connections. Nothing is sent from then on."""
        self._gate.close()
        if self._owns_transport:
            self._transport.close()

    async def _attempt(self, request: Request, asked: Asked, tries: _Tries, slot: Slot) -> Completion | None:
        """Return one attempt; None: to be tried again after `tries.wait_s`."""
        messages, options = request.messages, request.options
        tries.wait_s, tries.is_throttled = 0.0, False
        wanted = self._fitting.wanted(request)
        if tries.cut is not None and (wanted.max_output_tokens or 0) <= tries.cut_at:
            return tries.cut  # there is no more room than it had
        if asked.limit != wanted.max_output_tokens:
            asked = Asked(asked.estimate, asked.kind, wanted.max_output_tokens)
        charge = await self._charged(options, asked, tries, slot)
        tries.attempts += 1
        sent = within(charge.limit, wanted)
        try:
            answer = await self._ask(messages, sent)
        except RequestRefusedError as error:
            self._budget.settle(charge)
            await self._refused(error, sent, request)
            tries.error = error
            return None
        except UnreachableError as error:
            self._budget.refund(charge)
            tries.attempts -= 1
            tries.unreached += 1
            return await self._failed(error, tries, slot)
        except EndpointError as error:
            used = self._costs.of(used_by(error))
            tries.usage = tries.usage + used
            self._budget.settle(charge, used)
            return await self._failed(error, tries, slot)
        except BaseException:
            self._budget.settle(charge)
            raise
        self._fitting.was_taken(sent, wanted, request)
        answer = as_cut(answer, sent.max_output_tokens)
        usage = self._costs.of(answer.usage)
        # Before the charge is settled: who waits for that goes by what is known then.
        self._costs.note(asked, usage, sent.max_output_tokens)
        self._budget.settle(charge, usage)
        tries.usage = tries.usage + usage
        self._gate.answered(slot, usage.total_tokens, is_row=options.role == "task")
        self._outage.answered()
        if sent is not wanted and answer.is_cut:
            tries.is_whole = True
            tries.error = EndpointError(
                f"the answer was cut at {counted(sent.max_output_tokens or 0, 'token')}"
            )
            return None
        if self._fitting.is_enough(answer, wanted, options):
            return self._answered(answer, tries)
        # Also for who tries again himself: he does so after failures, and this he takes for an answer.
        tries.cut, tries.cut_at = answer, wanted.max_output_tokens or 0
        return None

    async def _refused(self, error: RequestRefusedError, sent: Options, request: Request) -> None:
        """Learn from a refusal what to send instead. Raises it if there is nothing to learn."""
        if error.status in (404, 405) and not self._outage.has_succeeded:
            await self._fitting.raise_if_elsewhere(error)
            fix = "Check {model} and {base_url}. Most addresses end in /v1."
            settings = {"model": None, "base_url": None}
            problem = Problem("endpoint.wrong-address", str(error), fix=fix, settings=settings)
            raise EndpointError(problem, status=error.status, is_fatal=True) from error
        if not self._fitting.learns_from(error, sent, request):
            raise error

    async def _charged(self, options: Options, asked: Asked, tries: _Tries, slot: Slot) -> Charge:
        """Pay for one attempt, once there is room for it and its turn has come.

        Raises BudgetExhausted before the first attempt and EndpointError before another one, and Interrupted
        when the client is closed.
        """
        try:
            return await self._charge(options, asked, tries, slot)
        except BudgetExhausted as error:
            if tries.attempts == 0:
                raise
            said = f"{tries.error}; the budget has no call left for a retry ({error.cap})"
            raise EndpointError(said) from error

    async def _charge(self, options: Options, asked: Asked, tries: _Tries, slot: Slot) -> Charge:
        while True:
            demand = None
            if self._budget.caps_amounts:
                demand = self._costs.demand(asked, self._gate.limit, is_whole=tries.is_whole)
                if options.blocks_loop:
                    demand = replace(demand, may_wait=False)
            charge = self._budget.charge(
                options.role, is_retry=options.is_retry, is_repeat=tries.attempts > 0, demand=demand
            )
            if charge is not None:
                break
            await self._budget.await_end(_LOOK_EVERY_S)
            self._gate.check_open()
        try:
            await self._gate.enter(slot, partial(self._costs.tokens, asked), self._budget.check_seconds)
        except BaseException:
            self._budget.refund(charge)
            raise
        return charge

    def _answered(self, answer: Completion, tries: _Tries) -> Completion | None:
        """Return the answer, unless it is empty and may be another one the next time."""
        if not answer.is_empty or answer.finish_reason in _ASKED_IN_VAIN:
            return answer
        tries.empty = answer
        tries.broken += 1
        return answer if tries.broken >= _MOST_BROKEN or tries.is_over else None

    async def _failed(self, error: EndpointError, tries: _Tries, slot: Slot) -> Completion | None:
        """Set the wait for the next attempt, or settle for what there is, or raise."""
        tries.error = error
        if error.is_fatal or isinstance(error, OwnClientError):
            raise error
        if error.status is None and not isinstance(error, TimedOutError) and not self._outage.has_succeeded:
            await self._fitting.raise_if_elsewhere(error)
        if error.status == 429:
            _raise_if_too_long(error)
            self._gate.throttled(slot)
            tries.is_throttled = True
        else:
            self._outage.failed(error)
        if isinstance(error, UnreachableError) and not self._outage.has_succeeded:
            self._give_up_if_never_reached(error, tries)
        if isinstance(error, BrokenAnswerError):
            return self._broken(error, tries)
        tries.timeouts += isinstance(error, TimedOutError)
        has_tried_enough = (
            tries.attempts >= _MOST_ATTEMPTS
            or tries.unreached >= _MOST_UNREACHED
            or tries.timeouts >= _MOST_TIMEOUTS
        )
        if tries.is_over or (has_tried_enough and not self._outage.is_open):
            raise error
        tries.wait_s = self._delay(error, tries)
        if tries.is_throttled and tries.wait_s > _SILENT_WAIT_S:
            self._tell_once(error, tries.wait_s)
        return None

    def _tell_once(self, error: EndpointError, wait_s: float) -> None:
        """Warn once that requests wait for their turn, or the program would seem to hang."""
        has_told, self._has_told = self._has_told, True
        if not has_told:
            _log.warning("%s. Too many requests: it is asked again after %.0f s.", error, wait_s)

    def _broken(self, error: BrokenAnswerError, tries: _Tries) -> Completion | None:
        tries.broken += 1
        if tries.is_over:
            raise error
        if tries.answered_before is None:
            tries.answered_before = self._outage.answers
        if tries.broken < _MOST_BROKEN or self._may_be_page_of_outage(tries):
            tries.wait_s = self._delay(error, tries)
            return None
        if not self._outage.has_succeeded:
            fix = (
                "No request was answered so far. Is {base_url} the base URL of an OpenAI-compatible endpoint "
                "(it usually ends in /v1)?"
            )
            problem = Problem("endpoint.no-answer", str(error), fix=fix, settings={"base_url": None})
            raise EndpointError(problem, is_fatal=True) from error
        return tries.empty or Completion("", finish_reason="broken")

    def _may_be_page_of_outage(self, tries: _Tries) -> bool:
        """Return whether nobody was answered since.

        A page with HTTP 200 is no wrong answer of this row then.
        """
        if not self._outage.has_succeeded:
            return False
        is_quiet = self._outage.answers == tries.answered_before and tries.attempts < _MOST_ATTEMPTS
        return is_quiet or self._outage.is_open

    def _give_up_if_never_reached(self, error: EndpointError, tries: _Tries) -> None:
        waited_s = self._clock() - tries.begun
        if tries.unreached >= _NEVER_REACHED or waited_s >= _NEVER_REACHED_S:
            raise never_reached(error) from error

    def _delay(self, error: EndpointError, tries: _Tries) -> float:
        """Seconds until the next attempt; what the endpoint asks for, or twice as long each time."""
        jitter = self._jitter.uniform(0.5, 1.0)
        if error.retry_after_s is not None:
            return min(error.retry_after_s, LONGEST_RETRY_AFTER_S) + 0.1 * jitter
        longest = (
            2.0 if isinstance(error, UnreachableError) and not self._outage.has_succeeded else _LONGEST_WAIT_S
        )
        return min(longest, _FIRST_WAIT_S * 2.0 ** (tries.attempts + tries.unreached - 1)) * jitter


def _raise_if_too_long(error: EndpointError) -> None:
    """Raise the error if it asks for a wait of hours, as a daily quota does: nobody watches a run so long."""
    if error.retry_after_s is not None and error.retry_after_s > LONGEST_RETRY_AFTER_S:
        asks = f"it asks to wait {error.retry_after_s:.0f} s"
        said = f"{error}. Rate limited: {asks}, and autoprompt waits at most {LONGEST_RETRY_AFTER_S:.0f} s"
        fix = "Resume after that time, or name another {base_url} or {model}."
        settings = {"base_url": None, "model": None}
        raise EndpointError(
            Problem("endpoint.rate-limited", said, fix=fix, settings=settings),
            status=error.status,
            retry_after_s=error.retry_after_s,
            is_fatal=True,
        ) from error
