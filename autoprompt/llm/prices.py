"""What a call costs, from the table of `genai-prices` (imported on first use: 0.2 s)."""

from __future__ import annotations

from dataclasses import dataclass

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.records import Usage
from autoprompt.settings.records import ModelSettings

# Writing a prompt to the cache costs a quarter more than sending it, at Anthropic and at all others whose
# usage tells such tokens apart and whose price is not in the table.
_CACHE_WRITE = 1.25


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
    def write_usd(self) -> float:
        return _CACHE_WRITE * self.input_usd if self.cache_write_usd is None else self.cache_write_usd

    def cost(self, usage: Usage) -> float:
        """Return USD."""
        cached = self.input_usd if self.cached_usd is None else self.cached_usd
        return (
            usage.uncached_tokens * self.input_usd
            + usage.cached_tokens * cached
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
