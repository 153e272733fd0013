"""What is known of a model in one role: what the user says, else what a run has measured, else a default.

`traits_of` says what is known before anything is sent. `KnownTraits` keeps what a run finds out in its
folder, so that a resumed run and a replay send the same requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.llm.client import ROLES, CallRole
from autoprompt.llm.endpoints import choose_model
from autoprompt.records import Usage
from autoprompt.settings.records import LOCAL, ModelSettings, TraitSettings
from autoprompt.text.files import read_json, write_json

Source = Literal["user", "measured", "default"]

# What takes seconds: a prompt of many demonstrations is read anew, a row is reasoned about.
_READ_TOKENS, _WRITTEN_TOKENS = 1_000, 100
_SLOW_S, _NOTICED_S = 3.0, 1.0
_FEWEST_TIMED = 8  # answers
_OF_A_ROLE = ("thinks_first", False)  # says nothing of another role
# The second timeout is for models that take their time: the embedded one, and those that think. The embedded
# model has one request at a time and no network to fail: a long answer on a busy core is slow,
# and asking for it again loses what it has written (512 tokens took over two minutes).
# Of clients of one's own, of the embedded model, and the most that `concurrency: auto` sends to an endpoint.
CONCURRENCY, _LOCAL_CONCURRENCY, _MOST_CONCURRENCY = 16, 1, 64
_TIMEOUT_S, _LONG_TIMEOUT_S = 120.0, 600.0
# Of whole runs on the default of the embedded models, reading of new prompts and writing included: `make run`
# on two cores with AVX-512 and a runtime of its own, and a run on one slow core.
_LOCAL_CALL_S = 0.7, 2.5
_WINDOW, _LOCAL_WINDOW = 32_768, 8192  # the second is what llama.cpp is started with


@dataclass(frozen=True, slots=True)
class Traits:
    """One model in one role.

    concurrency: most requests at once. timeout_s: how long to wait for an answer.
    output_tokens: the user's own limit of an answer, thoughts included; None if there is none.
    reasoning_effort: as in `Options`.
    thinks_first: whether it writes thoughts before its answer; None: not known yet.
    thought_tokens: room for thoughts that its answers get besides their own; 0: not known yet.
    largest_output: the largest limit of an answer that the endpoint takes; None: not known.
    window_tokens: of a request and its answer together.
    refused: parameters that the endpoint does not take.
    is_slow: a long answer takes it seconds. rereads_prefix: requests that begin alike are read faster.
    writes_well: it can write and analyze prompts, and not only describe answers.
    call_s: least and most seconds of a call, the mean of a whole run's; None: nobody knows.
    sources: name of a trait -> where it is known from; a default if it is not there.
    """

    concurrency: int = CONCURRENCY
    timeout_s: float = _TIMEOUT_S
    output_tokens: int | None = None
    reasoning_effort: str | None = None
    thinks_first: bool | None = None
    thought_tokens: int = 0
    largest_output: int | None = None
    window_tokens: int = _WINDOW
    has_system_role: bool = True
    refused: tuple[str, ...] = ()
    is_slow: bool = False
    rereads_prefix: bool = False
    writes_well: bool = True
    call_s: tuple[float, float] | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)

    def source(self, name: str) -> Source:
        return self.sources.get(name, "default")

    @property
    def patience_s(self) -> float | None:
        """How long to wait for an answer whatever the transport is set to: thoughts take minutes."""
        is_long = self.thinks_first is True and self.source("timeout_s") == "default"
        return max(self.timeout_s, _LONG_TIMEOUT_S) if is_long else None

    def with_known(self, known: Mapping[str, Any], source: Source) -> Traits:
        """Return the traits with those that this source knows, but for what a user has said."""
        new = {name: value for name, value in known.items() if self.source(name) != "user"}
        return replace(self, **new, sources={**self.sources, **dict.fromkeys(new, source)})


def traits_of(
    settings: ModelSettings, role: CallRole, environment: Mapping[str, str] | None = None
) -> Traits:
    """Return what the settings and the kind of model say. Sends nothing."""
    from autoprompt.llm import weights

    choice = choose_model(settings, role, environment)
    if not choice.is_local:
        return said_traits(settings, role, Traits(concurrency=_MOST_CONCURRENCY))
    is_known = choice.weights_name in weights.KNOWN  # a user's own file may hold any model
    embedded = Traits(
        concurrency=_LOCAL_CONCURRENCY,
        timeout_s=_LONG_TIMEOUT_S,
        thinks_first=False if is_known else None,
        window_tokens=_LOCAL_WINDOW,
        is_slow=True,
        rereads_prefix=True,
        writes_well=not is_known,
        call_s=_LOCAL_CALL_S if choice.weights_name == weights.DEFAULT else None,
        # By Qwen's template the model writes calls with doubled braces, which llama.cpp takes for text.
        refused=("tools",),
    )
    return said_traits(settings, role, embedded)


def said_traits(settings: ModelSettings, role: CallRole, base: Traits = Traits()) -> Traits:
    """Return `base` with what the user's settings say of the model of a role."""
    limits = {
        "task": settings.max_output_tokens,
        "optimizer": settings.optimizer_max_output_tokens,
        "judge": settings.judge_max_output_tokens,
    }
    said: dict[str, Any] = {
        "concurrency": None if settings.concurrency == "auto" else settings.concurrency,
        "timeout_s": settings.timeout,
        "output_tokens": limits[role],
        "reasoning_effort": settings.reasoning_effort,
    }
    given = settings.traits
    own = {"optimizer": given.optimizer, "judge": given.judge}.get(role) if given is not None else None
    for record in (given, own):  # settings of one role replace those of all roles
        for name in TraitSettings.model_fields if record is not None else ():
            said[name] = value if (value := getattr(record, name)) is not None else said.get(name)
    return base.with_known({name: value for name, value in said.items() if value is not None}, "user")


class _MeasuredTraits(BaseModel):
    """What a run has found out about one model, as it is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    role: CallRole
    endpoint: str
    thinks_first: bool | None = None
    thought_tokens: NonNegativeInt = 0
    largest_output: PositiveInt | None = None
    window_tokens: PositiveInt = _WINDOW
    has_system_role: bool = True
    refused: tuple[str, ...] = ()
    is_slow: bool = False
    rereads_prefix: bool = False


class KnownTraits:
    """What a run has found out about its models, per role and endpoint. Thread-safe.

    path: where it is kept, read at first and written with each finding; None: nowhere.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        if path is not None and path.exists():
            self._found = _read_traits(path)

    def of(self, role: CallRole, endpoint: str) -> dict[str, Any]:
        """Return what was measured in this role, and in others of the same endpoint.

        That a model answers one role without thinking says nothing of another.
        """
        with self._lock:
            others = (self._found.get((other, endpoint), {}) for other in ROLES if other != role)
            found: dict[str, Any] = {}
            for entry in others:
                found |= {name: value for name, value in entry.items() if (name, value) != _OF_A_ROLE}
            return found | self._found.get((role, endpoint), {})

    def note(self, role: CallRole, endpoint: str, found: Mapping[str, Any]) -> None:
        with self._lock:
            entry = self._found.setdefault((role, endpoint), {})
            if all(entry.get(name) == value for name, value in found.items()):
                return
            entry |= found
            if self._path is not None:
                entries = sorted(self._found.items())
                listed = [{"role": one, "endpoint": other, **entry} for (one, other), entry in entries]
                write_json(self._path, {"traits": listed})


def _read_traits(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the noted traits, or raise StoreError if `KnownTraits.note` did not write the file."""
    try:
        entries = [_MeasuredTraits.model_validate(entry) for entry in read_json(path)["traits"]]
    except (ValueError, KeyError, TypeError) as error:
        said, fix = (
            "this is not a list of measured traits",
            "Delete the file. The models are then measured again.",
        )
        raise StoreError(Problem("run.bad-traits", said, Place(path), fix)) from error
    return {
        (entry.role, entry.endpoint): entry.model_dump(exclude={"role", "endpoint"}, exclude_unset=True)
        for entry in entries
    }


class LearnedTraits:
    """The traits of one endpoint's model, by role, which grow as its answers come. Thread-safe.

    said: what is known of a role before anything is sent.
    """

    def __init__(
        self,
        endpoint: str = LOCAL,
        said: Callable[[CallRole], Traits] = lambda _: Traits(),
        known: KnownTraits | None = None,
    ) -> None:
        self._endpoint, self._said = endpoint, said
        self._known_traits = known if known is not None else KnownTraits()
        self._lock = threading.RLock()
        self._known: dict[CallRole, Traits] = {}

    def said(self, role: CallRole) -> Traits:
        """Return what was known before anything was sent."""
        return self._said(role)

    def of(self, role: CallRole) -> Traits:
        with self._lock:
            if role not in self._known:
                found = self._known_traits.of(role, self._endpoint)
                self._known[role] = self._said(role).with_known(found, "measured")
            return self._known[role]

    def learn(self, role: CallRole, **found: Any) -> Traits:
        """Note what was measured in a role; what the user has said stays."""
        with self._lock:
            self._known[role] = known = self.of(role).with_known(found, "measured")
            self._known_traits.note(role, self._endpoint, found)
        return known

    def learn_speed(self, role: CallRole, usages: Iterable[Usage]) -> None:
        """Note whether the model is slow and what a new beginning costs, from its first answers.

        Only what endpoints say of their own seconds counts (llama.cpp does), so that a replay of the same
        answers finds the same. What is fast is not noted: that is the default.
        """
        timed = [usage for usage in usages if usage.read_s or usage.write_s]
        if len(timed) < _FEWEST_TIMED:
            return
        total = sum(timed, Usage())
        read_s = total.read_s / max(1, total.uncached_tokens)
        write_s = total.write_s / max(1, total.completion_tokens)
        found: dict[str, Any] = {}
        if max(_READ_TOKENS * read_s, _WRITTEN_TOKENS * write_s) >= _SLOW_S:
            found["is_slow"] = True
        if total.cached_tokens and _READ_TOKENS * read_s >= _NOTICED_S:
            found["rereads_prefix"] = True
        if found:
            self.learn(role, **found)

    def learn_of_endpoint(self, **found: Any) -> None:
        """Note what was measured in one role and holds for every role of the endpoint."""
        with self._lock:
            for each in ROLES:
                self.learn(each, **found)
