"""What a call with a candidate costs: by what its rows took and what was paid for them."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from autoprompt.llm.prices import (
    CACHED_FROM,
    COLD,
    TOKENS,
    CallUsage,
    Cost,
    Price,
    Rates,
    Traffic,
    cost_per_call,
    fit_rates,
)
from autoprompt.measure.cost import FRAME_TOKENS, constant_tokens, prompt_tokens, row_tokens
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.records import Usage

# Late rows without a hit that say that a prompt is not cached: if half of such rows met the cache, one prompt
# in 256 would have no hit by chance.
_ENOUGH_LATE = 8


@dataclass(slots=True)
class CallCosts:
    """What a call costs with each candidate of a pool.

    fields: names that a prompt is filled in with; what begins with the first of them is not constant.
    input_tokens: of a row's input, on average. traffic: how often the winner is to be called. price: of the
    task's model; None if it is not known.
    """

    pool: Pool
    input_field: str
    fields: Collection[str]
    input_tokens: float
    traffic: Traffic = COLD
    price: Price | None = None
    _texts: dict[str, tuple[list[float], int]] = field(init=False, default_factory=dict)
    _rates: tuple[object, Rates] = field(init=False, default=(None, TOKENS))

    def of(self, entry: Entry, traffic: Traffic | None = None) -> Cost:
        """Return what a call with the candidate costs: as measured, or by its texts before it has answered.

        In money if the price is known or the answers name their cost, in seconds on a model of one's own that
        says how long it took, else in tokens. All candidates of a run have the same unit as soon as one has
        answered.

        Args:
            entry: Of the pool.
            traffic: By default the one that the run is for.
        """
        traffic = self.traffic if traffic is None else traffic
        rates = self.rates
        return cost_per_call(self._usage_per_call(entry, rates), rates, traffic)

    def amount(self, entry: Entry) -> float:
        """Return the same without its unit, to compare candidates of this run."""
        return self.of(entry).amount

    def tokens(self, entry: Entry) -> int:
        """Return how many tokens a call with the candidate has, prompt and answer, as `of` knows it."""
        usage = self._usage_per_call(entry, self.rates)
        return round(usage.prompt + usage.completion)

    @property
    def rates(self) -> Rates:
        """What tokens cost, by all that the candidates have taken so far."""
        known_by = self.price, sum(entry.measured.rows for entry in self.pool.entries)
        if self._rates[0] != known_by:
            self._rates = known_by, self._find_rates()
        return self._rates[1]

    def _find_rates(self) -> Rates:
        """Return the price of the task's model, if it explains what the answers cost; else fitted rates."""
        entries = [entry.measured for entry in self.pool.entries if entry.measured.rows]
        taken = sum((measured.usage for measured in entries), Usage())
        price = self.price if self.price is not None and self.price.is_known else None
        if price is not None and not entries:
            return price.rates
        if paid := taken.cost_usd:
            listed = price.cost(taken) if price is not None else 0.0
            if price is not None and listed:
                if math.isclose(paid, listed, rel_tol=1e-6):
                    return price.rates
                before = price.rates.times(paid / listed)
            else:
                token = 1e6 * paid / taken.total_tokens if taken.total_tokens else 0.0
                before = Rates("usd", token, token, token, token)
            return fit_rates(((measured.rows, measured.usage) for measured in entries), before)
        if taken.read_s and taken.uncached_tokens:
            writing = 1e6 * taken.write_s / max(1, taken.completion_tokens)
            return Rates("seconds", 1e6 * taken.read_s / taken.uncached_tokens, writing, 0.0, 0.0)
        return TOKENS

    def _usage_per_call(self, entry: Entry, rates: Rates) -> CallUsage:
        """Means over the rows that it answered; before that, those of the original and what it is longer."""
        measured, candidate, field = entry.measured, entry.candidate, self.input_field
        usage, rows = measured.usage, measured.rows
        paid = usage.cost_usd / rows if rates.unit == "usd" and usage.cost_usd else None
        if not usage.total_tokens and paid is None:  # a client of one's own need not count them
            original = self.pool.original
            if entry is original or not original.measured.rows:
                return CallUsage(row_tokens(candidate, field), 0.0)
            known = self._usage_per_call(original, rates)
            longer = prompt_tokens(candidate, field) - prompt_tokens(original.candidate, field)
            written = row_tokens(candidate, field) - row_tokens(original.candidate, field) - longer
            prompt, completion = max(0.0, known.prompt + longer), max(0.0, known.completion + written)
            if known.paid is not None:
                more = (prompt - known.prompt) * rates.input + (completion - known.completion) * rates.output
                paid = cost_per_call(known, rates, COLD).amount + more / 1e6
            return CallUsage(prompt, completion, self._prefix(entry, rates), paid)
        return CallUsage(
            usage.prompt_tokens / rows,
            usage.completion_tokens / rows,
            self._prefix(entry, rates),
            paid,
            usage.cached_tokens / rows,
            usage.cache_write_tokens / rows,
        )

    def _prefix(self, entry: Entry, rates: Rates) -> float:
        """Return how many tokens of a call the provider reads from its cache once it has seen the prompt.

        As counted; until then by the texts. A model of one's own keeps every prefix.
        """
        measured = entry.measured
        if measured.hits:
            return measured.usage.cached_tokens / measured.hits
        if rates.unit == "seconds":
            return sum(tokens for tokens in self._text_tokens(entry)[0] if tokens >= 0)
        if rates.cached >= rates.input:
            return 0.0
        prefix = self._long_prefix(entry)
        return prefix if prefix and self._is_cached(entry) else 0.0

    def _long_prefix(self, entry: Entry) -> float:
        """Return the tokens that are equal in all rows, of the requests with enough of them to be cached.

        By the texts; if the endpoint has counted prompts, in its tokens.
        """
        (constant, total), scale = self._text_tokens(entry), 1.0
        if counted := entry.measured.usage.prompt_tokens:
            scale = counted / entry.measured.rows / (total + self.input_tokens + FRAME_TOKENS)
        return sum(scale * tokens for tokens in constant if scale * tokens >= CACHED_FROM)

    def _is_cached(self, entry: Entry) -> bool:
        """Return whether the provider may have a long prefix in its cache, by what it has counted so far.

        Rows that came late and met no cache speak for their candidate, and for all if no row has met one.
        """
        if entry.measured.late_rows >= _ENOUGH_LATE:
            return False
        others = [other for other in self.pool.entries if other.measured.late_rows >= _ENOUGH_LATE]
        has_hit = any(other.measured.hits for other in self.pool.entries)
        return has_hit or not any(map(self._long_prefix, others))

    def _text_tokens(self, entry: Entry) -> tuple[list[float], int]:
        """About how many tokens are constant in each request of a row, and of all texts; counted once."""
        candidate, field = entry.candidate, self.input_field
        if candidate.id not in self._texts:
            constant = constant_tokens(candidate, field, self.fields)
            self._texts[candidate.id] = constant, prompt_tokens(candidate, field)
        return self._texts[candidate.id]
