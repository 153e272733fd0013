"""What a request takes: tokens and money, as foreseen and as used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoprompt.llm.client import Options
from autoprompt.llm.prices import Price, Reported
from autoprompt.records import Message, Usage
from autoprompt.text.tokens import estimate_tokens

# What an answer without a limit is taken to need before it is there: a writer's, which is a prompt.
_LONG_ANSWER_TOKENS = 1000


@dataclass(frozen=True, slots=True)
class Costs:
    """price: of the model, None where unknown."""

    price: Price | Reported | None

    def tokens(self, messages: Sequence[Message], options: Options) -> int:
        """Of a request and its answer, for the rates."""
        return estimate_tokens(messages) + (options.max_output_tokens or 0)

    def expected(self, messages: Sequence[Message], options: Options) -> Usage:
        """Before it is sent, for the budget."""
        return self.of(Usage(estimate_tokens(messages), options.max_output_tokens or _LONG_ANSWER_TOKENS))

    def of(self, usage: Usage) -> Usage:
        """`usage` with its cost."""
        return replace(usage, cost_usd=self.price.cost(usage) if self.price is not None else None)
