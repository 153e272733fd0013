"""What is wanted, set aside and counted of a budget: the records that `budget` keeps."""

from __future__ import annotations

from dataclasses import dataclass

from autoprompt.llm.client import CallRole
from autoprompt.llm.ledger import Amount


@dataclass(frozen=True, slots=True)
class Need:
    """What something wants of the budget."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Block:
    """Calls set aside and not yet sent. Compared by identity: two blocks may have the same size.

    shared: what of it is set aside in the batch's ledger too; a replayed answer leaves it untouched.
    is_for_retries: pays for questions that are asked again, and for nothing else.
    """

    calls_left: int
    shared: Amount = Amount()
    is_for_retries: bool = False


@dataclass(frozen=True, slots=True)
class Charge:
    """A request that was counted. block: the one that paid for it. from_shared: also in the ledger."""

    role: CallRole
    block: Block | None
    expected: Amount
    is_retry: bool
    is_repeat: bool
    from_shared: bool
