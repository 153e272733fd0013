"""The models of one run by role: those that the settings name, or one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.llm.client import CallRole, Client, Options
from autoprompt.llm.endpoints import ModelChoice, choose_model, missing_key, sends_to
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import RecordedClient
from autoprompt.llm.kept.tally import Answered, Tally
from autoprompt.llm.limits.account import AnswerCache
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.prices import REPORTED, price_given
from autoprompt.llm.stack import ConnectedModels, wrap
from autoprompt.llm.traits import KnownTraits, Traits, said_traits
from autoprompt.llm.transport.address import checked_url
from autoprompt.llm.transport.refusals import SYSTEM
from autoprompt.settings.records import JUDGED, CallSettings, ModelSettings, RunConfig
from autoprompt.text.extras import install_extra


@dataclass(frozen=True, slots=True)
class Models:
    """One's own models instead of those that the settings name, e.g. scripted ones in tests.

    optimizer: analyst and writer; default: `task`. judge: default: `optimizer`.
    A client has a text as its attribute `name`, and `complete(messages, options)` that returns a
    `Completion`; several threads call it at once.
    They stay their owner's: a run does not close them. Their answers are kept in the run's own journal. The
    response cache, which all runs share, takes only those of a client with an attribute `identity`, a text
    that says which model it is. What an answer cost is what the client says in `Usage.cost_usd`, unless the
    settings have prices, which are those of the task's client.
    """

    task: Client
    optimizer: Client | None = None
    judge: Client | None = None

    def of(self, role: CallRole) -> Client:
        """The client of a role, by default the one before it: task, optimizer, judge."""
        if role == "task":
            return self.task
        optimizer = self.optimizer or self.task
        return optimizer if role == "optimizer" else self.judge or optimizer

    def first_role(self, role: CallRole) -> CallRole:
        """The first of the roles that the client of `role` has."""
        roles: tuple[CallRole, ...] = ("task", "optimizer", "judge")
        return next(other for other in roles if self.of(other) is self.of(role))


def check_own_models(models: object) -> None:
    """Raises ConfigError for what is no `Models`, such as a client that was not put into one."""
    if models is not None and not isinstance(models, Models):
        raise ConfigError(f"models is {models!r:.80}, expected Models: give models=Models(client).")


class RoleModels:
    """The models of a run by role, made or given; with budget, journal and cache around them."""

    def __init__(
        self,
        settings: ModelSettings,
        models: Models | None,
        *,
        budget: BudgetMeter,
        journal: Journal | None,
        cache: AnswerCache | None,
        on_progress: Callable[[int, int, str], None] | None = None,
        known: KnownTraits | None = None,
    ) -> None:
        check_own_models(models)
        self._own = models
        self._settings = settings
        self._known_traits = known if known is not None else KnownTraits()
        self._tally = Tally()
        for role, answer in journal.answers() if journal is not None else ():  # of the run before a resume
            self._tally.add(Options(role=role), answer)
        self._models = ConnectedModels(
            settings,
            budget=budget,
            journal=journal,
            cache=cache,
            on_progress=on_progress,
            known=self._known_traits,
            tally=self._tally,
        )
        self._wrapped: dict[CallRole, RecordedClient] = {}
        self._budget, self._journal, self._cache = budget, journal, cache

    def client(self, role: CallRole) -> RecordedClient:
        if self._own is None:
            return self._models.client(role)
        slot = self._own.first_role(role)
        if slot not in self._wrapped:
            settings = self._settings
            self._wrapped[slot] = wrap(
                self._own.of(slot),
                budget=self._budget,
                slot=slot,
                concurrency=self.concurrency(),
                rpm=settings.rpm,
                tpm=settings.tpm,
                price=price_given(settings) or REPORTED if slot == "task" else REPORTED,
                journal=self._journal,
                cache=self._cache,
                said=self.traits,
                known=self._known_traits,
                tally=self._tally,
            )
        return self._wrapped[slot]

    def traits(self, role: CallRole) -> Traits:
        """What is known of a role's model before anything is sent."""
        return self._models.traits(role) if self._own is None else said_traits(self._settings, role)

    def concurrency(self) -> int:
        return self.traits("task").concurrency

    def warnings(self, *, is_end: bool = True) -> list[Problem]:
        """What was found out about the models so far and changes what a result means.

        is_end: all is answered, so that there is something to say of a role's answers as a whole.
        """
        found = [
            _dropped(client.name, name)
            for client in (*self._models.opened, *self._wrapped.values())
            for name in client.dropped_parameters
        ]
        found += self._models.usage_warnings
        if self._budget.max_cost is not None and self._budget.spent.cost_usd is None:
            said = "some answers came without a cost, so the limit counts only the others"
            found.append(Problem("budget.answers-without-cost", said, Place(setting="max_cost")))
        lost = self._tally.bad() if is_end else {}
        found += [tally.problem(role, self.traits(role).output_tokens) for role, tally in lost.items()]
        return [*found, *(problem for answered in self.answered() for problem in answered.problems())]

    def answered(self) -> list[Answered]:
        """The models that the answers name, by role, those of the journal and the cache included.

        Without the embedded model, whose answers are named by us.
        """
        found = []
        for role, names in self._tally.names().items():
            choice = choose_model(self._settings, role)
            if self._own is not None:
                found.append(Answered(role, None, "", names))
            elif choice.base_url is not None:
                host = urlsplit(choice.base_url).netloc.rpartition("@")[2]
                found.append(Answered(role, choice.model, host, names))
        return found

    def lost_answers(self) -> dict[str, dict[str, Any]]:
        """The roles of which at least half of the answers were cut or empty: `RoleTally.to_dict` of each."""
        return {role: tally.to_dict(role) for role, tally in self._tally.bad().items()}

    def check_cost_cap(self, config: CallSettings, *, can_ask: bool = True) -> None:
        """Raise ConfigError for a cap on cost that could never fire because a price is unknown.

        What one's own models will report is known only when they answer.
        can_ask: whether an endpoint may be asked which model it has; else one without a name is not checked.
        """
        if config.max_cost is None or self._own is not None:
            return
        for role in roles_of(config):
            if not can_ask and choose_model(config, role).model is None:
                continue
            if self._models.price(role) is None:
                raise unpriced(self._shown_name(role))

    def close(self) -> None:
        self._models.close()
        for client in self._wrapped.values():
            client.close()

    def _shown_name(self, role: CallRole) -> str:
        settings = self._settings
        names = [settings.model]
        if role != "task":
            names.insert(0, settings.optimizer_model)
        if role == "judge":
            names.insert(0, settings.judge_model)
        return next(filter(None, names), f"the {role} model")


def _dropped(model: str, name: str) -> Problem:
    if name == SYSTEM:
        said = f"{model} takes no system message: its text goes into the first user message"
    else:
        said = f"{model} rejected the parameter {name}: requests go without it"
    return Problem("model.rejects", said)


def unpriced(model: str, of: str = "") -> ConfigError:
    """Return the error of a limit on cost that is never reached. of: whose limit, if not the run's."""
    said = f"the limit{of} is never reached, because nobody knows what {model} costs"
    fix = (
        "Give {price_input} and {price_output} (USD per million tokens), or use {max_calls} or {max_tokens}."
    )
    settings = dict.fromkeys(("price_input", "price_output", "max_calls", "max_tokens"))
    return ConfigError(Problem("budget.no-price", said, Place(setting="max_cost"), fix, settings))


def roles_of(config: CallSettings) -> tuple[CallRole, ...]:
    """The roles that a run has; what is no optimization has one model."""
    if not isinstance(config, RunConfig):
        return ("task",)
    return ("task", "optimizer", "judge") if config.metric == JUDGED else ("task", "optimizer")


def check_models(config: CallSettings) -> list[str]:
    """What can be said of the models that the settings name before anything is sent, in sentences.

    Raises UsageError for what is no address, ConfigError for a model that is not embedded, and for prices
    that do not do.
    """
    found: list[str] = []
    seen: set[str | None] = set()
    for role in roles_of(config):
        choice = choose_model(config, role)
        if choice.base_url is None:
            weights = _missing_weights(choice)  # first, as it refuses a model that nobody knows
            found += _missing_runtime() or weights
        elif choice.base_url not in seen:
            found += missing_key(checked_url(choice.base_url), choice.api_key, role)
        seen.add(choice.base_url)
    models = RoleModels(config, None, budget=BudgetMeter(), journal=None, cache=None)
    models.check_cost_cap(config, can_ask=False)
    return list(dict.fromkeys(found))


def _missing_weights(choice: ModelChoice) -> list[str]:
    from autoprompt.llm.here import weights

    name = choice.local_name or weights.DEFAULT
    if weights.weights_path(name) is not None:
        return []
    size = weights.KNOWN[name].size_bytes / 1e9
    return [f"the embedded model's weights ({size:.2f} GB) are fetched first"]


def _missing_runtime() -> list[str]:
    if util.find_spec("xllamacpp") is not None:
        return []
    said = "the embedded model has no runtime here, so a run cannot start"
    return [f"{said}. Install it: {install_extra('local')}"]


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
    """The models of a run; closed, with the cache, at the end of the block.

    traits_path: where the run keeps what it finds out about them. roles: those that are asked; the event
    before the first request says where their requests go.
    """

    def on_progress(done: int, total: int, what: str) -> None:
        emit({"event": "weights_progress", "done_bytes": done, "total_bytes": total, "what": what})

    with ExitStack() as stack:
        cache: AnswerCache | None = None
        if not config.no_cache:
            shared = budget.account.open_cache if budget.account is not None else None
            cache = ResponseCache(config.cache_dir) if shared is None else shared()
            stack.callback(cache.close)
        opened = RoleModels(
            config,
            models,
            budget=budget,
            journal=journal,
            cache=cache,
            on_progress=on_progress,
            known=KnownTraits(traits_path),
        )
        stack.callback(opened.close)
        opened.check_cost_cap(config)
        if models is None and (event := sends_to(config, roles)) is not None:
            emit(event)
        yield opened
