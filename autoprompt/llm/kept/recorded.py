"""A client that never asks twice, and a count of its answers: how many were lost, which models they name.

It looks in the journal of the run first, then in the cache of all runs, and asks the model last.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from autoprompt.errors import Interrupted, ModelError, Place, Problem, StoreError
from autoprompt.llm import portal
from autoprompt.llm.client import AnswerCache, CallRole, Completion, Options
from autoprompt.llm.kept.cache import request_key
from autoprompt.llm.kept.journal import Charge, Journal
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.ledger import Account
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.records import Message, Usage, record
from autoprompt.text.answers.texts import split_thoughts
from autoprompt.text.names import counted

# What bounds the answers of a role, and what names its model.
_LIMITS: dict[CallRole, str] = {
    "task": "max_output_tokens",
    "optimizer": "optimizer_max_output_tokens",
    "judge": "judge_max_output_tokens",
}
_MODELS: dict[CallRole, str] = {"task": "model", "optimizer": "optimizer_model", "judge": "judge_model"}
# What names a version of the same model: a date (2024-07-18, 0613, 20241022), a number (002, v2), or a word.
# `32k`, `mini` and `8b` name another model.
_VERSION = re.compile(r"(?:[-@:_](?:\d{2,8}|v\d+(?:\.\d+)*|latest|preview|stable|beta|exp|free))*")


@record
class RoleTally:
    """The answers of one role's model in a run, those of the response cache included.

    cut: ended at the limit of their length. empty: the others without a text. usage: of both.
    is_of_code: a program's own code asks the model, so no setting names it.
    """

    model: str = ""
    answers: int = 0
    cut: int = 0
    empty: int = 0
    usage: Usage = Usage()
    is_of_code: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether at least half of the answers were cut or empty."""
        lost = self.cut + self.empty
        return lost > 0 and 2 * lost >= self.answers

    def to_dict(self, role: CallRole) -> dict[str, Any]:
        """Plain JSON, as `result.json` has it."""
        return {
            "model": self.model,
            "answers": self.answers,
            "cut": self.cut,
            "empty": self.empty,
            "tokens": self.usage.total_tokens,
            "cost_usd": self.usage.cost_usd,
            "setting": None if self.is_of_code else _LIMITS[role] if self.cut else _MODELS[role],
        }

    def problem(self, role: CallRole, limit: int | None) -> Problem:
        """Return the warning about it. limit: of an answer, if the user has set one."""
        cost = f" (${self.usage.cost_usd:.4f})" if self.usage.cost_usd else ""
        lost = f"{self.cut + self.empty} of {counted(self.answers, 'answer')} of {self.model}"
        took = f"{counted(self.usage.total_tokens, 'token')}{cost}"
        said = f"{role}: {lost} were cut off or empty; they took {took}"
        model, room = _MODELS[role], _LIMITS[role]
        if self.is_of_code:
            more = "raise the limit on the answer's tokens, or " if self.cut else ""
            fix = f"Where the program's code asks it, {more}name another model."
            return Problem("model.answers-lost", said, fix=fix)
        if not self.cut:
            return Problem(
                "model.answers-lost", said, fix=f"Use another {{{model}}}.", settings={model: None}
            )
        now = f" (now {limit})" if limit is not None else ""
        fix = f"Raise {{{room}}}{now}, lower {{reasoning_effort}}, or use another {{{model}}}."
        settings = dict.fromkeys((room, "reasoning_effort", model))
        return Problem("model.answers-lost", said, fix=fix, settings=settings)

    def plus(self, answer: Completion, options: Options) -> RoleTally:
        """Count one more answer. One that is whole by the labels of its options was not cut."""
        visible = split_thoughts(answer.text)[0]  # a thought without an end leaves nothing
        said = visible.rstrip(".").casefold()
        is_cut = answer.is_cut and all(name.casefold() != said for name in options.labels)
        is_empty = not visible and not answer.tool_calls and not is_cut and not answer.withheld
        is_lost = is_empty or is_cut
        return RoleTally(
            answer.model or self.model,
            self.answers + 1,
            self.cut + is_cut,
            self.empty + is_empty,
            self.usage + answer.usage if is_lost else self.usage,
            options.forward is not None,
        )


def is_same_model(asked: str, answered: str) -> bool:
    """Return whether an answer's name is the one that was asked for, or a version of it.

    Capitals do not count, nor does what comes before the last slash: providers and folders are written there.
    An endpoint that leaves the version out may well have answered with it.

    Examples:
        >>> is_same_model("openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18")
        True
        >>> is_same_model("gpt-4o", "gpt-4o-mini")
        False
    """
    wanted, found = (name.strip().rstrip("/").rpartition("/")[2].casefold() for name in (asked, answered))
    wanted = re.sub(r"[-@:_]latest$", "", wanted)
    longer, shorter = (found, wanted) if len(found) > len(wanted) else (wanted, found)
    return longer.startswith(shorter) and _VERSION.fullmatch(longer[len(shorter) :]) is not None


@dataclass(frozen=True, slots=True)
class Answered:
    """The names in the answers of one role.

    asked: the name in the requests; None if the endpoint chose, or for a client of one's own. endpoint: host
    and port, without a password. names: name -> number of answers, in the order in which they came first.
    may_differ: several models answer on purpose, as in a program of one's own.
    """

    role: CallRole
    asked: str | None
    endpoint: str
    names: Mapping[str, int]
    may_differ: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as `result.json` has it."""
        return {"asked": self.asked, "endpoint": self.endpoint, "answered": dict(self.names)}

    def problems(self) -> list[Problem]:
        """Return a warning if another model answered, and one if the model changed on the way."""
        place, found = Place(setting=_MODELS[self.role]), []
        at = f" at {self.endpoint}" if self.endpoint else ""
        strangers = [name for name in self.names if self.asked and not is_same_model(self.asked, name)]
        if strangers:
            said = f"{self.asked!r} was asked for{at}, but answers name {', '.join(map(repr, strangers))}"
            found.append(Problem("model.other-name", said, place, "Check what that endpoint serves."))
        if len(self.names) > 1 and not self.may_differ:
            first, *others = map(repr, self.names)
            said = f"the model{at} changed during the run: answers name {first}, later {', '.join(others)}"
            fix = "The scores mix them. Ask for one by its dated name, and start a new run."
            found.append(Problem("model.changed", said, place, fix))
        return found


class Tally:
    """Counts the answers of a run by role. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._roles: dict[CallRole, RoleTally] = {}
        self._names: dict[CallRole, dict[str, int]] = {}
        self._hosts: dict[str, None] = {}  # that a program's own calls went to, in that order
        self._only: tuple[str, ...] = ()  # the hosts that they may go to; () for all

    def add(self, options: Options, answer: Completion) -> None:
        """Count an answer. options: that it was asked with."""
        with self._lock:
            known = self._roles.get(options.role, RoleTally())
            self._roles[options.role] = known.plus(answer, options)
            if answer.host:
                self._hosts[answer.host] = None
            if answer.model:
                names = self._names.setdefault(options.role, {})
                names[answer.model] = names.get(answer.model, 0) + 1

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that the calls of a program's own went to, in the order in which they came first."""
        with self._lock:
            return tuple(self._hosts)

    def hold_hosts(self) -> None:
        """Have a program call no other hosts than those of the answers so far, if there are any."""
        self._only = self.hosts

    def check_host(self, host: str) -> None:
        """Raise StoreError for a host that the calls of a program must not go to: it would mix two models."""
        if self._only and host and host not in self._only:
            before = " and ".join(self._only)
            said = (
                f"the run cannot be resumed: the program's calls went to {before}, and now one goes to {host}"
            )
            fix = "Set the program's address as it was, or allow the change with {program_changed_ok}."
            raise StoreError(Problem("program.changed", said, fix=fix, settings={"program_changed_ok": True}))

    def names(self) -> dict[CallRole, dict[str, int]]:
        """Return the models that the answers name: role -> name -> number of answers."""
        with self._lock:
            return {role: dict(names) for role, names in self._names.items()}

    def bad(self) -> dict[CallRole, RoleTally]:
        """Return the roles of which at least half of the answers were cut or empty."""
        with self._lock:
            return {role: tally for role, tally in self._roles.items() if tally.is_bad}


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
        self.constrain = constrain
        self._endpoint, self._on_close = endpoint, on_close
        self._tally = tally if tally is not None else Tally()
        self._last_said = Options(), Traits(), Options()
        # Requests on their way: the answer, or the error of the one that asked first.
        self._in_flight: dict[
            tuple[str, bool], asyncio.Future[tuple[Completion | None, BaseException | None]]
        ] = {}

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

    @property
    def settled_on(self) -> int | None:
        """Requests at once that `concurrency: auto` came to; None for a fixed number."""
        return self._inner.settled_on

    @property
    def is_async(self) -> bool:
        """Whether a request on its way needs no thread."""
        return self._inner.is_async

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        return portal.run(self.acomplete(messages, options))

    async def acomplete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """Answer as `complete` does, on the loop of `portal`."""
        traits = self._inner.traits.said(options.role)
        if self._last_said[0] is not options or self._last_said[1] is not traits:  # rows share their options
            self._last_said = options, traits, _as_said(options, traits)
        options = self._last_said[2]
        key = request_key(self._endpoint, self.name, self.constrain, messages, options)
        waiting_for = (key, options.blocks_loop)  # never one for another kind, see `Forward`
        if (flight := self._in_flight.get(waiting_for)) is not None:
            found, failure = await asyncio.shield(flight)
            if found is None:
                raise failure or Interrupted("stopped before the answer was there")
            return replace(found, attempts=0, source="journal", key=key)
        flight = self._in_flight[waiting_for] = asyncio.get_running_loop().create_future()
        answer, failed = None, None
        try:
            answer = self._recall(key, options)
            if answer is None:
                async with self._claimed(key) as is_shared:
                    # Between the look and the claim, another trial may have got its answer.
                    answer = self._from_cache(key, options) if is_shared else None
                    answer = answer or await self._ask(key, messages, options)
            if self._journal is not None and (answer.is_empty or not _is_useful(answer, options)):
                self._journal.note_useless(key, options.role)
            return replace(answer, key=key)
        except BaseException as error:
            if isinstance(error, ModelError):
                error.key = key
            if not isinstance(error, asyncio.CancelledError):  # that is meant for the first one alone
                failed = error
            answer = None
            raise
        finally:
            del self._in_flight[waiting_for]
            flight.set_result((answer, failed))

    def charge_kept(self, keys: Iterable[str]) -> None:
        """Charge what the journal has under these keys, as if it had been asked for again."""
        if self._journal is not None:
            for key in keys:
                self._charge(self._journal.recall(key)[1], is_retry=False)

    @property
    def traits(self) -> LearnedTraits:
        """What is known of the model by now."""
        return self._inner.traits

    def close(self) -> None:
        """Close the transport. Journal and cache are closed by the caller that opened them."""
        self._inner.close()
        if self._on_close is not None:
            self._on_close()

    def _claimed(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Hold a question while it is asked, so that the other trials of a batch wait for its answer.

        Yields whether there are other trials.
        """
        account = self._budget.account
        if account is None or self._cache is None:
            return nullcontext(False)
        return self._claimed_in_batch(account, self._cache, key)

    @asynccontextmanager
    async def _claimed_in_batch(self, account: Account, cache: AnswerCache, key: str) -> AsyncIterator[bool]:
        while not account.ledger.claim(account.ticket, key):
            self._budget.check_seconds()
            await self._inner.wait(_CLAIM_WAIT_S)
        try:
            yield True
        finally:
            cache.flush()  # who waits for the answer looks for it next
            account.ledger.unclaim(account.ticket, key)

    async def _ask(self, key: str, messages: Sequence[Message], options: Options) -> Completion:
        try:
            answer = await self._inner.acomplete(messages, options)
        except ModelError as error:
            if self._journal is not None and error.attempts:
                usage = Usage.from_record(error.usage) if error.usage else Usage()
                self._journal.append_failure(key, options.role, error.attempts, str(error), usage)
            raise
        self._tally.add(options, answer)
        if self._journal is not None:
            await self._journal.append_soon(key, options.role, answer, run_s=self._budget.seconds)
        if self._cache is not None and not answer.is_empty and self._is_for_all(answer, options):
            self._cache.put(key, answer)
        return answer

    def _recall(self, key: str, options: Options) -> Completion | None:
        if self._journal is not None:
            answer, charges = self._journal.recall(key)
            self._charge(charges, is_retry=options.is_retry)
            if answer is not None:
                return answer
        if options.forward is not None:
            self._tally.check_host(options.forward.host)
        return self._from_cache(key, options)

    def _charge(self, charges: Iterable[Charge], *, is_retry: bool) -> None:
        for charge in charges:
            self._budget.charge_replay(
                charge.role, charge.attempts, charge.usage, is_retry=is_retry, has_failed=charge.has_failed
            )

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
        """Return whether an answer is of use to other runs.

        Where one was cut depends on what its run knew of the model, unless the key says the limit.
        """
        is_fixed = options.is_limit_given or self._inner.traits.said(options.role).thinks_first is False
        return _is_useful(answer, options) and (is_fixed or not answer.is_cut)


def _is_useful(answer: Completion, options: Options) -> bool:
    return options.is_useful is None or options.is_useful(answer.text)


def _as_said(options: Options, traits: Traits) -> Options:
    """Return the options with what settings and kind of model say, so that it is in the request key."""
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
