"""A model that answers from a script: for tests, examples and dry runs of one's own code. Public."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoprompt.errors import InputError, Problem
from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message, Usage
from autoprompt.text.names import counted
from autoprompt.text.tokens import estimate_tokens

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
    """Whether the function can be called with messages and options."""
    try:
        inspect.signature(function).bind([], Options())
    except TypeError:
        return False
    return True
