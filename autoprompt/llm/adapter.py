"""Clients of one's own: which role has which, the door between them and us, and a scripted one.

What goes wrong inside such a client is the failure of one row, in our words.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoprompt.brief import brief
from autoprompt.errors import AutopromptError, ConfigError, InputError, Problem
from autoprompt.llm import portal
from autoprompt.llm.client import (
    CallRole,
    Client,
    Completion,
    Options,
    acomplete_of,
    ended,
    own_acomplete,
)
from autoprompt.llm.transport.failures import OwnClientError
from autoprompt.llm.transport.usage import UsageReader
from autoprompt.records import Message, Usage
from autoprompt.text.names import counted
from autoprompt.text.scripts import estimate_tokens


@dataclass(frozen=True, slots=True)
class Models:
    """Your own models instead of those that the settings name, such as scripted ones in tests.

    A client has a text as its attribute `name`, and `complete(messages, options)` that returns a
    `Completion`; several threads call it at once. In place of `complete`, or beside it, it may have
    `async def acomplete(messages, options)`. Many of those run at once on one event loop, which is not the
    caller's: make what belongs to a loop, such as a session, at the first call.

    A run does not close clients, and keeps their answers in its own journal. The response cache, which all
    runs share, takes only answers of a client with an attribute `identity`, a text that names its model. The
    cost of an answer is `Usage.cost_usd`, unless the settings have prices, which are for the task's client.

    Attributes:
        task: Answers the rows.
        optimizer: Analyzes and writes; default: `task`.
        judge: Grades; default: `optimizer`.

    Examples:
        >>> from autoprompt import Models
        >>> from autoprompt.llm import ScriptedClient
        >>> Models(ScriptedClient(lambda messages: "A")).task.complete([]).text
        'A'
    """

    task: Client
    optimizer: Client | None = None
    judge: Client | None = None

    __repr__ = brief

    def of(self, role: CallRole) -> Client:
        """Return the client of a role.

        Args:
            role: Without a client of its own it has that of the role before it: task, optimizer, judge.
        """
        if role == "task":
            return self.task
        optimizer = self.optimizer or self.task
        return optimizer if role == "optimizer" else self.judge or optimizer

    def first_role(self, role: CallRole) -> CallRole:
        """Return the first of the roles that share a client.

        Args:
            role: One of these roles.
        """
        roles: tuple[CallRole, ...] = ("task", "optimizer", "judge")
        return next(other for other in roles if self.of(other) is self.of(role))


def check_own_models(models: object) -> None:
    """Check that `models` is a `Models`, and not a client.

    Raises:
        ConfigError: If it is anything else.
    """
    if models is not None and not isinstance(models, Models):
        said, fix = f"models is {models!r:.80}, expected Models", "Give models=Models(client)."
        raise ConfigError(Problem("model.not-models", said, fix=fix))


def _plain(answer: Completion) -> Completion:
    """With numbers and texts that can be kept as JSON: numpy's integers, say, or a cost as a Decimal.

    Raises ValueError or TypeError for what is none: it would end the run, and not the row, further on.
    """
    probs = answer.label_probs
    return replace(
        answer,
        usage=_plain_usage(answer.usage),
        label_probs=None
        if probs is None
        else {str(name): float(share) for name, share in dict(probs).items()},
        finish_reason=ended(answer.finish_reason),
        model=str(answer.model or ""),
        latency_s=float(answer.latency_s or 0.0),
    )


def _plain_usage(usage: Usage) -> Usage:
    counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    plain: dict[str, Any] = {name: int(getattr(usage, name)) for name in counts}
    plain |= {name: float(getattr(usage, name)) for name in ("read_s", "write_s")}
    for name in ("cost_usd", "billed_usd"):
        usd = getattr(usage, name)
        plain[name] = None if usd is None else float(usd)
        if usd is not None and not math.isfinite(plain[name]):
            raise ValueError(f"{name} is {usd}")
    return Usage(**plain)


class ForwardedCalls:
    """The task's model of a program: its own requests, sent as they are."""

    name = "program"
    identity = "program"

    def __init__(self) -> None:
        self.usage = UsageReader("the program's endpoint")

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:  # noqa: ARG002
        if options.forward is None:
            raise TypeError("only the program's own requests are sent")
        return options.forward.send(options.max_output_tokens, self.usage)

    def close(self) -> None:
        """Do nothing: the program closes its own clients."""


class OwnClient:
    """The door between a user's client and ours.

    What it raises becomes an OwnClientError, but for errors of ours, which it may raise on purpose.
    The client stays its owner's: `close()` does not close it. Raises ConfigError for what is no client.
    """

    def __init__(self, inner: Client) -> None:
        if isinstance(inner, type):
            said, fix = f"{inner.__name__} is a class, expected a client", f"Give {inner.__name__}(...)."
            raise ConfigError(Problem("model.not-a-client", said, fix=fix))
        asks = "acomplete" if hasattr(inner, "acomplete") else "complete"
        if missing := [name for name in ("name", asks) if not hasattr(inner, name)]:
            said = f"{inner!r:.80} is not a client: it has no {' and no '.join(missing)}"
            fix = "Give it an attribute `name` and a method `complete(messages, options) -> Completion`."
            raise ConfigError(Problem("model.not-a-client", said, fix=fix))
        self._inner, self._ask = inner, acomplete_of(inner)
        self.usage = inner.usage if isinstance(inner, ForwardedCalls) else None

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def is_async(self) -> bool:
        """Whether it needs no thread while it waits for an answer."""
        return own_acomplete(self._inner) is not None

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        return portal.run(self.acomplete(messages, options))

    async def acomplete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """Answer as `complete` does, on the loop of `portal`."""
        try:
            answer: object = await self._ask(messages, options)
        except AutopromptError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # it is not the client's own
            raise OwnClientError(f"client {self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(answer, Completion) or not isinstance(answer.text, str):
            raise OwnClientError(
                f"client {self.name} returned {answer!r:.200}; expected an autoprompt.Completion with a text"
            )
        if not isinstance(answer.usage, Usage):
            raise OwnClientError(
                f"client {self.name} returned a usage of {answer.usage!r:.200}; expected an autoprompt.Usage"
            )
        try:
            return _plain(answer)
        except (TypeError, ValueError, OverflowError) as error:
            raise OwnClientError(
                f"client {self.name} returned {answer.usage!r:.200} and label_probs "
                f"{answer.label_probs!r:.100}; expected numbers, and a cost of None where it is not known"
            ) from error

    def close(self) -> None:
        """Nothing is held."""


Answer = str | Completion | Exception
Responses = Sequence[Answer] | Mapping[str, Answer] | Callable[..., Answer]


class ScriptedClient:
    """A `Client` without a model.

    responses: a list (answered in order), a dict (content of the last message -> answer), or a function of
        the messages, or of messages and options. An answer is a text or a whole `Completion`; an exception is
        raised, whether the function raises it or the script lists it.
    calls: the messages of every call so far, in order of arrival.
    identity: a text that stands for this script in the response cache; None: no answer goes into it.
    Tokens are made up from the lengths of the texts, so they are equal in every run; cost is 0.
    Raises InputError when the list has run out or the dict does not know the message.
    """

    def __init__(self, responses: Responses, *, name: str = "scripted", identity: str | None = None) -> None:
        self._name = name
        self.identity = identity
        self._lock = threading.Lock()
        self.calls: list[list[Message]] = []
        self._responses: Responses = responses
        self._next = 0
        self._wants_options = callable(responses) and _takes_two(responses)

    @property
    def name(self) -> str:
        return self._name

    def set_response_sequence(self, responses: Sequence[Answer]) -> None:
        """Answer with these from now on, in order. `calls` stays."""
        with self._lock:
            self._responses, self._next, self._wants_options = list(responses), 0, False

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        answer = self._answer(list(messages), options)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        prompt_tokens = estimate_tokens(messages)
        return Completion(
            answer, Usage(prompt_tokens, estimate_tokens(answer)), finish_reason="stop", model=self._name
        )

    def close(self) -> None:
        """Nothing is held."""

    def _answer(self, messages: list[Message], options: Options) -> Answer:
        with self._lock:
            self.calls.append(messages)
            responses = self._responses
            if not callable(responses):
                return self._look_up(responses, messages)
            wants_options = self._wants_options
        return responses(messages, options) if wants_options else responses(messages)

    def _look_up(self, responses: Sequence[Answer] | Mapping[str, Answer], messages: list[Message]) -> Answer:
        asked = messages[-1].content if messages else ""
        if isinstance(responses, Mapping):
            if asked not in responses:
                known = ", ".join(repr(key) for key in list(responses)[:5])
                said = f"the script has no answer to {asked!r}; it knows {len(responses)}: {known}"
                raise InputError(Problem("model.not-scripted", said, fix="Add this answer to the script."))
            return responses[asked]
        if self._next >= len(responses):
            said = f"the script's {counted(len(responses), 'answer')} are used up; next request: {asked!r}"
            raise InputError(Problem("model.not-scripted", said, fix="Add more answers to the script."))
        self._next += 1
        return responses[self._next - 1]


def _takes_two(function: Callable[..., Any]) -> bool:
    """Return whether the function can be called with messages and options."""
    try:
        inspect.signature(function).bind([], Options())
    except TypeError:
        return False
    return True
