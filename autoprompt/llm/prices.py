"""What a call costs: prices, from the table of `genai-prices` (imported on first use: 0.2 s), and traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from autoprompt.brief import brief
from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.records import Usage
from autoprompt.settings.records import ModelSettings
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.llm.client import CallRole

# Writing a prompt to the cache costs a quarter more than sending it, at Anthropic and at all others whose
# usage tells such tokens apart and whose price is not in the table.
_CACHE_WRITE = 1.25

# From so many tokens on OpenAI caches the beginning of a request, and for so long at least: its guide to
# prompt caching says "5-10 minutes of inactivity". Five minutes are Anthropic's default, too.
CACHED_FROM = 1024
CACHE_LIFE_MINUTES = 5.0

Unit = Literal["usd", "seconds", "tokens"]


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What a call takes on average, in tokens; where a row takes several calls, all of them together.

    prompt, completion: as in `Usage`, thoughts included.
    prefix: of `prompt`, what the provider reads from its cache once it has seen the prompt.
    paid: what such a call cost, in the unit of the rates; None if that is for the rates to say.
    cached, written: of `prompt`, what was read from the provider's cache in the calls that cost this, and
    what was written to it.
    """

    prompt: float
    completion: float
    prefix: float = 0.0
    paid: float | None = None
    cached: float = 0.0
    written: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What a million tokens cost, in one unit.

    cached: of input that the provider has in its cache. written: of input that it puts there.
    """

    unit: Unit
    input: float
    output: float
    cached: float
    written: float

    def times(self, factor: float) -> Rates:
        """Return them all so many times as high."""
        rates = (factor * rate for rate in (self.input, self.output, self.cached, self.written))
        return Rates(self.unit, *rates)


TOKENS = Rates("tokens", 1e6, 1e6, 1e6, 1e6)


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """What a call costs, on average.

    Examples:
        >>> Cost(0.00031, "usd").shown(1000)
        '$0.31'
        >>> Cost(412.0, "tokens").shown()
        '412 tokens'
    """

    amount: float
    """In `unit`, under the run's setting `traffic`."""
    unit: Unit
    """US dollars; seconds with a model on this machine; weighted tokens if the price is not known, or 0."""

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"amount": self.amount, "unit": self.unit}

    def shown(self, calls: int = 1) -> str:
        """Return what so many calls cost, for people."""
        amount = self.amount * calls
        digits = 0 if amount >= 100 else 2 if amount >= 1 else 4
        if self.unit == "usd":
            return f"${amount:,.2f}" if amount >= 0.1 else f"${amount:.3g}"
        if self.unit == "seconds":
            return f"{amount:,.{digits}f} s"
        return counted(round(amount), "token")


@dataclass(frozen=True, slots=True)
class Traffic:
    """How often calls come: whether the provider still has the beginning of a request.

    calls_per_hour: 0 if each call pays for its whole prompt, `math.inf` if none does.

    >>> round(Traffic.read("12").hit_share, 2)
    0.63
    """

    calls_per_hour: float = 0.0

    @classmethod
    def read(cls, text: str) -> Traffic:
        """Read `cold`, `warm` or a number of calls per hour.

        Raises:
            ValueError: For anything else.
        """
        known = {"cold": 0.0, "warm": math.inf}
        number = known[text] if text in known else float(text)
        if number < 0 or math.isnan(number):
            raise ValueError(text)
        return cls(number)

    @property
    def hit_share(self) -> float:
        """The chance that a call comes within the cache's life after the one before it (Poisson)."""
        return 1.0 - math.exp(-self.calls_per_hour * CACHE_LIFE_MINUTES / 60)


COLD, WARM = Traffic(), Traffic(math.inf)


def cost_per_call(usage: CallUsage, rates: Rates, traffic: Traffic = COLD) -> Cost:
    """Return what one call costs under this traffic, in the unit of the rates.

    What was paid for such calls is corrected by the rates for the tokens that meet the cache more often under
    this traffic, or less often. What writes its prefix to the cache does so in each call that misses it.

    >>> rates = Rates("usd", input=1.0, output=4.0, cached=0.1, written=1.25)
    >>> cost_per_call(CallUsage(2000, 10, prefix=1900), rates, COLD).shown(1000)
    '$2.04'
    >>> cost_per_call(CallUsage(2000, 10, prefix=1900), rates, WARM).shown(1000)
    '$0.33'
    >>> cost_per_call(CallUsage(2000, 10, prefix=1900, paid=0.0005, cached=1900), rates, COLD).shown(1000)
    '$2.21'
    """
    share, prefix = traffic.hit_share, min(usage.prefix, usage.prompt)
    cached = share * prefix
    if usage.paid is None:
        tokens = (usage.prompt - cached) * rates.input + cached * rates.cached
        return Cost((tokens + usage.completion * rates.output) / 1e6, rates.unit)
    written = (1.0 - share) * prefix if usage.written and prefix else usage.written
    more = (cached - usage.cached) * (rates.cached - rates.input)
    more += (written - usage.written) * (rates.written - rates.input)
    return Cost(max(0.0, usage.paid + more / 1e6), rates.unit)


_RIDGE = 1e-6  # how much the rates before count beside what calls have cost


def fit_rates(paid: Iterable[tuple[int, Usage]], before: Rates) -> Rates:
    """Return the rates by which calls cost what was paid for them: least squares over candidates.

    What leaves a rate open, as calls of one length do, leaves it near `before`. The price of tokens of which
    there were none keeps its ratio to that of input.

    Args:
        paid: Calls, and what these calls took together, cost included.
        before: What else is known of the rates.
    """
    kinds = range(4)
    known = (before.input, before.output, before.cached, before.written)
    matrix = [[0.0] * 4 for _ in kinds]
    vector = [0.0] * 4
    for calls, usage in paid:
        tokens = (
            usage.uncached_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
        )
        for i in kinds:
            vector[i] += 1e6 * (usage.cost_usd or 0.0) * tokens[i] / calls
            for j in kinds:
                matrix[i][j] += tokens[i] * tokens[j] / calls
    is_seen = [matrix[i][i] > 0 for i in kinds]
    for i in kinds:
        near = _RIDGE * matrix[i][i] if is_seen[i] else 1.0
        matrix[i][i] += near
        vector[i] += near * known[i]
    input_, output, cached, written = (max(0.0, rate) for rate in _solved(matrix, vector))
    ratio = input_ / before.input if before.input else 1.0
    return Rates(
        before.unit,
        input_,
        output,
        min(input_, cached if is_seen[2] else ratio * before.cached),
        written if is_seen[3] else ratio * before.written,
    )


def _solved(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    """Return the solution of linear equations, by elimination. matrix: positive definite."""
    rows = [[*row, value] for row, value in zip(matrix, vector, strict=True)]
    for i in range(len(rows)):
        pivot = rows[i] = [value / rows[i][i] for value in rows[i]]
        for j, row in enumerate(rows):
            if j != i:
                rows[j] = [value - row[i] * of_pivot for value, of_pivot in zip(row, pivot, strict=True)]
    return [row[-1] for row in rows]


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens.

    cached_usd: of input that the provider has in its cache. None: that of other input, so that a cap on cost
    holds if the discount is not known. cache_write_usd: of input that it puts there.
    """

    input_usd: float
    output_usd: float
    cached_usd: float | None = None
    cache_write_usd: float | None = None

    @property
    def read_usd(self) -> float:
        return self.input_usd if self.cached_usd is None else self.cached_usd

    @property
    def write_usd(self) -> float:
        return _CACHE_WRITE * self.input_usd if self.cache_write_usd is None else self.cache_write_usd

    @property
    def is_known(self) -> bool:
        """Whether it is the price of anything: a model of one's own costs seconds."""
        return self.input_usd > 0 or self.output_usd > 0

    @property
    def rates(self) -> Rates:
        """The same for what a call costs on average."""
        return Rates("usd", self.input_usd, self.output_usd, self.read_usd, self.write_usd)

    def cost(self, usage: Usage) -> float:
        """Return USD."""
        return (
            usage.uncached_tokens * self.input_usd
            + usage.cached_tokens * self.read_usd
            + usage.cache_write_tokens * self.write_usd
            + usage.completion_tokens * self.output_usd
        ) / 1e6


class Reported:
    """The price of a client that says itself what an answer cost, in `Usage.cost_usd`."""

    def cost(self, usage: Usage) -> float | None:
        """Return USD; None if the client does not know."""
        return usage.cost_usd


@dataclass(frozen=True, slots=True)
class Prices:
    """Of the models of a run; None where one is not known. judge_model: its name, as far as it has one."""

    task: Price | None = None
    optimizer: Price | None = None
    judge: Price | None = None
    judge_model: str = ""

    def missing(self, roles: Iterable[CallRole]) -> tuple[CallRole, ...]:
        """Return those of the roles whose price is not known."""
        return tuple(role for role in roles if getattr(self, role) is None)


FREE = Price(0.0, 0.0)
REPORTED = Reported()
_UNIT = "in USD per million tokens"


def check_prices(settings: ModelSettings) -> None:
    """Check that the prices of input and output are both given, or neither.

    A price of cached input needs both, too.

    Raises:
        ConfigError: If one is missing.
    """
    given = {"price_input": settings.price_input, "price_output": settings.price_output}
    missing = [name for name, price in given.items() if price is None]
    if len(missing) == 1:
        (other,) = given.keys() - missing
        said, fix = "this price is given without the other one", f"Give {{{missing[0]}}} too, {_UNIT}."
        raise ConfigError(
            Problem("settings.missing-price", said, Place(setting=other), fix, dict.fromkeys(missing))
        )
    if missing and settings.price_cached_input is not None:
        said, fix = (
            "this price is given without the others",
            f"Give {{price_input}} and {{price_output}} too, {_UNIT}.",
        )
        place = Place(setting="price_cached_input")
        raise ConfigError(Problem("settings.missing-price", said, place, fix, dict.fromkeys(given)))


def price_given(settings: ModelSettings) -> Price | None:
    """Return the task model's price if the settings have it."""
    if settings.price_input is None or settings.price_output is None:
        return None
    return Price(settings.price_input, settings.price_output, settings.price_cached_input)


def find_price(model: str, base_url: str) -> Price | None:
    """Return the table's price of a model at an endpoint; None if it is not known.

    A known model at an unknown address is not known: a proxy or one's own server sets its own price.
    """
    import genai_prices

    # A thousand tokens of each kind, as some prices rise with the length of the prompt; prompts here are
    # short.
    kinds = (
        genai_prices.Usage(input_tokens=1000, output_tokens=0),
        genai_prices.Usage(input_tokens=0, output_tokens=1000),
        genai_prices.Usage(input_tokens=1000, cache_read_tokens=1000, output_tokens=0),
        genai_prices.Usage(input_tokens=1000, cache_write_tokens=1000, output_tokens=0),
    )
    try:
        found = [genai_prices.calc_price(kind, model, provider_api_url=base_url) for kind in kinds]
    except LookupError:
        return None
    return Price(*(float(price.total_price) * 1000 for price in found))
