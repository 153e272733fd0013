"""What a call costs, from the table of `genai-prices` (imported on first use: 0.2 s)."""

from __future__ import annotations

from dataclasses import dataclass

from autoprompt.errors import ConfigError
from autoprompt.records import Usage
from autoprompt.settings.records import ModelSettings


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input_usd: float
    output_usd: float

    def cost(self, usage: Usage) -> float:
        """USD."""
        return (usage.prompt_tokens * self.input_usd + usage.completion_tokens * self.output_usd) / 1e6


class Reported:
    """The price of a client that says itself what an answer cost, in `Usage.cost_usd`."""

    def cost(self, usage: Usage) -> float | None:
        """USD; None where the client does not know."""
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


def check_prices(settings: ModelSettings) -> None:
    """Raises ConfigError where one of the two prices is given: a cost needs both."""
    given = {"--price-input": settings.price_input, "--price-output": settings.price_output}
    missing = [name for name, price in given.items() if price is None]
    if len(missing) == 1:
        (other,) = given.keys() - missing
        raise ConfigError(f"{other} is given without {missing[0]}: give both, in USD per million tokens.")


def find_price(
    model: str, base_url: str, *, price_input: float | None = None, price_output: float | None = None
) -> Price | None:
    """The price of a model at an endpoint; None where it is not known. The embedded model is `FREE`.

    price_input, price_output: USD per million tokens, both together instead of the table.
    A known model at an unknown address is not known: a proxy or one's own server sets its own price.
    """
    if price_input is not None and price_output is not None:
        return Price(price_input, price_output)
    import genai_prices

    try:
        parts = [
            float(genai_prices.calc_price(usage, model, provider_api_url=base_url).total_price)
            for usage in (
                genai_prices.Usage(input_tokens=1000, output_tokens=0),
                genai_prices.Usage(input_tokens=0, output_tokens=1000),
            )
        ]
    except LookupError:
        return None
    # Per thousand, as some prices rise with the length of the prompt; prompts here are short.
    return Price(*(part * 1000 for part in parts))
