"""Caps on calls, tokens, money and time, kept by one object for all models of a run.

Every request is charged before it is sent, so `max_calls` is exact. What it takes in tokens and money is
known only afterwards: until then the most that it may take is set aside (see `demand`), so the other caps
are exceeded only if an endpoint takes more than it ever did before. A search asks for whole blocks of rows:
whether a block starts depends on what earlier blocks used, never on the order in which threads get their
answers.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autoprompt.errors import BudgetExhausted, Place, Problem
from autoprompt.llm.client import CallRole
from autoprompt.llm.limits.amounts import (
    Amount,
    Block,
    Charge,
    Need,
    Spent,
    check_cap,
    draw,
    excess,
    exhausted,
)
from autoprompt.llm.limits.demand import NOTHING, Demand, Left
from autoprompt.llm.limits.ledger import Account
from autoprompt.records import Usage


class Stopwatch:
    """Runs from its making on. clock: seconds that never go back. Its owner keeps threads apart."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = self._made = clock()
        self._first_call: float | None = None

    @property
    def seconds(self) -> float:
        """Of the run, with those of the sessions before."""
        return self._clock() - self._begun

    @property
    def seconds_here(self) -> float:
        """Of this session."""
        return self._clock() - self._made

    def restore(self, seconds: float, *, has_called: bool) -> None:
        """Go on from what an earlier session had taken."""
        self._begun = self._clock() - seconds
        self._first_call = self._begun if has_called else None

    def note_call(self) -> None:
        """Note that a request is about to be sent."""
        if self._first_call is None:
            self._first_call = self._clock()

    def per_call(self, calls: int) -> float:
        """Since the first of so many calls, for each; 0.0 before the first."""
        return 0.0 if self._first_call is None else (self._clock() - self._first_call) / max(1, calls)


def _give(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


_FAULTLESS = 20  # requests that count as gone well before the first, so that a blip is none of a trend
# Unreadable answers to expect for each call, at most: a naive prompt of which none can be read must not have
# the search's calls kept back for asking again.
_MOST_AGAIN = 0.25


@dataclass(slots=True)
class BudgetMeter:
    """The caps of one run; None means no cap. Safe to use from several threads.

    caps_repeats: whether `max_calls` caps repeated requests too. False for a cap that is a plan and nobody's
        wish, so that an endpoint with faults does not shorten the search.
    account: the trial's part in what a batch shares; its caps hold beside those of the run.
    Seconds count from the making of the object (plus those restored), on a clock that never goes back.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    caps_repeats: bool = True
    clock: Callable[[], float] = time.monotonic
    account: Account | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)
    _spent: Spent = field(default_factory=Spent, init=False)
    _held: Need = field(default=Need(), init=False)
    _blocks: list[Block] = field(default_factory=list, init=False)
    _watch: Stopwatch = field(init=False, repr=False)
    _released: Need = field(default=Need(), init=False)
    _cut_by: set[str] = field(default_factory=set, init=False)
    _on_wire: Amount = field(default=Amount(), init=False)  # most that requests on their way may take
    # Requests that wait until others have ended, on the loop of `portal`.
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque, init=False, repr=False)
    _cached_answers: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._watch = Stopwatch(lambda: self.clock())

    @property
    def spent(self) -> Spent:
        with self._lock:
            return replace(self._spent, seconds=self._watch.seconds)

    @property
    def caps_amounts(self) -> bool:
        """Whether tokens or cost are capped, so that a request needs its `Demand`."""
        return self.max_tokens is not None or self.max_cost is not None or self.account is not None

    def exceeded(self) -> list[Problem]:
        """Return a warning for each cap that the endpoint has exceeded."""
        with self._lock:
            tokens = ("max_tokens", self.max_tokens, self._spent.tokens)
            cost = ("max_cost", self.max_cost, self._spent.known_cost_usd)
        return [
            Problem(
                "budget.exceeded",
                f"{limit:g} was {over}, as the endpoint counted more than it had before",
                Place(setting=cap),
            )
            for cap, limit, used in (tokens, cost)
            if limit is not None and (over := excess(cap, limit, used))
        ]

    @property
    def seconds(self) -> float:
        """What the run has taken so far."""
        return self._watch.seconds

    @property
    def held(self) -> dict[str, Any]:
        """What is kept back now, as plain JSON for a checkpoint."""
        with self._lock:
            return asdict(self._held)

    def restore_hold(self, held: Mapping[str, Any]) -> None:
        """Keep back what a checkpoint says, to the letter: computed anew, it would follow later spending."""
        with self._lock:
            self._held = Need(**held)
            with suppress(BudgetExhausted):  # what is left of the batch's is used as far as it goes
                self._share()

    def restore(self, spent: Spent | Mapping[str, Any]) -> None:
        """Go on from what a checkpoint had counted (see `Journal.mark_counted`). What is held stays held."""
        known = replace(spent) if isinstance(spent, Spent) else Spent.from_dict(spent)
        with self._lock:
            self._spent = known
            self._watch.restore(known.seconds, has_called=known.calls > 0)

    def calls_left(self) -> int | None:
        """Return the calls that a new block could still have; None without a limit."""
        with self._lock:
            shared = self.account.ledger.calls_left(self.account.ticket) if self.account is not None else None
            own = self.own_calls_left()
            return min((left for left in (own, shared) if left is not None), default=None)

    def block_calls_left(self) -> int | None:
        """Return how large a block may be that starts now: calls to repeat some of it stay free."""
        with self._lock:
            left = self.calls_left()
            return None if left is None else int(left / (1 + self._repeats_per_call()))

    def own_calls_left(self) -> int | None:
        """Return `calls_left` by the run's own cap alone, whatever a batch has left."""
        with self._lock:
            if self.max_calls is None:
                return None
            return max(0, self.max_calls - self._capped_calls() - self._calls_set_aside())

    @property
    def cut_by(self) -> frozenset[str]:
        """Caps of the batch that refused what the run's own caps had room for."""
        with self._lock:
            return frozenset(self._cut_by)

    def note_cut(self, cap: str) -> None:
        """Somebody made do with what this cap of the batch has left."""
        with self._lock:
            self._cut_by.add(cap)

    @property
    def seconds_per_call(self) -> float:
        """So far, with what other calls ran at the same time; 0.0 before the first."""
        with self._lock:
            return self._watch.per_call(self._spent.calls)

    def seconds_left(self) -> float | None:
        """Time until the first cap on it, the run's or the batch's, whatever is held. None: no cap."""
        with self._lock:
            caps = (self.max_seconds, self._watch.seconds), (self._shared_seconds(), self._watch.seconds_here)
            return min((cap - used for cap, used in caps if cap is not None), default=None)

    @contextmanager
    def block(
        self, calls: int, *, tokens: int = 0, cost_usd: float = 0.0, leaves_room: bool = True
    ) -> Iterator[None]:
        """Set aside `calls` requests for what runs inside, whole or not at all; the unused rest goes back.

        First attempts inside are paid from the block, retries from what is free beyond it.
        leaves_room: start only if as many retries as there were so far would be free; without them rows fail.
        tokens, cost_usd: what the block is expected to use; it does not start if that would pass a cap.
        Raises BudgetExhausted, before anything is sent. Blocks may nest; the innermost with calls left pays.
        """
        with self._lock:
            repeats = math.ceil(calls * self._repeats_per_call()) if leaves_room else 0
            self._check(Need(calls + repeats, tokens, cost_usd))
            kept = self._released  # the time to use what was held has come: this block is that use
            block = Block(calls, Amount(calls, max(tokens, kept.tokens), max(cost_usd, kept.cost_usd)))
            with self._noting_cut():
                self._open(block)
            self._released = Need()
        try:
            yield
        except BudgetExhausted as error:
            raise self._brought_up_to_date(error) from error.__cause__
        finally:
            self._close(block)

    def _brought_up_to_date(self, error: BudgetExhausted) -> BudgetExhausted:
        """Return the error with what is used now: requests went on that needed less than the one refused."""
        caps = {"max_tokens": self.max_tokens, "max_cost": self.max_cost}
        limit = caps.get(error.cap)
        if limit is None or error.needed is None:
            return error
        with self._lock:
            used = self._spent.tokens if error.cap == "max_tokens" else self._spent.known_cost_usd
        return exhausted(error.cap, limit, used, *error.needed)

    @contextmanager
    def retries(self, calls: int) -> Iterator[int]:
        """Set aside as many of `calls` as are free, for what is asked again inside; says how many they are.

        So which questions are asked again depends on what was spent before, and not on who comes first.
        """
        with self._lock:
            left = self.calls_left()
            granted = calls if left is None else min(calls, left)
            block = Block(granted, Amount(granted), is_for_retries=True)
            try:
                self._open(block)
            except BudgetExhausted:  # another trial of the batch was faster
                block = Block(0, is_for_retries=True)
                self._blocks.append(block)
        try:
            yield block.calls_left
        finally:
            self._close(block)

    def _open(self, block: Block) -> None:
        """Open a block, or raise BudgetExhausted if the batch has less left."""
        self._blocks.append(block)
        try:
            self._share()
        except BudgetExhausted:
            self._blocks.remove(block)
            raise

    def _close(self, block: Block) -> None:
        with self._lock:
            self._blocks.remove(block)
            self._share()

    def hold(
        self,
        calls: int,
        *,
        tokens: int = 0,
        cost_usd: float = 0.0,
        seconds: float = 0.0,
        leaves_room: bool = True,
        is_wish: bool = False,
    ) -> None:
        """Keep this back for later (the final test), in place of what was held before.

        leaves_room: retries come on top, by their share so far and two standard deviations of it.
        is_wish: less will do where it is refused: that is no cut (`cut_by`).

        Raises:
            BudgetExhausted: Naming the cap that is too small for it; then nothing is held.
        """
        with self._lock:
            self._held = self._released = Need()
            rate = self._repeats_per_call() if leaves_room else 0.0
            repeats = math.ceil(calls * rate + 2 * math.sqrt(calls * rate * (1 + rate)))
            need = Need(calls + repeats, tokens, cost_usd, seconds)
            try:
                self._check(need, is_wish=is_wish)
                self._held = need
                with nullcontext() if is_wish else self._noting_cut():
                    self._share()
            except BudgetExhausted:
                self._held = Need()
                self._share()
                raise

    def release_hold(self) -> None:
        """Give back what was held: the time to use it has come.

        In what a batch shares, it stays kept until the next block takes it: no other trial comes between.
        """
        with self._lock:
            self._released, self._held = self._held, Need()

    def charge(
        self,
        role: CallRole,
        *,
        is_retry: bool = False,
        is_repeat: bool = False,
        demand: Demand | None = None,
    ) -> Charge | None:
        """Count one request that is about to be sent; None if it has to wait until others have ended.

        is_retry: it asks again what a block has paid for already; `retries` pays for it, or what is free.
        is_repeat: it is a retry because the same request failed or came back empty.
        demand: what it takes; None: no cap on tokens or cost is kept for it.
        What comes back is to be given to `settle` or `refund` when the request has ended.
        Raises BudgetExhausted; then it must not be sent.
        """
        with self._lock:
            block = None if is_repeat else self._paying_block(is_retry=is_retry)
            is_free = is_repeat and not self.caps_repeats
            self._check(Need(calls=1 if block is None and not is_free else 0))
            limit = None if demand is None else demand.within(*self._left_of_caps())
            if demand is not None and limit is None:
                return None
            from_shared = False  # only a batch's ledger asks
            if self.account is not None:
                from_shared = block is not None and block.shared.calls > 0
                asked = NOTHING if demand is None or limit is None else replace(demand, limit=limit)
                with self._noting_cut():
                    granted = self.account.ledger.charge(
                        self.account.ticket, from_block=from_shared, demand=asked
                    )
                if granted is None:
                    return None
                limit = None if demand is None else granted
            if block is not None:
                block.calls_left -= 1
                if from_shared:
                    block.shared = replace(block.shared, calls=block.shared.calls - 1)
            self._watch.note_call()
            self._count_calls(role, 1, repeats=int(is_repeat), again=int(is_retry and not is_repeat))
            if demand is None or limit is None:
                return Charge(role, block, is_retry, is_repeat, from_shared)
            most = demand.most(limit)
            self._on_wire += most
            self._wake_next()  # there may be room for one more of those who wait
            return Charge(role, block, is_retry, is_repeat, from_shared, demand.likely, most, limit)

    async def await_end(self, seconds: float) -> None:
        """Wait until a request on its way has ended, at most so long."""
        turn = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append(turn)
        try:
            await asyncio.wait([turn], timeout=seconds)
        finally:
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.get_loop().call_soon_threadsafe(_give, turn)
                return

    def check_seconds(self) -> None:
        """Raise BudgetExhausted if a limit on time is reached."""
        with self._lock:
            self._check_seconds(Need())

    def refund(self, charge: Charge) -> None:
        """Take back a charge: the request never left, as no connection came about."""
        with self._lock:
            self._end(charge)
            is_again = charge.is_retry and not charge.is_repeat
            self._count_calls(charge.role, -1, repeats=-int(charge.is_repeat), again=-int(is_again))
            if charge.block is not None:
                charge.block.calls_left += 1
                if charge.from_shared:
                    charge.block.shared = replace(charge.block.shared, calls=charge.block.shared.calls + 1)
            self._settle_shared(charge, Amount(), sent=False)

    def settle(self, charge: Charge, usage: Usage = Usage()) -> None:
        """Count the tokens and the cost of the answer; of a request without one, nothing."""
        with self._lock:
            self._end(charge)
            self.add_usage(charge.role, usage)
            used = Amount(1, usage.total_tokens, usage.cost_usd or 0.0)
            self._settle_shared(charge, used, sent=True)
            if self.account is not None:
                draw(used, self._blocks)

    def _settle_shared(self, charge: Charge, used: Amount, *, sent: bool) -> None:
        if self.account is None:
            return
        self.account.ledger.settle(
            self.account.ticket,
            likely=charge.likely,
            most=charge.most,
            used=used,
            sent=sent,
            from_block=charge.from_shared and not sent,
        )

    def _end(self, charge: Charge) -> None:
        if charge.limit is not None:
            self._on_wire -= charge.most
            if not self._on_wire.calls:  # what rounding has left
                self._on_wire = Amount()
        self._wake_next()

    def _left_of_caps(self) -> tuple[Left | None, Left | None]:
        """Return what is left of the run's own caps on tokens and cost; None: no cap."""
        spent, held, wire = self._spent, self._held, self._on_wire
        tokens = cost = None
        if self.max_tokens is not None:
            tokens = Left("max_tokens", self.max_tokens, spent.tokens, held.tokens, wire.tokens)
        if self.max_cost is not None:
            used = spent.known_cost_usd
            cost = Left("max_cost", self.max_cost, used, held.cost_usd, wire.cost_usd)
        return tokens, cost

    @property
    def cached_answers(self) -> int:
        """How many answers came out of the cache of earlier runs."""
        return self._cached_answers

    def count_cached(self) -> None:
        with self._lock:
            self._cached_answers += 1

    def charge_cached(self, role: CallRole, usage: Usage, *, is_retry: bool = False) -> None:
        """Count an answer that another trial of the batch has paid for, as if it had been sent here.

        Raises:
            BudgetExhausted: If `charge` would have: what a trial finds depends on no other trial.
        """
        with self._lock:
            block = self._paying_block(is_retry=is_retry)
            self._check(Need(calls=1 if block is None else 0))
            if block is not None:
                block.calls_left -= 1
            self._watch.note_call()
            self._count_calls(role, 1, repeats=0, again=int(is_retry))
            self.add_usage(role, usage)

    def charge_earlier(self, spent: Spent) -> None:
        """Count what the task took before this budget was opened. Never raises."""
        if spent.task_calls:
            with self._lock:
                self._count_calls("task", spent.task_calls, repeats=spent.repeats, again=0)
                self.add_usage("task", spent.task)

    def charge_replay(
        self,
        role: CallRole,
        attempts: int,
        usage: Usage,
        *,
        is_retry: bool = False,
        has_failed: bool = False,
    ) -> None:
        """Count an answer out of the journal as it was counted when it was sent. Never raises.

        has_failed: there was none, so that it is asked again, which the block pays. So what is free pays for
        the failure, as for a repeat, and the block only where nothing is.
        """
        with self._lock:
            left = self.calls_left()
            is_beside = has_failed and (left is None or left >= attempts)
            block = self._paying_block(is_retry=is_retry) if attempts and not is_beside else None
            if block is not None:
                block.calls_left -= 1
            again = int(is_retry and attempts > 0)
            self._count_calls(role, attempts, repeats=max(0, attempts - 1), again=again)
            self.add_usage(role, usage)

    def charge_dropped(self, role: CallRole, attempts: int, usage: Usage) -> None:
        """Count an answer out of the journal that is asked for anew, being of no use. Never raises.

        To a cap that is a plan they are repeats, so that they do not shorten the search. To one's own they
        are no more than calls: as repeats they would be a trend that calls are kept back for.
        """
        with self._lock:
            self._count_calls(role, attempts, repeats=0 if self.caps_repeats else attempts, again=0)
            self.add_usage(role, usage)

    def add_usage(self, role: CallRole, usage: Usage) -> None:
        """Count the tokens and the cost of an answer."""
        with self._lock:
            spent = self._spent
            spent.known_cost_usd += usage.cost_usd or 0.0
            if role == "task":
                spent.task += usage
            elif role == "optimizer":
                spent.optimizer += usage
            else:
                spent.judge += usage

    def _share(self) -> None:
        """Tell the ledger of the batch what is kept back now. Raises BudgetExhausted; then it keeps less."""
        if self.account is None:
            return
        calls = sum(block.shared.calls for block in self._blocks)
        tokens = sum(block.shared.tokens for block in self._blocks)
        cost_usd = sum(block.shared.cost_usd for block in self._blocks)
        held = Amount(self._held.calls, self._held.tokens, self._held.cost_usd)
        self.account.ledger.set_aside(self.account.ticket, held, Amount(calls, tokens, cost_usd))

    @contextmanager
    def _noting_cut(self) -> Iterator[None]:
        """Around what asks the batch, after the run's own caps have allowed it."""
        try:
            yield
        except BudgetExhausted as error:
            self._cut_by.add(error.cap)
            raise

    def _count_calls(self, role: CallRole, calls: int, *, repeats: int, again: int) -> None:
        spent = self._spent
        spent.repeats += repeats
        spent.asked_again += again
        if role == "task":
            spent.task_calls += calls
        elif role == "optimizer":
            spent.optimizer_calls += calls
        else:
            spent.judge_calls += calls

    def _capped_calls(self) -> int:
        return self._spent.calls - (0 if self.caps_repeats else self._spent.repeats)

    def _repeats_per_call(self) -> float:
        """Capped repeats, and questions asked again, to expect for each request that is new.

        As if _FAULTLESS requests had come through before: three faults in a row at the start are a blip, and
        no reason to keep half of a budget back.
        """
        spent = self._spent
        new = _FAULTLESS + spent.calls - spent.repeats - spent.asked_again
        repeats = spent.repeats if self.caps_repeats else 0
        return repeats / new + min(_MOST_AGAIN, spent.asked_again / new)

    def _paying_block(self, *, is_retry: bool) -> Block | None:
        return next(
            (b for b in reversed(self._blocks) if b.calls_left > 0 and b.is_for_retries == is_retry), None
        )

    def _calls_set_aside(self) -> int:
        return self._held.calls + sum(block.calls_left for block in self._blocks)

    def _shared_seconds(self) -> float | None:
        return self.account.seconds_left if self.account is not None else None

    def _check(self, need: Need, *, is_wish: bool = False) -> None:
        """Raise for the first cap that `need` would pass, on top of what is spent and set aside."""
        spent, held = self._spent, self._held
        calls = self._capped_calls() + self._calls_set_aside()
        check_cap("max_calls", self.max_calls, calls - held.calls, need.calls, held.calls)
        check_cap("max_tokens", self.max_tokens, spent.tokens, need.tokens, held.tokens)
        check_cap("max_cost", self.max_cost, spent.known_cost_usd, need.cost_usd, held.cost_usd)
        self._check_seconds(need, is_wish=is_wish)

    def _check_seconds(self, need: Need, *, is_wish: bool = False) -> None:
        held = self._held
        check_cap("max_seconds", self.max_seconds, self._watch.seconds, need.seconds, held.seconds)
        if (shared := self._shared_seconds()) is not None:
            # The batch's: it has run for a while when this trial begins.
            with nullcontext() if is_wish else self._noting_cut():
                check_cap("max_seconds", shared, self._watch.seconds_here, need.seconds, held.seconds)
