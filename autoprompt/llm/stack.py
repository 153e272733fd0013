"""Puts the layers together: journal > cache > limits (budget, rate, retry) > transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from autoprompt.errors import Problem
from autoprompt.llm.adapter import OwnClient
from autoprompt.llm.client import CallRole, Client
from autoprompt.llm.endpoints import Endpoint, ModelChoice, choose_model, open_endpoint
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import RecordedClient
from autoprompt.llm.kept.tally import Tally
from autoprompt.llm.limits.account import AnswerCache
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.rate import Gate
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.prices import FREE, REPORTED, Price, Reported, check_prices, find_price, price_given
from autoprompt.llm.traits import CONCURRENCY, KnownTraits, LearnedTraits, Traits, traits_of
from autoprompt.llm.transport.http import meant_address
from autoprompt.settings.records import ModelSettings

if TYPE_CHECKING:
    from autoprompt.llm.here.weights import Progress
    from autoprompt.llm.transport.http import HttpTransport
    from autoprompt.llm.transport.langchain import LangChainTransport


class ConnectedModels:
    """The models of one run, by role. They share budget, journal and cache.

    Roles with the same endpoint, model and key share one client, so also its connections and rates.
    on_progress: told how far the weights of the embedded model have come, where they have to be fetched.
    known: what the run has found out about its models, and where that is kept. tally: counts the answers.
    `close()` ends every wait, closes the connections and the embedded model; not journal and cache.
    Raises ConfigError where only one of the two prices is set.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        budget: BudgetMeter,
        journal: Journal | None = None,
        cache: AnswerCache | None = None,
        environment: Mapping[str, str] | None = None,
        on_progress: Progress | None = None,
        known: KnownTraits | None = None,
        tally: Tally | None = None,
    ) -> None:
        check_prices(settings)
        self._known_traits = known if known is not None else KnownTraits()
        self._tally = tally
        self._settings, self._on_progress = settings, on_progress
        self._environment = os.environ if environment is None else environment
        self._budget, self._journal, self._cache = budget, journal, cache
        self._clients: dict[ModelChoice, RecordedClient] = {}

    def client(self, role: CallRole) -> RecordedClient:
        """The client of a role, made on first use. Raises what `open_endpoint` raises."""
        choice = choose_model(self._settings, role, self._environment)
        if choice not in self._clients:
            self._clients[choice] = self._open(choice, role)
        return self._clients[choice]

    def traits(self, role: CallRole) -> Traits:
        """What is known of a role's model before anything is sent."""
        return traits_of(self._settings, role, self._environment)

    def price(self, role: CallRole) -> Price | None:
        """The price of a role's model, None where unknown. Sends nothing if the model is named."""
        choice = choose_model(self._settings, role, self._environment)
        if choice.base_url is None:
            return FREE
        return self._price(choice, choice.model or self.client(role).name)

    @property
    def opened(self) -> tuple[RecordedClient, ...]:
        """The clients that were made so far."""
        return tuple(self._clients.values())

    @property
    def usage_warnings(self) -> list[Problem]:
        """Which figures their endpoints reported that cannot be right, in sentences."""
        return [warning for client in self.opened for warning in client.usage_warnings]

    def close(self) -> None:
        """Safe to call twice."""
        for client in tuple(self._clients.values()):  # another thread may be opening one
            client.close()

    def __enter__(self) -> ConnectedModels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, choice: ModelChoice, role: CallRole) -> RecordedClient:
        settings, traits = self._settings, self.traits(role)
        endpoint = open_endpoint(choice, settings, self._on_progress)
        transport = _transport(endpoint, settings, traits)
        place = f"{endpoint.identity} {endpoint.model}"
        limited = LimitedClient(
            transport,
            budget=self._budget,
            gate=Gate(
                traits.concurrency,
                rpm=settings.rpm,
                tpm=settings.tpm,
                account=self._budget.account,
                endpoint=place,
            ),
            parameters=transport.parameters,
            price=self._price(choice, endpoint.model),
            traits=LearnedTraits(place, self.traits, self._known_traits),
            find_address=partial(meant_address, endpoint.base_url, endpoint.api_key),
        )
        return RecordedClient(
            limited,
            endpoint=endpoint.identity,
            constrain=endpoint.constrain,
            budget=self._budget,
            journal=self._journal,
            cache=self._cache,
            tally=self._tally,
            on_close=None if endpoint.server is None else endpoint.server.close,
        )

    def _price(self, choice: ModelChoice, model: str) -> Price | None:
        if choice.base_url is None:
            return FREE
        settings = self._settings
        if choice == choose_model(settings, "task", self._environment):
            return price_given(settings) or find_price(model, choice.base_url)
        return find_price(model, choice.base_url)


def connect(
    settings: ModelSettings,
    role: CallRole = "task",
    *,
    budget: BudgetMeter | None = None,
    journal: Journal | None = None,
    cache: AnswerCache | None = None,
) -> RecordedClient:
    """Return the client of one role; `close()` it, which ends an embedded model too.

    `ConnectedModels` opens those of several roles.
    """
    return ConnectedModels(settings, budget=budget or BudgetMeter(), journal=journal, cache=cache).client(
        role
    )


def wrap(
    client: Client,
    *,
    budget: BudgetMeter,
    slot: str = "task",
    concurrency: int = CONCURRENCY,
    rpm: int | None = None,
    tpm: int | None = None,
    price: Price | Reported | None = REPORTED,
    journal: Journal | None = None,
    cache: AnswerCache | None = None,
    said: Callable[[CallRole], Traits] = lambda _: Traits(),
    known: KnownTraits | None = None,
    tally: Tally | None = None,
) -> RecordedClient:
    """One's own client (scripted, say) with budget, retries, journal and cache around it.

    slot: keeps its answers in the journal apart from those of the run's other clients.
    cache: used only for a client with a text as its attribute `identity`, which then stands for it as an
    address does for an endpoint: clients that share it share their answers, in all runs.
    said, known: what is known of its traits, as in `LearnedTraits`.
    An exception of the client fails its row; see `OwnClient`.
    The client stays its owner's: `close()` does not close it.
    """
    identity = getattr(client, "identity", None)
    endpoint = f"own:{slot}" if identity is None else f"identity:{identity}"
    limited = LimitedClient(
        OwnClient(client),
        budget=budget,
        gate=Gate(concurrency, rpm=rpm, tpm=tpm, account=budget.account, endpoint=endpoint),
        price=price,
        traits=LearnedTraits(f"{endpoint} {client.name}", said, known),
        owns_transport=False,
    )
    return RecordedClient(
        limited,
        endpoint=endpoint,
        constrain="off",
        budget=budget,
        journal=journal,
        cache=None if identity is None else cache,
        tally=tally,
    )


def _transport(
    endpoint: Endpoint, settings: ModelSettings, traits: Traits
) -> HttpTransport | LangChainTransport:
    base_url, model, key, constrain = endpoint.base_url, endpoint.model, endpoint.api_key, endpoint.constrain
    trust_env = endpoint.server is None  # no proxy between us and the embedded model
    timeout_s = traits.timeout_s
    if settings.transport == "langchain":
        from autoprompt.llm.transport.langchain import LangChainTransport

        return LangChainTransport(
            base_url, model, key, constrain=constrain, timeout_s=timeout_s, trust_env=trust_env
        )
    from autoprompt.llm.transport.http import HttpTransport

    return HttpTransport(
        base_url,
        model,
        key,
        constrain=constrain,
        timeout_s=timeout_s,
        connections=traits.concurrency,
        trust_env=trust_env,
        is_here=endpoint.server is not None,
    )
