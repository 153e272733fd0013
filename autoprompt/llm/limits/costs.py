"""What a request takes, in tokens and money: as foreseen, at most, and as used."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoprompt.llm.client import Options
from autoprompt.llm.limits.demand import Amount, Demand
from autoprompt.llm.limits.measured import Measured
from autoprompt.llm.prices import Price, Reported
from autoprompt.records import Message, Usage
from autoprompt.text.tokens import estimate_tokens

_NO_LIMIT = 32_768  # tokens of an answer that no limit was asked for
_MARGIN = 1.1  # of what the dearest token so far cost, where there is no price
_UNKNOWN_USD = 1e3  # of a token, before anything is known: the first request goes alone
# More than this many times the price, and so many dollars besides, is no bill but a mistake. A fee for a
# search or a tool is cents, and a bill that is not believed is one that `max_cost` does not stop.
_MOST_TIMES, _MOST_FEE_USD = 100, 0.5
_OUTPUT_TIMES = 8  # what a token of output costs at most beside one of input, if only their sum is billed


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to come. estimate: tokens of its prompt, by its length. kind: see `Measured.note`."""

    estimate: int
    kind: object
    limit: int | None

    @classmethod
    def of(cls, messages: Sequence[Message], options: Options) -> Asked:
        tools = sum(estimate_tokens(tool.description + tool.parameters) for tool in options.tools)
        kind = options.role, bool(options.labels)
        return cls(estimate_tokens(messages) + tools, kind, options.max_output_tokens)


class Costs:
    """Of one model. price: None if it is not known. Thread-safe."""

    def __init__(self, price: Price | Reported | None) -> None:
        self._price = price
        self.measured = Measured()
        self._lock = threading.Lock()
        self._paid = self._listed = 0.0  # USD of all answers: as it was, and without any discount
        self._dearest = 0.0  # what an answer cost at most, as a multiple of the price
        self._has_cache = False  # some of a prompt was read from the provider's cache, or written to it
        self._dearest_token = 0.0  # USD, where there is no price to compare with
        self.rejected_usd: float | None = None  # the first bill that cannot be right

    def of(self, usage: Usage) -> Usage:
        """`usage` with its cost: the endpoint's own bill, else by the price."""
        billed = usage.billed_usd
        priced = None if self._price is None else self._price.cost(usage)
        if billed is not None and priced and billed > _MOST_TIMES * priced + _MOST_FEE_USD:
            if self.rejected_usd is None:
                self.rejected_usd = billed
            usage, billed = replace(usage, billed_usd=None), None
        return replace(usage, cost_usd=priced if billed is None else billed)

    def note(self, asked: Asked, usage: Usage, limit: int | None) -> None:
        """An answer came. usage: with its cost. limit: that it was asked with."""
        prompt, answer = usage.prompt_tokens, usage.completion_tokens
        self.measured.note(asked.kind, asked.estimate, prompt, answer, limit)
        if usage.cost_usd is None or not usage.total_tokens:
            return
        with self._lock:
            self._has_cache |= usage.uncached_tokens < prompt
            self._dearest_token = max(self._dearest_token, usage.cost_usd / usage.total_tokens)
            if isinstance(self._price, Price):
                self._paid += usage.cost_usd
                self._listed += self._price.cost(Usage(prompt, answer))
                if (priced := self._price.cost(usage)) > 0:
                    self._dearest = max(self._dearest, usage.cost_usd / priced)

    def tokens(self, asked: Asked) -> int:
        """About what a request and its answer take, for the rates."""
        return self.measured.prompt(asked.estimate)[0] + self.measured.usual_answer(asked.kind, asked.limit)

    def demand(self, asked: Asked, at_once: int, *, is_whole: bool = False) -> Demand:
        """What a request takes, for the caps.

        at_once: requests that may be on their way together. is_whole: with the limit that was asked for, as
        its answer was cut by a lower one.
        """
        measured = self.measured
        about, seen, most = measured.prompt(asked.estimate)
        answer = measured.usual_answer(asked.kind, asked.limit)
        limit = _NO_LIMIT if asked.limit is None else asked.limit
        input_usd, output_usd = self._highest_price()
        is_known = measured.has_answers or isinstance(self._price, Price)
        return Demand(
            likely=Amount(1, about + answer, self._likely_usd(about, answer)),
            prompt=Amount(0, most, most * input_usd),
            seen=Amount(0, seen, seen * input_usd if is_known else 0.0),
            token_usd=output_usd,
            seen_token_usd=output_usd if is_known else 0.0,
            limit=limit,
            enough=limit if is_whole else measured.enough(asked.kind, limit),
            least=measured.least(asked.kind),
            at_once=at_once,
        )

    def _highest_price(self) -> tuple[float, float]:
        """USD of a token sent, and of one written, at most."""
        with self._lock:
            price, dearest, token = self._price, self._dearest, self._dearest_token
            has_cache = self._has_cache
        if isinstance(price, Price):
            times = max(1.0, dearest) / 1e6
            sent_usd = max(price.input_usd, price.write_usd) if has_cache else price.input_usd
            return sent_usd * times, price.output_usd * times
        if not self.measured.has_answers:
            return _UNKNOWN_USD, _UNKNOWN_USD
        return token * _MARGIN, token * _MARGIN * _OUTPUT_TIMES

    def _likely_usd(self, prompt: int, answer: int) -> float:
        with self._lock:
            price, paid, listed, token = self._price, self._paid, self._listed, self._dearest_token
        if isinstance(price, Price):
            return price.cost(Usage(prompt, answer)) * (paid / listed if listed > 0 else 1.0)
        return token * (prompt + answer)


def within(limit: int | None, options: Options) -> Options:
    """The options with a lower limit of the answer, if the caps leave no more. limit: see `Charge`."""
    asked = _NO_LIMIT if options.max_output_tokens is None else options.max_output_tokens
    if limit is None or limit >= asked:
        return options
    return replace(options, max_output_tokens=limit)
