"""Which endpoint answers for a role: from settings and environment to an address, a model and a key.

The default is the embedded model, whatever keys are in the environment: nobody is billed by surprise.
`sends_to` tells before the first request which address gets which key and which data.
"""

from __future__ import annotations

import ipaddress
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from autoprompt.dataset.python_rows import is_given
from autoprompt.errors import (
    AuthenticationError,
    AutopromptError,
    ConfigError,
    Place,
    Problem,
    UsageError,
    variable_name,
)
from autoprompt.llm.client import CallRole
from autoprompt.llm.transport.address import SendsTo, SentTo, checked_url, shown_url
from autoprompt.llm.transport.failures import found_elsewhere, has_login
from autoprompt.llm.transport.http import list_models, meant_address
from autoprompt.llm.transport.wire import Constrain
from autoprompt.settings.records import (
    JUDGED,
    LOCAL,
    CallSettings,
    DataSettings,
    ModelSettings,
    ScienceConfig,
    is_embedded,
    openai_address,
)
from autoprompt.settings.trust import check_not_left_out
from autoprompt.text.display import address_without_secrets, whole_address

if TYPE_CHECKING:
    from autoprompt.llm.local import LocalServer
    from autoprompt.llm.weights import Progress


# Name -> base URL.
PROVIDERS = {
    "openai": "https://api.openai.com/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistralai": "https://api.mistral.ai/v1",
    "moonshot": "https://api.moonshot.cn/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "siliconflow": "https://api.siliconflow.cn/v1",
    "tongyi": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "ollama": "http://127.0.0.1:11434/v1",
}
KEYLESS = ("ollama",)


def key_variable(provider: str) -> str:
    """Return the variable that holds the provider's key: `mistralai` -> `MISTRALAI_API_KEY`."""
    return f"{variable_stem(provider)}_API_KEY"


def address_variable(provider: str) -> str:
    """Return the variable that holds another address for the provider: `MISTRALAI_BASE_URL`."""
    return f"{variable_stem(provider)}_BASE_URL"


def variable_stem(provider: str) -> str:
    """Return how the provider's variables begin."""
    return provider.upper().replace("-", "_")


OPENAI_URL = "https://api.openai.com/v1"
WITHOUT_KEY = {"model": LOCAL, "base_url": None}  # settings of models that may do without a key


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What the settings say about the model of one role, before anything is started or asked.

    model: None where the endpoint has to say it. base_url: None for the embedded model.
    key_variable: the variable that holds the key; "" without one.
    """

    model: str | None
    base_url: str | None
    api_key: str = field(repr=False)
    key_variable: str = ""

    @property
    def is_local(self) -> bool:
        return self.base_url is None

    @property
    def weights_name(self) -> str:
        """NAME of `local:NAME`, or the default's, for the embedded model."""
        from autoprompt.llm import weights

        return (self.model or LOCAL).partition(":")[2] or weights.DEFAULT


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests of one role go.

    identity: what stands for the endpoint in request keys: its address without a password or key, or the
        sha256 of embedded weights.
    server: the embedded model that was started for it, to be closed with it.
    """

    base_url: str
    model: str
    api_key: str = field(repr=False)
    identity: str
    constrain: Constrain
    server: LocalServer | None = None


def choose_model(
    settings: ModelSettings, role: CallRole, environment: Mapping[str, str] | None = None
) -> ModelChoice:
    """Read the settings for one role. Sends nothing.

    The optimizer's default is the task's model, the judge's the optimizer's. A model named for one of them
    without an address is looked for at the address of the task. Raises UsageError for the embedded model at
    an address, ConfigError for a key that no header can carry, and for an address of `.env` that is not used.
    """
    environment = os.environ if environment is None else environment
    choice = _chosen(settings, role, environment)
    if choice.base_url is not None:
        _check_no_address_left_out(settings, role)
    return choice


def _check_no_address_left_out(settings: ModelSettings, role: CallRole) -> None:
    """Raise ConfigError if `.env` names an address that would go before the one that is asked."""
    for name in {"judge": ("judge_", "optimizer_", ""), "optimizer": ("optimizer_", "")}.get(role, ("",)):
        if getattr(settings, f"{name}base_url") is not None:
            return
        check_not_left_out(variable_name(f"{name}base_url"))
    check_not_left_out("OPENAI_BASE_URL", "OPENAI_API_BASE")


def _chosen(settings: ModelSettings, role: CallRole, environment: Mapping[str, str]) -> ModelChoice:
    openai_url = openai_address(environment) or OPENAI_URL
    keys, addresses = ["OPENAI_API_KEY"], ["AUTOPROMPT_BASE_URL"]
    _check_exclusive("", settings.model, settings.base_url)
    choice = _choice(settings.model, settings.base_url, openai_url, environment, keys, addresses)
    if role == "task":
        return choice
    keys, addresses = ["AUTOPROMPT_OPTIMIZER_API_KEY", *keys], ["AUTOPROMPT_OPTIMIZER_BASE_URL", *addresses]
    given_url = settings.base_url or openai_url
    if settings.optimizer_model is not None or settings.optimizer_base_url is not None:
        _check_exclusive("optimizer_", settings.optimizer_model, settings.optimizer_base_url)
        choice = _choice(
            settings.optimizer_model, settings.optimizer_base_url, given_url, environment, keys, addresses
        )
    if role == "optimizer":
        return choice
    keys, addresses = ["AUTOPROMPT_JUDGE_API_KEY", *keys], ["AUTOPROMPT_JUDGE_BASE_URL", *addresses]
    given_url = settings.optimizer_base_url or given_url
    if settings.judge_model is not None or settings.judge_base_url is not None:
        _check_exclusive("judge_", settings.judge_model, settings.judge_base_url)
        choice = _choice(
            settings.judge_model, settings.judge_base_url, given_url, environment, keys, addresses
        )
    return choice


def read_key(environment: Mapping[str, str], *names: str) -> str:
    """Return the key in the first of these variables that holds one; "" if none does.

    White space around it is left out: keys are pasted, and secrets that come from a file end with its line.

    Raises:
        ConfigError: If no header can carry it; the message does not repeat the key.
    """
    return _named_key(environment, names)[1]


def _named_key(environment: Mapping[str, str], names: Sequence[str]) -> tuple[str, str]:
    """Return the first of these variables that holds a key, and the key; see `read_key`."""
    given = ((name, environment.get(name, "").strip()) for name in names)
    name, key = next(((name, key) for name, key in given if key), ("", ""))
    for place, character in enumerate(key, 1):
        if not " " <= character <= "~":
            called = unicodedata.name(character, "a control character").lower()
            said = f"character {place} of the key is U+{ord(character):04X} ({called}), expected ASCII"
            fix = "Copy the key again, without typographic quotes."
            at = Place(setting=name, source="variable")
            raise ConfigError(Problem("endpoint.bad-key", said, at, fix))
    return name, key


def served_name(model: str | None) -> str | None:
    """Return the model name that answers carry for this setting.

    None if no model is named: then the endpoint has to say it, or it is the default, `local`.
    """
    if model == LOCAL:
        return None
    if model is None or not is_embedded(model):
        return model
    return ModelChoice(model, None, "").weights_name


def shown_model(settings: ModelSettings) -> str:
    """Return what the settings name as the task's model: a name, or else the address that is asked."""
    return settings.model or settings.base_url or LOCAL


def model_without_address(provider: str, name: str) -> str | None:
    """Return the setting `model` of a workflow's model that needs no address, as it is the embedded one.

    None for one of a provider that is asked at an address.
    """
    if is_embedded(name):
        return name
    return f"{LOCAL}:{name}" if provider == LOCAL else None


def missing_key(base_url: str, api_key: str, role: CallRole = "task") -> list[Problem]:
    """Return a warning if no key is set for an endpoint that most likely wants one. Sends nothing."""
    if api_key or has_login(base_url) or urlsplit(base_url).query:
        return []
    host = urlsplit(base_url).hostname or ""
    try:
        is_near = not ipaddress.ip_address(host).is_global
    except ValueError:  # a name
        is_near = "." not in host or host.endswith((".local", ".internal", ".lan"))
    if is_near:
        return []
    own = {"optimizer": "AUTOPROMPT_OPTIMIZER_API_KEY or ", "judge": "AUTOPROMPT_JUDGE_API_KEY or "}.get(
        role, ""
    )
    refuses = "refuses requests" if base_url == OPENAI_URL else "may refuse requests"
    said = f"{own}OPENAI_API_KEY is not set: {shown_url(base_url)} {refuses} without a key"
    return [Problem("endpoint.key-not-set", said)]


@contextmanager
def naming_setting(choice: ModelChoice, settings: ModelSettings) -> Iterator[None]:
    """In errors of the block without a place, name the setting that gave the model or its address."""
    kind, value = ("model", choice.model) if choice.base_url is None else ("base_url", choice.base_url)
    names = (kind, f"optimizer_{kind}", f"judge_{kind}")
    name = next((one for one in names if value is not None and getattr(settings, one) == value), None)
    try:
        yield
    except AutopromptError as error:
        place = Place(setting=name)
        error.problems = tuple(one.at(place) if one.place == Place() else one for one in error.problems)
        raise


def open_endpoint(
    choice: ModelChoice, settings: ModelSettings, on_progress: Progress | None = None
) -> Endpoint:
    """Start the embedded model, or ask the endpoint what has to be known of it.

    Raises:
        UsageError: If the address is not one, or if no model is named and the endpoint lists none or several.
        EndpointError: If the endpoint cannot be reached; it is fatal.
        AuthenticationError: If OpenAI would be asked without a key, or if the endpoint has to be asked for
            the model's name and refuses the key.
    """
    if choice.base_url is None:
        from autoprompt.llm import local

        server = local.start(choice.weights_name, on_progress=on_progress)
        constrain: Constrain = "grammar" if settings.constrain == "auto" else settings.constrain
        return Endpoint(server.base_url, server.model, server.api_key, server.identity, constrain, server)
    with naming_setting(choice, settings):
        base_url = checked_url(choice.base_url)
    if base_url == OPENAI_URL and not choice.api_key:
        fix = "Set it, or {base_url} for another endpoint, or use the embedded model with {model}."
        problem = Problem("endpoint.no-key", "OPENAI_API_KEY is not set", fix=fix, settings=WITHOUT_KEY)
        raise AuthenticationError(problem)
    wants_constrain = settings.constrain == "auto" and base_url != OPENAI_URL
    models = None
    if choice.model is None or wants_constrain:
        models = list_models(base_url, choice.api_key, is_needed=choice.model is None)
        if models is None and choice.model is None and (meant := meant_address(base_url, choice.api_key)):
            raise UsageError(found_elsewhere(f"{shown_url(base_url)}: no models are listed there", meant))
    model = choice.model or _only_model(models, base_url)
    if settings.constrain != "auto":
        constrain = settings.constrain
    elif base_url == OPENAI_URL:
        constrain = "json_schema"
    else:
        is_llama = any(entry.get("owned_by") == "llamacpp" for entry in models or ())
        constrain = "grammar" if is_llama else "off"
    return Endpoint(base_url, model, choice.api_key, address_without_secrets(base_url), constrain)


def _choice(
    model: str | None,
    base_url: str | None,
    default_url: str,
    environment: Mapping[str, str],
    keys: Sequence[str],
    addresses: Sequence[str],
) -> ModelChoice:
    """keys: the variables that may hold the key, which the embedded model does without; addresses: those
    that may hold the whole address, where a resumed run has it without its password."""
    if base_url is None and (model is None or is_embedded(model)):
        return ModelChoice(model, None, "")
    address = whole_address(base_url or default_url, environment, addresses)
    variable, key = _named_key(environment, keys)
    return ModelChoice(model, address, key, variable)


def _check_exclusive(prefix: str, model: str | None, base_url: str | None) -> None:
    """prefix: of the two settings' names."""
    if base_url is not None and is_embedded(model):
        said = f"{model!r} is a local model, but {shown_url(base_url)} is an endpoint"
        fix = f"Remove {{{prefix}base_url}}, or name a model of that endpoint as {{{prefix}model}}."
        settings = {f"{prefix}base_url": None, f"{prefix}model": "<MODEL>"}
        place = Place(setting=f"{prefix}model")
        raise UsageError(Problem("endpoint.local-and-address", said, place, fix, settings))


def _only_model(models: Sequence[Mapping[str, Any]] | None, base_url: str) -> str:
    names = [str(entry["id"]) for entry in models or () if "id" in entry]
    if len(names) == 1:
        return names[0]
    found = f"it lists {len(names)}: {', '.join(sorted(names)[:40])}" if names else "it lists none"
    said, fix = f"{shown_url(base_url)}: no model is named, and {found}", "Choose one with {model}."
    raise UsageError(Problem("endpoint.no-model", said, fix=fix, settings={"model": "<MODEL>"}))


def sends_to(config: CallSettings, roles: Iterable[CallRole]) -> SendsTo | None:
    """Return where the models of these roles are asked, without secrets.

    None if only the embedded model is asked. The judge is left out unless it scores.
    """
    is_judged = isinstance(config, DataSettings) and config.metric == JUDGED
    asked = [role for role in roles if role != "judge" or is_judged]
    return sends_choices([choose_model(config, role) for role in asked], _what(config))


def sends_choices(choices: Iterable[ModelChoice], what: str) -> SendsTo | None:
    """Return where these models are asked; None if all of them are embedded. what: the data that is sent."""
    asked = [choice for choice in choices if choice.base_url is not None]
    to = _grouped(
        (shown_url(str(one.base_url)), one.key_variable or None, filter(None, [one.model])) for one in asked
    )
    return SendsTo(to, what) if to else None


def _grouped(asked: Iterable[tuple[str, str | None, Iterable[str]]]) -> tuple[SentTo, ...]:
    """Return the models of each address and key, each named once."""
    found: dict[tuple[str, str | None], dict[str, None]] = {}
    for address, key, models in asked:
        found.setdefault((address, key), {}).update(dict.fromkeys(models))
    return tuple(SentTo(address, key, tuple(models)) for (address, key), models in found.items())


def all_of(events: Iterable[SendsTo | None]) -> SendsTo | None:
    """Return one event for several runs."""
    given = [event for event in events if event is not None]
    to = _grouped((to.address, to.key, to.models) for event in given for to in event.to)
    return SendsTo(to, " and ".join(dict.fromkeys(event.what for event in given))) if to else None


def _what(config: CallSettings) -> str:
    if isinstance(config, ScienceConfig):
        names = ", ".join(path.name for path in config.data)
        return f"the task and outputs of experiments{f' on {names}' if names else ''}"
    if not isinstance(config, DataSettings):
        return "inputs"
    given = [path for path in (config.dataset, config.train, config.val, config.test) if path is not None]
    files = dict.fromkeys(path.name for path in given)
    return "your rows" if any(map(is_given, given)) else f"rows of {', '.join(files)}"
