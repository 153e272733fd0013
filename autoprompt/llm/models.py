"""The models of one run by role: those that the settings name, or one's own.

Each client has the layers journal > cache > limits (budget, rate, retry) > transport.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import util
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from autoprompt.errors import ConfigError, Place, Problem, RuntimeMissingError
from autoprompt.llm.adapter import ForwardedCalls, Models, OwnClient, check_own_models
from autoprompt.llm.client import AnswerCache, CallRole, Client, Options, WeightsProgress
from autoprompt.llm.endpoints import (
    Endpoint,
    ModelChoice,
    choose_model,
    missing_key,
    naming_setting,
    open_endpoint,
    sends_to,
)
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import Answered, RecordedClient, Tally
from autoprompt.llm.limits.admission import Gate
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.prices import (
    FREE,
    REPORTED,
    Price,
    Prices,
    Reported,
    check_prices,
    find_price,
    price_given,
)
from autoprompt.llm.traits import CONCURRENCY, KnownTraits, LearnedTraits, Traits, said_traits, traits_of
from autoprompt.llm.transport.address import checked_url
from autoprompt.llm.transport.failures import SYSTEM
from autoprompt.llm.transport.http import meant_address
from autoprompt.settings.records import JUDGED, LOCAL, CallSettings, ModelSettings, RunConfig
from autoprompt.text.machine import install_extra

if TYPE_CHECKING:
    from autoprompt.llm.transport.http import HttpTransport
    from autoprompt.llm.transport.langchain import LangChainTransport
    from autoprompt.llm.weights import Progress

_ALL_ROLES: tuple[CallRole, ...] = ("task", "optimizer", "judge")


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
            is_auto=traits.source("concurrency") == "default",
            rpm=settings.rpm,
            tpm=settings.tpm,
            account=shared.budget.account,
            endpoint=place,
            seconds_left=shared.budget.seconds_left,
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
        gate=Gate(
            concurrency,
            rpm=rpm,
            tpm=tpm,
            account=budget.account,
            endpoint=endpoint,
            seconds_left=budget.seconds_left,
        ),
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
        trust_env=trust_env,
        is_here=endpoint.server is not None,
    )


class RoleModels:
    """The clients of a run by role, made on first use; they share budget, journal and cache.

    Roles with the same endpoint, model and key share one client, so also its connections and rates. So do
    roles with the same client of one's own.

    Args:
        models: One's own models, instead of those that the settings name.
        environment: Variables with keys and addresses; by default those of the process.
        on_progress: Hears how far the weights of the embedded model have come, if they have to be fetched.
        known: What the run has found out about its models, and where that is kept.
        tally: Counts the answers.

    Raises:
        ConfigError: If only one of the two prices is set, or if `models` is no `Models`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        models: Models | None = None,
        *,
        budget: BudgetMeter,
        journal: Journal | None = None,
        cache: AnswerCache | None = None,
        environment: Mapping[str, str] | None = None,
        on_progress: Progress | None = None,
        known: KnownTraits | None = None,
        tally: Tally | None = None,
    ) -> None:
        check_own_models(models)
        check_prices(settings)
        self._settings, self._own, self._on_progress = settings, models, on_progress
        self._environment = os.environ if environment is None else environment
        self._tally = tally if tally is not None else Tally()
        known = known if known is not None else KnownTraits()
        self._shared = Shared(budget, journal, cache, self.traits, known, self._tally)
        self._clients: dict[ModelChoice | CallRole, RecordedClient] = {}
        self._traits: dict[CallRole, Traits] = {}

    def client(self, role: CallRole) -> RecordedClient:
        """Return the client of a role. Raises what `open_endpoint` raises."""
        if role == "task" and is_program(self._settings):
            if role not in self._clients:
                self._clients[role] = self._wrapped(ForwardedCalls(), role)
            return self._clients[role]
        if self._own is not None:
            slot = self._own.first_role(role)
            if slot not in self._clients:
                self._clients[slot] = self._wrapped(self._own.of(slot), slot)
            return self._clients[slot]
        choice = self._choice(role)
        if choice not in self._clients:
            endpoint = open_endpoint(choice, self._settings, self._on_progress)
            price = self._price(choice, endpoint.model)
            self._clients[choice] = reach(endpoint, self._settings, role, self._shared, price)
        return self._clients[choice]

    def traits(self, role: CallRole) -> Traits:
        """Return what is known of a role's model before anything is sent."""
        if role not in self._traits:
            has_client = self._own is not None or (role == "task" and is_program(self._settings))
            self._traits[role] = (
                said_traits(self._settings, role)
                if has_client
                else traits_of(self._settings, role, self._environment)
            )
        return self._traits[role]

    def concurrency(self) -> int:
        """Return how many rows are asked at once, at most."""
        return self.traits("task").concurrency

    def constrain(self, role: CallRole) -> str | None:
        """Return how the endpoint was asked to enforce labels; None for a client of one's own."""
        return None if self._own is not None else self.client(role).constrain

    def settled_on(self) -> int | None:
        """Return how many rows at once `concurrency: auto` came to.

        None for a fixed number, and if nothing was sent.
        """
        return self.client("task").settled_on if self._shared.budget.spent.calls else None

    def price(self, role: CallRole, *, can_ask: bool = True) -> Price | None:
        """Return the price of a role's model, None if it is not known before an answer comes.

        can_ask: whether an endpoint may be asked which model it has, if none is named.
        """
        if role == "task" and is_program(self._settings):
            return price_given(self._settings)
        if self._own is not None:  # the settings' prices are those of the task's client
            return price_given(self._settings) if self._own.first_role(role) == "task" else None
        choice = self._choice(role)
        price = self._price(choice, choice.model)
        if price is None and choice.model is None and can_ask:
            return self._price(choice, self.client(role).name)
        return price

    def warnings(self, *, is_end: bool = True) -> list[Problem]:
        """Return what was found out about the models so far and changes what a result means.

        is_end: all is answered, so that there is something to say of a role's answers as a whole.
        """
        opened = tuple(self._clients.values())
        found = [_dropped(client.name, name) for client in opened for name in client.dropped_parameters]
        found += self.usage_warnings
        budget = self._shared.budget
        if budget.max_cost is not None and budget.spent.cost_usd is None:
            said = "some answers came without a cost, so the limit counts only the others"
            found.append(Problem("budget.answers-without-cost", said, Place(setting="max_cost")))
        lost = self._tally.bad() if is_end else {}
        found += [tally.problem(role, self.traits(role).output_tokens) for role, tally in lost.items()]
        return [*found, *(problem for answered in self.answered() for problem in answered.problems())]

    @property
    def usage_warnings(self) -> list[Problem]:
        """Which figures the endpoints reported that cannot be right."""
        return [problem for client in tuple(self._clients.values()) for problem in client.usage_warnings]

    def answered(self) -> list[Answered]:
        """Return the models that the answers name, by role, those of the journal and the cache included.

        Without the embedded model, whose answers are named by us.
        """
        found = []
        for role, names in self._tally.names().items():
            choice = self._choice(role)
            if role == "task" and is_program(self._settings):  # it may ask several on purpose
                hosts = ", ".join(self._tally.hosts)
                found.append(Answered(role, None, hosts, names, may_differ=True))
            elif self._own is not None:
                found.append(Answered(role, None, "", names))
            elif choice.base_url is not None:
                host = urlsplit(choice.base_url).netloc.rpartition("@")[2]
                found.append(Answered(role, choice.model, host, names))
        return found

    def lost_answers(self) -> dict[str, dict[str, Any]]:
        """Return `RoleTally.to_dict` of the roles of which at least half of the answers were cut or empty."""
        return {role: tally.to_dict(role) for role, tally in self._tally.bad().items()}

    def check_cost_cap(
        self, config: CallSettings, roles: Sequence[CallRole], *, can_ask: bool = True
    ) -> None:
        """Raise ConfigError for a cap on cost that could never fire because a price is unknown.

        What one's own models will report is known only when they answer.
        roles: those that are asked.
        can_ask: whether an endpoint may be asked which model it has; else one without a name is not checked.
        """
        if config.max_cost is None or self._own is not None:
            return
        for role in roles_of(config, roles):
            choice = self._choice(role)
            is_named = choice.model is not None
            if (can_ask or is_named) and self.price(role) is None:
                raise unpriced(
                    self._shown_name(role), is_task=role == "task" or choice == self._choice("task")
                )

    def close(self) -> None:
        """End every wait, close the connections and the embedded model; not journal and cache.

        Safe to call twice.
        """
        for client in tuple(self._clients.values()):  # another thread may be opening one
            client.close()

    def __enter__(self) -> RoleModels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _choice(self, role: CallRole) -> ModelChoice:
        return choose_model(self._settings, role, self._environment)

    def _wrapped(self, client: Client, role: CallRole) -> RecordedClient:
        return wrap(
            client,
            self._shared,
            slot=role,
            concurrency=self.concurrency(),
            rpm=self._settings.rpm,
            tpm=self._settings.tpm,
            price=self.price(role) or REPORTED,
        )

    def _price(self, choice: ModelChoice, model: str | None) -> Price | None:
        """Return the price of a model; that in the settings is for the task's model alone."""
        if choice.base_url is None:
            return FREE
        given = price_given(self._settings) if choice == self._choice("task") else None
        if given is not None or model is None:
            return given
        return find_price(model, choice.base_url)

    def _shown_name(self, role: CallRole) -> str:
        settings = self._settings
        names = [settings.model]
        if role != "task":
            names.insert(0, settings.optimizer_model)
        if role == "judge":
            names.insert(0, settings.judge_model)
        return next(filter(None, names), f"the {role} model")


def connect(
    settings: ModelSettings,
    role: CallRole = "task",
    *,
    budget: BudgetMeter | None = None,
    journal: Journal | None = None,
    cache: AnswerCache | None = None,
) -> RecordedClient:
    """Return the client of one role alone; `close()` it, which ends an embedded model too.

    For several roles: `RoleModels`.
    """
    return RoleModels(settings, budget=budget or BudgetMeter(), journal=journal, cache=cache).client(role)


@contextmanager
def open_models(
    config: CallSettings,
    models: Models | None,
    budget: BudgetMeter,
    journal: Journal | None,
    emit: Callable[[dict[str, Any]], None],
    traits_path: Path | None = None,
    *,
    roles: Sequence[CallRole] = ("task", "judge"),
) -> Iterator[RoleModels]:
    """Open the models of a run; they are closed, with the cache, at the end of the block.

    traits_path: where the run keeps what it finds out about them. roles: those that are asked; the event
    before the first request says where their requests go.
    """

    def on_progress(done: int, total: int, what: str) -> None:
        emit(WeightsProgress(what, done, total).to_dict())

    tally = Tally()
    for role, answer in journal.answers() if journal is not None else ():  # of the run before a resume
        tally.add(Options(role=role), answer)
    if not getattr(config, "program_changed_ok", True):
        tally.hold_hosts()
    with ExitStack() as stack:
        cache = _open_cache(config, budget, stack)
        opened = RoleModels(
            config,
            models,
            budget=budget,
            journal=journal,
            cache=cache,
            on_progress=on_progress,
            known=KnownTraits(traits_path),
            tally=tally,
        )
        stack.callback(opened.close)
        opened.check_cost_cap(config, roles)
        asked = [role for role in roles if role != "task" or not is_program(config)]
        if models is None and (event := sends_to(config, asked)) is not None:
            emit(event.to_dict())
        yield opened


@contextmanager
def open_program_calls(config: CallSettings, budget: BudgetMeter) -> Iterator[RecordedClient]:
    """Open the client of a program's own requests, before a run has models, for this block."""
    with ExitStack() as stack:
        opened = RoleModels(config, budget=budget, cache=_open_cache(config, budget, stack))
        stack.callback(opened.close)
        yield opened.client("task")


def _open_cache(config: CallSettings, budget: BudgetMeter, stack: ExitStack) -> AnswerCache | None:
    """Return the response cache, closed with the stack; that of the batch if the run is a trial."""
    if config.no_cache:
        return None
    shared = budget.account.open_cache if budget.account is not None else None
    cache: AnswerCache = ResponseCache(config.cache_dir) if shared is None else shared()
    stack.callback(cache.close)
    return cache


def roles_of(config: CallSettings, asked: Sequence[CallRole] = _ALL_ROLES) -> tuple[CallRole, ...]:
    """Return the roles that a run has; what is no optimization has one model.

    asked: those of the operation: a measurement has no optimizer.
    """
    if not isinstance(config, RunConfig):
        return ("task",)
    has = {"task": not is_program(config), "optimizer": True, "judge": config.metric == JUDGED}
    return tuple(role for role in _ALL_ROLES if has[role] and role in asked)


def prices_of(config: RunConfig, models: Models | None) -> Prices:
    """Return what the models of a run cost a token, as far as it is known before anything is sent."""
    known = RoleModels(config, models, budget=BudgetMeter())
    prices = Prices(known.price("task", can_ask=False), known.price("optimizer", can_ask=False))
    if config.metric != JUDGED:
        return prices
    judge = known.price("judge", can_ask=False)
    if models is not None:
        return replace(prices, judge=judge, judge_model=models.of("judge").name)
    choice = choose_model(config, "judge")
    return replace(prices, judge=judge, judge_model=choice.model or choice.base_url or LOCAL)


def check_models(config: CallSettings, roles: Sequence[CallRole] = _ALL_ROLES) -> list[Problem]:
    """Return what can be said of the models that the settings name before anything is sent.

    roles: those that are asked.

    Raises:
        UsageError: If an address is not valid.
        ConfigError: If no model of that name is embedded, or a cap on cost has no price.
    """
    found: list[Problem] = []
    seen: set[str | None] = set()
    for role in roles_of(config, roles):
        choice = choose_model(config, role)
        if choice.base_url is None:
            with naming_setting(choice, config):
                weights = _missing_weights(choice)  # first, as it refuses a model that nobody knows
            found += _missing_runtime() or weights
        elif choice.base_url not in seen:
            with naming_setting(choice, config):
                address = checked_url(choice.base_url)
            found += missing_key(address, choice.api_key, role)
        seen.add(choice.base_url)
    RoleModels(config, budget=BudgetMeter()).check_cost_cap(config, roles, can_ask=False)
    return list(dict.fromkeys(found))


def check_can_write(config: CallSettings) -> None:
    """Check the models before anything is sent, as `check_models` does.

    Raises:
        RuntimeMissingError: Rows are a program's, and the model that writes its texts cannot run here.
    """
    found = check_models(config)
    missing = next((problem for problem in found if problem.code == "model.no-runtime"), None)
    if is_program(config) and missing is not None:
        fix = f"{missing.fix}; or name the model that writes as {{optimizer_model}}."
        raise RuntimeMissingError(replace(missing, fix=fix, settings={"optimizer_model": None}))


def is_program(settings: ModelSettings) -> bool:
    """Return whether the task's requests are those of a program of the user's own."""
    return getattr(settings, "program", None) is not None


def unpriced(model: str, of: str = "", *, is_task: bool = True) -> ConfigError:
    """Return the error of a limit on cost that is never reached.

    of: whose limit, if not the run's. is_task: Whether the settings' price is the model's.
    """
    said = f"the limit{of} has no effect, because the price of {model} is unknown"
    if not is_task:
        fix = "Use {max_calls} or {max_tokens}: only the price of the task model can be given."
        settings = dict.fromkeys(("max_calls", "max_tokens"))
        return ConfigError(Problem("budget.no-price", said, Place(setting="max_cost"), fix, settings))
    fix = (
        "Give {price_input} and {price_output} (USD per million tokens), or use {max_calls} or {max_tokens}."
    )
    settings = dict.fromkeys(("price_input", "price_output", "max_calls", "max_tokens"))
    return ConfigError(Problem("budget.no-price", said, Place(setting="max_cost"), fix, settings))


def _dropped(model: str, name: str) -> Problem:
    if name == SYSTEM:
        said = f"{model} takes no system message: its text goes into the first user message"
    else:
        said = f"{model} rejected the parameter {name}: requests go without it"
    return Problem("model.rejects", said)


def _missing_weights(choice: ModelChoice) -> Iterable[Problem]:
    from autoprompt.llm import weights

    name = choice.weights_name
    if weights.weights_path(name) is not None:
        return []
    size = weights.KNOWN[name].size_bytes / 1e9
    said = f"the embedded model's weights ({size:.2f} GB) are fetched first"
    return [Problem("model.weights-first", said)]


def _missing_runtime() -> Iterable[Problem]:
    if util.find_spec("xllamacpp") is not None:
        return []
    said = "the embedded model has no runtime here, so a run cannot start"
    return [Problem("model.no-runtime", said, fix=f"Install it: {install_extra('local')}")]
