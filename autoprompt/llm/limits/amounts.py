"""What a run asks for, sets aside and has used of its limits: records, and limits in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.client import ROLES, CallRole
from autoprompt.records import Usage, record
from autoprompt.text.names import counted

_TINY = 1e-9  # USD; sums of prices that should be equal differ by less


@record
class Amount:
    """Calls, tokens (prompt and completion) and USD."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.cost_usd + other.cost_usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.calls - other.calls, self.tokens - other.tokens, self.cost_usd - other.cost_usd)


@dataclass(slots=True)
class Spent:
    """What a run has used so far. Requests count when they are sent, failed ones and retries included.

    repeats: those of the calls that repeated a request which had failed or come back empty.
    asked_again: those that asked for another answer, as the one before could not be read.
    known_cost_usd: of the answers whose price is known; what a cap on cost counts.
    """

    task_calls: int = 0
    optimizer_calls: int = 0
    judge_calls: int = 0
    repeats: int = 0
    asked_again: int = 0
    task: Usage = Usage()
    optimizer: Usage = Usage()
    judge: Usage = Usage()
    seconds: float = 0.0
    known_cost_usd: float = 0.0

    @property
    def calls(self) -> int:
        return self.task_calls + self.optimizer_calls + self.judge_calls

    @property
    def usage(self) -> Usage:
        return self.task + self.optimizer + self.judge

    @property
    def tokens(self) -> int:
        return self.task.total_tokens + self.optimizer.total_tokens + self.judge.total_tokens

    @property
    def cost_usd(self) -> float | None:
        """None as soon as one answer had an unknown price."""
        return self.usage.cost_usd

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the totals beside the parts."""
        # Name by name: `asdict` copies deeply, and an event after each row has this.
        parts = {name: getattr(self, name) for name in _SPENT}
        usages: dict[str, Any] = {
            name: {part: getattr(parts[name], part) for part in _USAGE} for name in ROLES
        }
        total = {"calls": self.calls, "tokens": self.tokens, "cost_usd": self.cost_usd}
        return {**parts, **usages, **total}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Spent:
        known = {part.name: data[part.name] for part in fields(cls)}
        usages = {role: Usage(**known[role]) for role in ("task", "optimizer", "judge")}
        return cls(**{**known, **usages})


_SPENT = tuple(part.name for part in fields(Spent))
_USAGE = tuple(part.name for part in fields(Usage))


def check_cap(cap: str, limit: float | None, used: float, more: float, held: float = 0.0) -> None:
    """Raise BudgetExhausted if `more` would pass the limit. held: kept back for later.

    A need of known size may fill a cap exactly. Without one, as for the tokens of a single call, a full cap
    is reached; calls in a block are paid already, so theirs is not.
    """
    if limit is None or used + held + more < limit:
        return
    if used + held + more == limit and (more > 0 or cap == "max_calls"):
        return
    raise exhausted(cap, limit, used, held, more)


def exhausted(cap: str, limit: float, used: float, held: float, more: float) -> BudgetExhausted:
    """Return the error that says how a cap was reached, in its unit."""
    shown = _SHOWN[cap]
    given = f"{cap}={_number(round(limit, 1) if cap == 'max_seconds' else limit)}"
    if over := excess(cap, limit, used):
        return BudgetExhausted(cap, f"{given} {over}", (held, more))
    parts = [f"{shown(used)} used"]
    if held:
        parts.append(f"{_bare(cap, held)} kept back for the end")
    if more:  # left out where it is not known beforehand
        parts.append(f"{_bare(cap, more)} more needed")
    return BudgetExhausted(cap, f"{given} reached: {', '.join(parts)}", (held, more))


def excess(cap: str, limit: float, used: float) -> str:
    """Return by how much a cap on what the endpoint counts was exceeded; "" if it was not."""
    if cap not in ("max_tokens", "max_cost") or used <= limit + _TINY:
        return ""
    share = (used - limit) / limit
    return f"exceeded by {_bare(cap, used - limit)} ({share:.1%}): {_SHOWN[cap](used)} used"


def _number(value: float, *, digits: int = 15) -> str:
    """As a person writes it: never 1e-05."""
    return f"{Decimal(f'{value:.{digits}g}'):f}"


def _calls(count: float) -> str:
    return counted(round(count), "call")


def _tokens(count: float) -> str:
    return counted(round(count), "token")


def _usd(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${_number(cost, digits=4)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s"


_SHOWN = {"max_calls": _calls, "max_tokens": _tokens, "max_cost": _usd, "max_seconds": _seconds}


def _bare(cap: str, value: float) -> str:
    """Without its unit, which stands before it."""
    return _SHOWN[cap](value).partition(" ")[0]


@record
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


@record
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
