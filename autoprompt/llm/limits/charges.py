"""What is wanted, set aside and counted of a budget: the records that `budget` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoprompt.llm.client import CallRole
from autoprompt.llm.limits.demand import Amount


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
    """A request that was counted. block: the one that paid for it. from_shared: also in the ledger.

    limit: most tokens that its answer may have; None: as asked for. likely, most: what it takes.
    """

    role: CallRole
    block: Block | None
    is_retry: bool
    is_repeat: bool
    from_shared: bool
    likely: Amount = Amount(1)
    most: Amount = Amount(1)
    limit: int | None = None


def draw(used: Amount, blocks: Sequence[Block]) -> None:
    """Take what an answer used out of what open blocks have set aside, as the ledger does of their sum."""
    tokens, cost_usd = used.tokens, used.cost_usd
    for block in reversed(blocks):
        left = block.shared
        of_tokens, of_cost = min(tokens, left.tokens), min(cost_usd, left.cost_usd)
        block.shared = replace(left, tokens=left.tokens - of_tokens, cost_usd=left.cost_usd - of_cost)
        tokens, cost_usd = tokens - of_tokens, cost_usd - of_cost
