"""One trial's part in the budget, the rate and the answers that a batch shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from autoprompt.llm.client import Completion
from autoprompt.llm.limits.amounts import Amount, Charge
from autoprompt.llm.limits.demand import NOTHING, Demand
from autoprompt.llm.limits.ledger import Ledger, Ticket


class AnswerCache(Protocol):
    """Request key -> answer; see `ResponseCache`."""

    def get(self, key: str) -> Completion | None: ...

    def put(self, key: str, completion: Completion) -> None: ...

    def forget(self, key: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Account:
    """What a trial is given to spend from.

    seconds_left: of the batch's cap on time when the trial began; None: no cap.
    open_cache: the cache that all trials share; None for the one of this machine.

    A trial with an account counts an answer out of the shared cache as if it had sent the request: what it
    finds must not depend on which of its neighbours came first. What was sent in truth is in the ledger.
    """

    ledger: Ledger
    ticket: Ticket
    seconds_left: float | None = None
    open_cache: Callable[[], AnswerCache] | None = None

    def set_aside(self, held: Amount, blocks: Amount) -> None:
        self.ledger.set_aside(self.ticket, held, blocks)

    def charge(self, demand: Demand | None, limit: int | None, *, from_block: bool) -> int | None:
        """See `Ledger.charge`. limit: most tokens of an answer that the trial's own caps allow."""
        if demand is None:
            demand = NOTHING
        elif limit is not None:
            demand = replace(demand, limit=limit)
        return self.ledger.charge(self.ticket, from_block=from_block, demand=demand)

    def settle(self, charge: Charge, used: Amount, *, sent: bool = True) -> None:
        from_block = charge.from_shared and not sent
        self.ledger.settle(
            self.ticket, likely=charge.likely, most=charge.most, used=used, sent=sent, from_block=from_block
        )

    def calls_left(self) -> int | None:
        return self.ledger.calls_left(self.ticket)

    def claim(self, key: str) -> bool:
        return self.ledger.claim(self.ticket, key)

    def unclaim(self, key: str) -> None:
        self.ledger.unclaim(self.ticket, key)
