"""One trial's part in the budget, the rate and the answers that a batch shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autoprompt.llm.client import Completion
from autoprompt.llm.limits.ledger import Amount, Ledger, Ticket


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

    def charge(self, expected: Amount, *, from_block: bool) -> None:
        self.ledger.charge(self.ticket, from_block=from_block, expected=expected)

    def settle(self, expected: Amount, used: Amount, *, sent: bool = True, from_block: bool = False) -> None:
        self.ledger.settle(self.ticket, expected=expected, used=used, sent=sent, from_block=from_block)

    def calls_left(self) -> int | None:
        return self.ledger.calls_left(self.ticket)

    def claim(self, key: str) -> bool:
        return self.ledger.claim(self.ticket, key)

    def unclaim(self, key: str) -> None:
        self.ledger.unclaim(self.ticket, key)
