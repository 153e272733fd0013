"""What a request takes, in tokens and money, and whether that fits under the limits that are left.

`Measured` keeps how many tokens requests and answers had so far, as the endpoint counts them; `Costs` adds
prices and foresees what the next request takes; `Demand` decides how long its answer may get. Limits and
rates go by what was measured and not by the longest answer allowed: a generous limit must not hold a run up.

While much is left, requests go out as they were asked for. When less is left than one answer of the longest
kind for each request on its way, their limits are lowered to what answers have needed so far, and fewer go
out at once: what is on its way can then never pass a cap by much, and a generous limit stops nobody.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autoprompt.llm.client import Options
from autoprompt.llm.limits.amounts import Amount, exhausted
from autoprompt.llm.prices import Price, Reported
from autoprompt.records import Message, Usage, record
from autoprompt.text.scripts import estimate_tokens

_ROUNDING = 1e-6  # of a token
_UNBOUNDED = 1 << 40  # tokens; more than any limit


@record
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


@record
class Demand:
    """What a request takes, for the caps that it has to fit under.

    likely: of request and answer. prompt: of the request alone, at most and with some to spare; `seen`: at
    most, by those so far.
    token_usd, seen_token_usd: the same of one token of the answer. limit: most tokens of the answer, as asked
    for; `enough` of them cut no answer like those so far, and `least` of them are worth a request.
    at_once: requests that may be on their way together. may_wait: for others to give back what they have set
    aside; otherwise that does not count, and the cap may be exceeded by one request.
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
    may_wait: bool = True

    def most(self, limit: int) -> Amount:
        """Return what it takes at most if its answer may have `limit` tokens."""
        return Amount(1, self.prompt.tokens + limit, self.prompt.cost_usd + limit * self.token_usd)

    def within(self, tokens: Left | None, cost_usd: Left | None) -> int | None:
        """Return the limit with which it may be sent now; None if it has to wait for others to end.

        None: no cap.

        Raises:
            BudgetExhausted: If nothing is on its way whose end could help.
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
        on_wire = left.on_wire if self.may_wait else 0.0
        free = _tokens_for(left.amount - on_wire - prompt, per_token)
        if wanted <= free:
            return wanted
        if enough <= free:
            return enough
        if on_wire > 0:
            return None
        # Alone, nothing is to spare: the last part of a cap is to be used, too.
        prompt, per_token = seen
        free = _tokens_for(left.amount - prompt, per_token)
        if free >= min(limit, self.least):
            return min(limit, free)
        if left.may_grow and self.may_wait:
            return None
        more = prompt + min(limit, self.least) * per_token
        raise exhausted(left.cap, left.limit, left.used, left.held, more)


NOTHING = Demand(Amount(1), Amount(), Amount(), 0.0, 0.0, limit=0, enough=0, least=0, at_once=1)
"""Of a request that no cap on tokens or cost is kept for."""


def _tokens_for(amount: float, per_token: float) -> int:
    if amount < 0 or math.isnan(amount):
        return -1
    return _UNBOUNDED if per_token * _UNBOUNDED <= amount else int(amount / per_token + _ROUNDING)


# Until the endpoint has counted one request: it may put a prompt of its own before the text, think beyond
# the limit, and cut text into many more tokens than expected.
_UNKNOWN_TIMES, _UNKNOWN_TOKENS = 10, 8192
_UNKNOWN_ANSWER = 256
# Rows differ; these hold for the largest of a few hundred when a few were seen.
_PROMPT_MARGIN, _ANSWER_MARGIN = 1.1, 8
# A proxy may put some pages before the prompts from one moment to the next. So many tokens more are set aside
# for each request on its way: near a cap fewer are, and what was sent by the old measure passes it by less.
_JUMP_TOKENS = 2048
_FEW_ANSWERS = 8  # fewer say nothing of how long the next one gets
_SHORTEST_LIMIT = 256


@dataclass(slots=True)
class _Sizes:
    """Requests of one size. times, extra: the largest count beside the estimate, as a factor and a sum.

    shortest, longest: by the estimate.
    """

    estimated: int = 0
    counted: int = 0
    times: float = 0.0
    extra: int = 0
    shortest: int = 1 << 40
    longest: int = 0

    def note(self, estimate: int, tokens: int) -> None:
        self.estimated += estimate
        self.counted += tokens
        self.times = max(self.times, tokens / max(1, estimate))
        self.extra = max(self.extra, tokens - estimate)
        self.shortest, self.longest = min(self.shortest, estimate), max(self.longest, estimate)

    def usual(self, estimate: int) -> int:
        """Return about what a request will be counted as."""
        return round(estimate * self.counted / max(1, self.estimated))

    def bounds(self, estimate: int) -> tuple[float, float]:
        """Return what a request may be counted as at most: by those so far, and in any case.

        An endpoint that multiplies is bounded by the factor, one that adds a prompt of its own by the sum.
        Between the shortest and the longest request so far each of the two holds for both kinds. A shorter
        one would pass the factor of an endpoint that adds, a longer one the sum of one that multiplies. Of
        one that is far longer nothing is known: a factor would forbid what fits.
        """
        parts = estimate * self.times, float(estimate + self.extra)
        is_far_longer = estimate.bit_length() > self.longest.bit_length()
        is_known = self.shortest <= estimate <= self.longest or is_far_longer
        return min(parts) if is_known else max(parts), max(parts)


@dataclass(slots=True)
class Answers:
    """Answers of one kind so far."""

    number: int = 0
    tokens: int = 0
    longest: int = 0

    @property
    def mean(self) -> float:
        return self.tokens / max(1, self.number)


@dataclass(slots=True)
class Measured:
    """What one model's requests and answers took. Thread-safe."""

    _sizes: dict[int, _Sizes] = field(default_factory=dict)
    _answers: dict[object, Answers] = field(default_factory=dict)
    _beyond: int = 0  # tokens by which an answer was longer than it was allowed to be
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: object, estimate: int, prompt: int, answer: int, limit: int | None) -> None:
        """Note an answer. kind: answers of one kind are about as long. estimate: of the prompt."""
        with self._lock:
            self._sizes.setdefault(estimate.bit_length(), _Sizes()).note(estimate, prompt)
            answers = self._answers.setdefault(kind, Answers())
            answers.number += 1
            answers.tokens += answer
            answers.longest = max(answers.longest, answer)
            if limit is not None:
                self._beyond = max(self._beyond, answer - limit)

    def usual(self, estimate: int, kind: object, limit: int | None) -> tuple[int, int]:
        """Return about how many tokens the endpoint will count for a prompt and for its answer."""
        with self._lock:
            sizes, answers = self._near(estimate), self._answers.get(kind)
            prompt = estimate if sizes is None else sizes.usual(estimate)
            answer = _UNKNOWN_ANSWER if answers is None else round(answers.mean)
            return prompt, answer if limit is None else min(limit, answer)

    def most_of_prompt(self, estimate: int) -> tuple[int, int]:
        """Return the most tokens that the endpoint will count: by those so far, and in any case."""
        with self._lock:
            sizes = self._near(estimate)
            if sizes is None:
                return estimate, _UNKNOWN_TIMES * estimate + _UNKNOWN_TOKENS
            seen, most = sizes.bounds(estimate)
            most = math.ceil(_PROMPT_MARGIN * most) + _JUMP_TOKENS
            return math.ceil(seen) + self._beyond, most + self._beyond

    @property
    def has_answers(self) -> bool:
        with self._lock:
            return bool(self._answers)

    def answers(self, kind: object) -> Answers:
        with self._lock:
            known = self._answers.get(kind)
            return Answers() if known is None else Answers(known.number, known.tokens, known.longest)

    def enough(self, kind: object, limit: int) -> int:
        """Return a limit that cuts no answer like those so far, at most `limit`."""
        answers = self.answers(kind)
        if answers.number < _FEW_ANSWERS:
            return limit
        return min(limit, max(_SHORTEST_LIMIT, _ANSWER_MARGIN * answers.longest))

    def least(self, kind: object) -> int:
        """Tokens that have to be left for an answer, if it is to be asked for at all."""
        answers = self.answers(kind)
        return max(1, min(answers.longest, round(2 * answers.mean)))

    def _near(self, estimate: int) -> _Sizes | None:
        """Of requests about as long; of those that come nearest, if there were none."""
        size = estimate.bit_length()
        if not self._sizes or size in self._sizes:
            return self._sizes.get(size)
        return self._sizes[min(self._sizes, key=lambda known: (abs(known - size), -known))]


_NO_LIMIT = 32_768  # tokens of an answer that no limit was asked for
_MARGIN = 1.1  # of what the dearest token so far cost, where there is no price
_UNKNOWN_USD = 1e3  # of a token, before anything is known: the first request goes alone
# More than this many times the price, and so many dollars besides, is no bill but a mistake. A fee for a
# search or a tool is cents, and a bill that is not believed is one that `max_cost` does not stop.
_MOST_TIMES, _MOST_FEE_USD = 100, 0.5
_OUTPUT_TIMES = 8  # what a token of output costs at most beside one of input, if only their sum is billed


@record
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
        cost_usd = priced if billed is None else billed
        return usage if cost_usd == usage.cost_usd else replace(usage, cost_usd=cost_usd)

    def note(self, asked: Asked, usage: Usage, limit: int | None) -> None:
        """Note an answer. usage: with its cost. limit: that it was asked with."""
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
        """Return about what a request and its answer take, for the rates."""
        return sum(self.measured.usual(asked.estimate, asked.kind, asked.limit))

    def demand(self, asked: Asked, at_once: int, *, is_whole: bool = False) -> Demand:
        """Return what a request takes, for the caps.

        at_once: requests that may be on their way together. is_whole: with the limit that was asked for, as
        its answer was cut by a lower one.
        """
        measured = self.measured
        about, answer = measured.usual(asked.estimate, asked.kind, asked.limit)
        seen, most = measured.most_of_prompt(asked.estimate)
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
    """Return the options with a lower limit of the answer, if the caps leave no more. limit: see `Charge`."""
    asked = _NO_LIMIT if options.max_output_tokens is None else options.max_output_tokens
    if limit is None or limit >= asked:
        return options
    return replace(options, max_output_tokens=limit)
