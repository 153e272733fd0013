"""The models of a workflow: what its nodes name, where they are reached, and what overrides them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autoprompt.errors import AuthenticationError, ConfigError, Place, Problem
from autoprompt.llm.client import Client, Completion, Options
from autoprompt.llm.endpoints import (
    KEYLESS,
    PROVIDERS,
    WITHOUT_KEY,
    ModelChoice,
    address_variable,
    choose_model,
    key_variable,
    model_without_address,
    read_key,
)
from autoprompt.llm.kept.cache import ResponseCache, request_key
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import Answered, Tally
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels
from autoprompt.llm.traits import KnownTraits, traits_of
from autoprompt.records import Message
from autoprompt.settings.records import ModelSettings, openai_address
from autoprompt.settings.trust import check_not_left_out

COMPLETION_PARAMS = ("temperature", "max_tokens", "stop", "seed")  # those that are sent

_log = logging.getLogger(__name__)


class ModelSpec(BaseModel):
    """A model as a node names it; a bare text is its name.

    completion_params: temperature, max_tokens, stop, seed; others are not sent, which validation tells.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    provider: str = ""
    name: str
    mode: str = "chat"
    completion_params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _tolerant(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping):
            return value
        given = {name: part for name, part in value.items() if part is not None}
        if not given.get("name") and "model" in given:
            given["name"] = given["model"]  # as agents' parameters spell it
        return given


class ModelSource(Protocol):
    """Where nodes get their models. Safe to call from several threads at once."""

    def client(self, spec: ModelSpec | None, slot: str) -> Client:
        """Return the model that `spec` names.

        Args:
            slot: The place in the run that asks.

        Raises:
            ConfigError: Neither the node nor the run names a model, or its provider's address is unknown.
            AuthenticationError: The provider's key is not set.
        """
        ...

    @property
    def overrides(self) -> bool:
        """Whether every node gets the same model, whatever it names."""
        ...

    def warnings(self) -> list[Problem]:
        """Return what the answers so far say of their models: another one than asked for, or several."""
        ...

    def close(self) -> None: ...


class OneModel:
    """One client for all nodes, whatever they name: scripted ones in tests, the optimizer's own.

    The client stays its owner's. With a journal, what it has answered at one place of a run is not asked
    again there; equal questions from two places are two questions.
    """

    overrides = True

    def __init__(self, client: Client, journal: Journal | None = None) -> None:
        self._client, self._journal = client, journal

    def client(self, spec: ModelSpec | None, slot: str) -> Client:
        return self._client if self._journal is None else JournaledClient(self._client, self._journal, slot)

    def warnings(self) -> list[Problem]:
        """Return nothing: who made the client knows what it asks."""
        return []

    def close(self) -> None:
        """Do nothing: the client stays its owner's."""


class NamedModels:
    """The models that the nodes name, or the one that the settings name instead of all of them.

    settings: `model` and `base_url` go before what a node says; the rest holds for all.
    at_once: requests that the workflow may send side by side. A model is sent as many, unless it takes one
    at a time, or the settings say how many.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        budget: BudgetMeter,
        journal: Journal | None = None,
        cache: ResponseCache | None = None,
        environment: Mapping[str, str] | None = None,
        known: KnownTraits | None = None,
        at_once: int = 1,
    ) -> None:
        self._settings, self._at_once = settings, at_once
        self._known_traits = known if known is not None else KnownTraits()
        self._environment = os.environ if environment is None else environment
        self._budget, self._journal, self._cache = budget, journal, cache
        self._opened: dict[tuple[str | None, str | None, str], RoleModels] = {}
        self._tallies: dict[ModelChoice, Tally] = {}  # of each model that has been asked
        self._lock = threading.Lock()

    @property
    def overrides(self) -> bool:
        return self._settings.model is not None or self._settings.base_url is not None

    def client(self, spec: ModelSpec | None, slot: str) -> Client:
        model, base_url, key = self._where(spec)
        with self._lock:
            if (model, base_url, key) not in self._opened:
                environment = dict(self._environment)
                if not self.overrides:  # OpenAI's key is for OpenAI: no other provider is to see it
                    environment["OPENAI_API_KEY"] = key
                settings = self._settings.model_copy(update={"model": model, "base_url": base_url})
                known = traits_of(settings, "task", environment)
                if known.source("concurrency") == "default" and 1 < known.concurrency < self._at_once:
                    settings = settings.model_copy(update={"concurrency": self._at_once})
                choice = choose_model(settings, "task", environment)
                self._opened[model, base_url, key] = RoleModels(
                    settings,
                    budget=self._budget,
                    journal=self._journal,
                    cache=self._cache,
                    environment=environment,
                    known=self._known_traits,
                    tally=self._tallies.setdefault(choice, Tally()),
                )
            return self._opened[model, base_url, key].client("task")

    def choice(self, spec: ModelSpec) -> ModelChoice:
        """Return where a model is asked, and which variable holds the key.

        Raises:
            ConfigError: As in `client`.
            AuthenticationError: As in `client`.
        """
        model, base_url, key = self._where(spec)
        if self.overrides:
            return choose_model(self._settings, "task", self._environment)
        variable = key_variable(_provider(spec)) if key else ""
        return ModelChoice(model, base_url, key, variable)

    def warnings(self) -> list[Problem]:
        with self._lock:
            tallies = [(choice, tally.names()) for choice, tally in self._tallies.items()]
        found: list[Problem] = []
        for choice, roles in tallies:
            if choice.base_url is None:  # the embedded model, whose answers are named by us
                continue
            host = urlsplit(choice.base_url).netloc.rpartition("@")[2]
            for role, names in roles.items():
                found += Answered(role, choice.model, host, names).problems()
        return [problem.at(Place()) for problem in found]  # a node names the model, no setting

    def close(self) -> None:
        with self._lock:
            opened = list(self._opened.values())
        for models in opened:
            for warning in models.usage_warnings:
                _log.warning("%s", warning)
            models.close()

    def _where(self, spec: ModelSpec | None) -> tuple[str | None, str | None, str]:
        """(model, base URL, key) for `ModelSettings`; no base URL for a model without one."""
        if self.overrides:
            return self._settings.model, self._settings.base_url, ""
        if spec is None:
            said, fix = "no model: the node names none", "Give it a `model`, or run with {model}."
            raise ConfigError(Problem("workflow.no-model", said, fix=fix, settings={"model": None}))
        provider = _provider(spec)
        if (model := model_without_address(provider, spec.name)) is not None:
            return model, None, ""
        return self._provided(provider, spec)

    def _provided(self, provider: str, spec: ModelSpec) -> tuple[str | None, str | None, str]:
        variable, known = key_variable(provider), PROVIDERS.get(provider)
        is_openai = provider == "openai"
        own = openai_address(self._environment) if is_openai else ""
        url = own or self._environment.get(address_variable(provider))
        if not url:
            check_not_left_out(address_variable(provider), *(("OPENAI_API_BASE",) if is_openai else ()))
        url = url or known
        if url is None:
            said = f"no address for the provider {provider!r} of model {spec.name!r}"
            fix = (
                f"Set {address_variable(provider)} (and {variable}), or run with {{model}} and {{base_url}}. "
                f"Known: {', '.join(PROVIDERS)}, local."
            )
            settings = {"model": None, "base_url": None}
            raise ConfigError(Problem("workflow.unknown-provider", said, fix=fix, settings=settings))
        key = read_key(self._environment, variable)
        if not key and url == known and provider not in KEYLESS:
            said = f"{variable} is not set, and model {spec.name!r} is of the provider {provider!r}"
            fix = "Set it, or run with {model} (the embedded model), or another model and its {base_url}."
            raise AuthenticationError(Problem("workflow.no-key", said, fix=fix, settings=WITHOUT_KEY))
        return spec.name, url, key


def _provider(spec: ModelSpec) -> str:
    return spec.provider.rpartition("/")[2].lower() or "openai"  # exports say "langgenius/openai/openai"


class JournaledClient:
    """A client whose answers at one place of a run are kept, so that a resumed run does not ask again."""

    def __init__(self, inner: Client, journal: Journal, slot: str) -> None:
        self._inner, self._journal, self._slot = inner, journal, slot

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        key = request_key(f"own:{self._slot}", self.name, "off", messages, options)
        answer, _ = self._journal.recall(key)
        if answer is None:
            answer = self._inner.complete(messages, options)
            self._journal.append(key, options.role, answer)
        return answer

    def close(self) -> None:
        """Do nothing: the client stays its owner's."""
