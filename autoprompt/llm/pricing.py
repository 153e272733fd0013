"""What the models of a run cost a token, as far as it is known before anything is sent."""

from __future__ import annotations

from autoprompt.llm import CallRole
from autoprompt.llm.endpoints import choose_model
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import Models
from autoprompt.llm.prices import Price, Prices, price_given
from autoprompt.llm.stack import ConnectedModels
from autoprompt.settings.records import JUDGED, LOCAL, RunConfig


def prices_of(config: RunConfig, models: Models | None) -> Prices:
    """Of the models that the settings name, or of one's own models."""
    return _named(config) if models is None else _own(models, config)


def _named(config: RunConfig) -> Prices:
    """Of the models that are named or priced; which one an endpoint has else, only it could say."""
    models = ConnectedModels(config, budget=BudgetMeter())
    task = choose_model(config, "task")

    def price(role: CallRole) -> Price | None:
        choice = choose_model(config, role)
        if choice.model is None and not choice.is_local:
            return price_given(config) if choice == task else None
        return models.price(role)

    if config.metric != JUDGED:
        return Prices(price("task"), price("optimizer"))
    judge = choose_model(config, "judge")
    return Prices(price("task"), price("optimizer"), price("judge"), judge.model or judge.base_url or LOCAL)


def _own(models: Models, config: RunConfig) -> Prices:
    """The settings' prices, which are those of the task's client, whatever else it does."""

    def price(role: CallRole) -> Price | None:
        return price_given(config) if models.first_role(role) == "task" else None

    if config.metric != JUDGED:
        return Prices(price("task"), price("optimizer"))
    return Prices(price("task"), price("optimizer"), price("judge"), models.of("judge").name)
