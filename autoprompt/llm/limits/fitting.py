"""Fits requests to what an endpoint takes, as its answers and refusals teach it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from autoprompt.errors import EndpointError, ModelError, RequestRefusedError, WithheldError
from autoprompt.llm.client import ROLES, Completion, Options
from autoprompt.llm.limits.room import Room
from autoprompt.llm.traits import LearnedTraits
from autoprompt.llm.transport.failures import found_elsewhere
from autoprompt.llm.transport.refusals import SYSTEM
from autoprompt.llm.transport.wire import Parameters, needs_plain_turns
from autoprompt.records import Message

_UNNAMED = (400, 413, 422)  # statuses of a refusal that may mean any part of the request


@dataclass(slots=True)
class Request:
    """One request, and what it is tried without to see whether it was that which the endpoint refused.

    prompt_tokens: estimated.
    """

    messages: Sequence[Message]
    options: Options
    prompt_tokens: int
    has_system: bool = True
    has_room: bool = True


class Fitting:
    """What one endpoint takes. Thread-safe.

    parameters: the transport's; None for one that sends none. find_address: says which address is meant where
    no endpoint answers; "" if it finds none.
    """

    def __init__(
        self, traits: LearnedTraits, parameters: Parameters | None, find_address: Callable[[], str]
    ) -> None:
        self.traits = traits
        self._room, self._parameters = Room(traits), parameters
        self._find_address, self._looking, self._hint = find_address, threading.Lock(), ""
        self._has_looked = self._was_answered = False
        self._takes_system = False  # what was refused with a system message was refused without it, too
        if parameters is not None:
            for known in map(traits.of, ROLES):
                for name in (*known.refused, *(() if known.has_system_role else (SYSTEM,))):
                    parameters.drop(name)

    def turn(self, options: Options) -> AbstractContextManager[None]:
        """See `Room.turn`."""
        return self._room.turn(options)

    def wanted(self, request: Request) -> Options:
        """Return the options to send: with the limit that this model needs, and patience for it."""
        options = request.options
        limit = options.max_output_tokens
        if request.has_room:
            is_held = self._parameters is not None and self._parameters.holds(options)
            limit = self._room.limit(options, request.prompt_tokens, is_held=is_held)
        patience_s = self.traits.of(options.role).patience_s
        return replace(options, max_output_tokens=limit, timeout_s=patience_s)

    def is_enough(self, answer: Completion, wanted: Options, options: Options) -> bool:
        """See `Room.is_enough`."""
        return self._room.is_enough(answer, wanted, options)

    def was_taken(self, sent: Options, wanted: Options, request: Request) -> None:
        """Note that the endpoint has answered a request. wanted: before the budget lowered its limit."""
        self._was_answered = True
        self._room.clear(sent.max_output_tokens)
        if not request.has_system:
            self.traits.learn_of_endpoint(has_system_role=False)
        if not request.has_room:
            self.traits.learn(sent.role, largest_output=wanted.max_output_tokens)
            request.has_room = True  # if the answer is cut

    def learns_from(self, error: RequestRefusedError, sent: Options, request: Request) -> bool:
        """Return whether the request may be taken without what was refused, or with a smaller limit."""
        limit, role = sent.max_output_tokens, sent.role
        if limit is not None and self._room.refused(error, request.prompt_tokens):
            return (self.wanted(request).max_output_tokens or 0) < limit
        parameters, name = self._parameters, error.parameter
        if parameters is None:
            return False
        if not request.has_system and self.traits.of(role).has_system_role:
            self._takes_system = True
            parameters.restore(SYSTEM)
            return False
        if name is None and error.status in _UNNAMED and not isinstance(error, WithheldError):
            # Some endpoints do not say what they refuse: first a limit is looked into that nobody asked for,
            # then the system message, if nobody was answered so far.
            if limit is not None and request.has_room and self._room.may_blame(limit, request.options):
                # If no limit was taken so far: is it the limit at all?
                request.has_room = self._room.halve(limit, role)
                return True
            if not request.has_room:
                request.has_room = True
                self._room.clear(self.wanted(request).max_output_tokens)
            if not self._was_answered and needs_plain_turns(request.messages):
                name = SYSTEM
        if name is None or (name == SYSTEM and (self._takes_system or not request.has_system)):
            return False
        parameters.drop(name)
        if name == SYSTEM:
            request.has_system = False
        else:
            self.traits.learn_of_endpoint(refused=parameters.dropped)
        return True

    def raise_if_elsewhere(self, error: ModelError) -> None:
        """Raise a fatal error that names the address that was meant, if one is found."""
        with self._looking:
            if not self._has_looked:
                self._has_looked, self._hint = True, self._find_address()
        if self._hint:
            status = getattr(error, "status", None)
            problem = found_elsewhere(str(error), self._hint)
            raise EndpointError(problem, status=status, is_fatal=True) from error
