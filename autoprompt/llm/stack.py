"""Puts the layers of one client together: journal > cache > limits (budget, rate, retry) > transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from autoprompt.llm.adapter import OwnClient
from autoprompt.llm.client import AnswerCache, CallRole, Client
from autoprompt.llm.endpoints import Endpoint
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import RecordedClient
from autoprompt.llm.kept.tally import Tally
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.rate import Gate
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.prices import REPORTED, Price, Reported
from autoprompt.llm.traits import CONCURRENCY, KnownTraits, LearnedTraits, Traits
from autoprompt.llm.transport.http import meant_address
from autoprompt.settings.records import ModelSettings

if TYPE_CHECKING:
    from autoprompt.llm.transport.http import HttpTransport
    from autoprompt.llm.transport.langchain import LangChainTransport


@dataclass(frozen=True, slots=True)
class Shared:
    """What the clients of one run share.

    said: what is known of a role's model before anything is sent. known: what the run has found out about its
    models, and where that is kept. tally: counts the answers.
    """

    budget: BudgetMeter
    journal: Journal | None = None
    cache: AnswerCache | None = None
    said: Callable[[CallRole], Traits] = lambda _: Traits()
    known: KnownTraits = field(default_factory=KnownTraits)
    tally: Tally = field(default_factory=Tally)


def reach(
    endpoint: Endpoint, settings: ModelSettings, role: CallRole, shared: Shared, price: Price | None
) -> RecordedClient:
    """Return the client of an opened endpoint. role: The first role that uses this client."""
    traits = shared.said(role)
    transport = _transport(endpoint, settings, traits)
    place = f"{endpoint.identity} {endpoint.model}"
    limited = LimitedClient(
        transport,
        budget=shared.budget,
        gate=Gate(
            traits.concurrency,
            rpm=settings.rpm,
            tpm=settings.tpm,
            account=shared.budget.account,
            endpoint=place,
        ),
        parameters=transport.parameters,
        price=price,
        traits=LearnedTraits(place, shared.said, shared.known),
        find_address=partial(meant_address, endpoint.base_url, endpoint.api_key),
    )
    return RecordedClient(
        limited,
        endpoint=endpoint.identity,
        constrain=endpoint.constrain,
        budget=shared.budget,
        journal=shared.journal,
        cache=shared.cache,
        tally=shared.tally,
        on_close=None if endpoint.server is None else endpoint.server.close,
    )


def wrap(
    client: Client,
    shared: Shared,
    *,
    slot: str = "task",
    concurrency: int = CONCURRENCY,
    rpm: int | None = None,
    tpm: int | None = None,
    price: Price | Reported | None = REPORTED,
) -> RecordedClient:
    """Return one's own client (scripted, say) with budget, retries, journal and cache around it.

    slot: keeps its answers in the journal apart from those of the run's other clients.
    The cache is used only for a client with a text as its attribute `identity`, which then stands for it as
    an address does for an endpoint: clients that share it share their answers, in all runs.
    An exception of the client fails its row; see `OwnClient`.
    The client stays its owner's: `close()` does not close it.
    """
    identity = getattr(client, "identity", None)
    endpoint = f"own:{slot}" if identity is None else f"identity:{identity}"
    budget = shared.budget
    limited = LimitedClient(
        OwnClient(client),
        budget=budget,
        gate=Gate(concurrency, rpm=rpm, tpm=tpm, account=budget.account, endpoint=endpoint),
        price=price,
        traits=LearnedTraits(f"{endpoint} {client.name}", shared.said, shared.known),
        owns_transport=False,
    )
    return RecordedClient(
        limited,
        endpoint=endpoint,
        constrain="off",
        budget=budget,
        journal=shared.journal,
        cache=None if identity is None else shared.cache,
        tally=shared.tally,
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
