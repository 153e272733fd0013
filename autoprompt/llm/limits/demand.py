"""Whether a request fits under the caps that are left, and how long its answer may then get.

While much is left, requests go out as they were asked for. When less is left than one answer of the longest
kind for each request on its way, their limits are lowered to what answers have needed so far, and fewer go
out at once: what is on its way can then never pass a cap by much, and a generous limit stops nobody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoprompt.llm.limits.spent import exhausted

_ROUNDING = 1e-6  # of a token
_UNBOUNDED = 1 << 40  # tokens; more than any limit


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls, tokens (prompt and completion) and USD."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.cost_usd + other.cost_usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.calls - other.calls, self.tokens - other.tokens, self.cost_usd - other.cost_usd)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a cap, in its unit.

    used, held: what was used of it, and what is kept back for later. on_wire: most that the requests on their
    way may take. may_grow: others may give back some of what they have set aside.
    """

    cap: str
    limit: float
    used: float
    held: float = 0.0
    on_wire: float = 0.0
    may_grow: bool = False

    @property
    def amount(self) -> float:
        """With what is on its way."""
        return self.limit - self.used - self.held


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request takes, for the caps that it has to fit under.

    likely: of request and answer. prompt: of the request alone, at most and with some to spare; `seen`: at
    most, by those so far.
    token_usd, seen_token_usd: the same of one token of the answer. limit: most tokens of the answer, as asked
    for; `enough` of them cut no answer like those so far, and `least` of them are worth a request.
    at_once: requests that may be on their way together.
    """

    likely: Amount
    prompt: Amount
    seen: Amount
    token_usd: float
    seen_token_usd: float
    limit: int
    enough: int
    least: int
    at_once: int

    def most(self, limit: int) -> Amount:
        """What it takes at most if its answer may have `limit` tokens."""
        return Amount(1, self.prompt.tokens + limit, self.prompt.cost_usd + limit * self.token_usd)

    def within(self, tokens: Left | None, cost_usd: Left | None) -> int | None:
        """The limit with which it may be sent now; None if it has to wait for others to end.

        None: no cap. Raises BudgetExhausted if nothing is on its way whose end could help.
        """
        limit: int | None = self.limit
        parts = (
            (tokens, (self.prompt.tokens, 1.0), (self.seen.tokens, 1.0)),
            (cost_usd, (self.prompt.cost_usd, self.token_usd), (self.seen.cost_usd, self.seen_token_usd)),
        )
        for left, at_most, seen in parts:
            if left is not None and limit is not None:
                limit = self._within(left, at_most, seen, limit)
        return limit

    def _within(
        self, left: Left, at_most: tuple[float, float], seen: tuple[float, float], limit: int
    ) -> int | None:
        """at_most, seen: what the prompt takes, and a token of the answer."""
        prompt, per_token = at_most
        enough = min(limit, self.enough)
        share = _tokens_for(left.amount / self.at_once - prompt, per_token)
        wanted = min(limit, max(enough, share))
        free = _tokens_for(left.amount - left.on_wire - prompt, per_token)
        if wanted <= free:
            return wanted
        if enough <= free:
            return enough
        if left.on_wire > 0:
            return None
        # Alone, nothing is to spare: the last part of a cap is to be used, too.
        prompt, per_token = seen
        free = _tokens_for(left.amount - prompt, per_token)
        if free >= min(limit, self.least):
            return min(limit, free)
        if left.may_grow:
            return None
        more = prompt + min(limit, self.least) * per_token
        raise exhausted(left.cap, left.limit, left.used, left.held, more)


NOTHING = Demand(Amount(1), Amount(), Amount(), 0.0, 0.0, limit=0, enough=0, least=0, at_once=1)
"""Of a request that no cap on tokens or cost is kept for."""


def _tokens_for(amount: float, per_token: float) -> int:
    if amount < 0 or math.isnan(amount):
        return -1
    return _UNBOUNDED if per_token * _UNBOUNDED <= amount else int(amount / per_token + _ROUNDING)
