"""A client that never asks twice: journal of the run first, then the cache of all runs, then the model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from autoprompt.errors import ModelError, Problem
from autoprompt.llm.client import AnswerCache, Completion, Options
from autoprompt.llm.kept.cache import request_key
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.tally import Tally
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.records import Message, Usage

_CLAIM_WAIT_S = 0.02  # between two looks whether the other trial has its answer


class RecordedClient:
    """The client that `connect` gives. Equal requests in flight are sent once.

    endpoint, constrain: part of the request key, see `request_key`. tally: counts the answers.
    on_close: ends what was started for this client, such as an embedded model.
    An answer is journaled before it is cached: whatever a cache gives to a resumed run that was not in its
    journal was never paid for by that run. An answer that is empty, or of no use to who asked
    (`Options.is_useful`), is journaled, as it is this run's, not cached.
    In a batch, a question that another trial has just sent is waited for, not sent as well.
    """

    def __init__(
        self,
        inner: LimitedClient,
        *,
        endpoint: str,
        constrain: str,
        budget: BudgetMeter,
        journal: Journal | None = None,
        cache: AnswerCache | None = None,
        tally: Tally | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._inner, self._budget, self._journal, self._cache = inner, budget, journal, cache
        self._endpoint, self._constrain, self._on_close = endpoint, constrain, on_close
        self._tally = tally if tally is not None else Tally()
        self._lock = threading.Lock()
        self._in_flight: dict[str, Future[Completion]] = {}

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dropped_parameters(self) -> tuple[str, ...]:
        """Parameters that the endpoint refused, and that are sent no more."""
        return self._inner.dropped_parameters

    @property
    def usage_warnings(self) -> list[Problem]:
        """Which figures the endpoint reported that cannot be right, in sentences."""
        return self._inner.usage_warnings

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        options = _as_said(options, self._inner.traits.said(options.role))
        key = request_key(self._endpoint, self.name, self._constrain, messages, options)
        with self._lock:
            flight = self._in_flight.get(key)
            is_first = flight is None
            if flight is None:
                flight = self._in_flight[key] = Future()
        if not is_first:
            return replace(flight.result(), attempts=0, source="journal")
        try:
            answer = self._answer(key, messages, options)
            if self._journal is not None and (answer.is_empty or not _is_useful(answer, options)):
                self._journal.note_useless(key, options.role)
        except BaseException as error:
            flight.set_exception(error)
            raise
        else:
            flight.set_result(answer)
            return answer
        finally:
            with self._lock:
                del self._in_flight[key]

    @property
    def traits(self) -> LearnedTraits:
        """What is known of the model by now."""
        return self._inner.traits

    def close(self) -> None:
        """Closes the transport. Journal and cache belong to those who opened them."""
        self._inner.close()
        if self._on_close is not None:
            self._on_close()

    def _answer(self, key: str, messages: Sequence[Message], options: Options) -> Completion:
        answer = self._recall(key, options)
        if answer is not None:
            return answer
        account = self._budget.account
        if account is None or self._cache is None:
            return self._ask(key, messages, options)
        while not account.ledger.claim(account.ticket, key):
            self._inner.wait(_CLAIM_WAIT_S)
        try:
            # Between the look and the claim, another trial may have got its answer.
            return self._from_cache(key, options) or self._ask(key, messages, options)
        finally:
            account.ledger.unclaim(account.ticket, key)

    def _ask(self, key: str, messages: Sequence[Message], options: Options) -> Completion:
        try:
            answer = self._inner.complete(messages, options)
        except ModelError as error:
            if self._journal is not None and error.attempts:
                usage = Usage.from_record(error.usage) if error.usage else Usage()
                self._journal.append_failure(key, options.role, error.attempts, str(error), usage)
            raise
        self._tally.add(options, answer)
        if self._journal is not None:
            self._journal.append(key, options.role, answer, run_s=self._budget.seconds)
        if self._cache is not None and not answer.is_empty and self._is_for_all(answer, options):
            self._cache.put(key, answer)
        return answer

    def _recall(self, key: str, options: Options) -> Completion | None:
        if self._journal is not None:
            answer, charges = self._journal.recall(key)
            for charge in charges:
                self._budget.charge_replay(
                    charge.role,
                    charge.attempts,
                    charge.usage,
                    is_retry=options.is_retry,
                    has_failed=charge.has_failed,
                )
            if answer is not None:
                return answer
        return self._from_cache(key, options)

    def _from_cache(self, key: str, options: Options) -> Completion | None:
        answer = self._cache.get(key) if self._cache is not None else None
        if self._cache is None or answer is None:
            return None
        if not self._is_for_all(answer, options):  # it was to one who could use it
            self._cache.forget(key)
            return None
        self._budget.count_cached()
        answer = replace(answer, usage=self._inner.priced(answer.usage))
        if self._budget.account is not None:  # it counts, now and when the journal replays it
            self._budget.charge_cached(options.role, answer.usage, is_retry=options.is_retry)
            answer = replace(answer, attempts=1)
        self._tally.add(options, answer)
        if self._journal is not None:
            self._journal.append(key, options.role, answer, run_s=self._budget.seconds)
        return answer

    def _is_for_all(self, answer: Completion, options: Options) -> bool:
        """Whether an answer is of use to other runs.

        Where one was cut depends on what its run knew of the model, unless the key says the limit.
        """
        is_fixed = options.is_limit_given or self._inner.traits.said(options.role).thinks_first is False
        return _is_useful(answer, options) and (is_fixed or not answer.is_cut)


def _is_useful(answer: Completion, options: Options) -> bool:
    return options.is_useful is None or options.is_useful(answer.text)


def _as_said(options: Options, traits: Traits) -> Options:
    """The options with what the settings and the kind of model say, so that the request key says it too.

    What is measured of the model changes no key: a resumed run finds its answers whatever it has learned.
    """
    if traits.reasoning_effort is not None:
        options = replace(options, reasoning_effort=traits.reasoning_effort)
    if options.is_limit_given:
        return options
    if traits.output_tokens is not None:
        return replace(options, max_output_tokens=traits.output_tokens, is_limit_given=True)
    if traits.thinks_first is False and options.useful_tokens is not None:
        caps = [cap for cap in (options.max_output_tokens, options.useful_tokens) if cap is not None]
        return replace(options, max_output_tokens=min(caps))
    return options
