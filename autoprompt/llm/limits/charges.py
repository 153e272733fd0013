"""What is wanted, set aside and counted of a budget: the records that `budget` keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autoprompt.llm.client import CallRole
from autoprompt.llm.limits.ledger import Amount
from autoprompt.records import Usage


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
    each: what was set aside for one of its calls; 0 where that is not known.
    """

    calls_left: int
    shared: Amount = Amount()
    is_for_retries: bool = False
    each: Amount = field(init=False)

    def __post_init__(self) -> None:
        calls = max(1, self.shared.calls)
        self.each = Amount(1, math.ceil(self.shared.tokens / calls), self.shared.cost_usd / calls)


@dataclass(frozen=True, slots=True)
class Charge:
    """A request that was counted. block: the one that paid for it. from_shared: also in the ledger."""

    role: CallRole
    block: Block | None
    expected: Amount
    is_retry: bool
    is_repeat: bool
    from_shared: bool


def foreseen(worst: Usage, blocks: Sequence[Block]) -> Amount:
    """What a request is entered with into the books of a batch: at most what open blocks have for a call.

    Blocks go by what calls have used so far. `worst`, an answer as long as it may get, is a multiple of that:
    with it, the few requests in flight would take up what is kept for all the rows.
    """
    tokens = (block.each.tokens for block in blocks if block.each.tokens)
    costs = (block.each.cost_usd for block in blocks if block.each.cost_usd)
    return Amount(1, min((worst.total_tokens, *tokens)), min((worst.cost_usd or 0.0, *costs)))


def draw(used: Amount, blocks: Sequence[Block]) -> None:
    """Take what an answer used out of what open blocks have set aside, as the ledger does of their sum."""
    tokens, cost_usd = used.tokens, used.cost_usd
    for block in reversed(blocks):
        left = block.shared
        of_tokens, of_cost = min(tokens, left.tokens), min(cost_usd, left.cost_usd)
        block.shared = replace(left, tokens=left.tokens - of_tokens, cost_usd=left.cost_usd - of_cost)
        tokens, cost_usd = tokens - of_tokens, cost_usd - of_cost
