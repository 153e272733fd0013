"""Fits requests to what an endpoint takes, as its answers and refusals teach it, and bounds answers.

Callers say how long an answer itself may be. Thoughts count against the same limit, be they shown or hidden,
so a model that is not known gets generous room. What its answers take then decides: one that does not think
is cut where the caller wants it, one whose thoughts fill the room gets eight times as much. An answer to
which the thoughts left too little is asked for again with more room, and never with the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace

from autoprompt.errors import EndpointError, ModelError, RequestRefusedError, WithheldError
from autoprompt.llm import portal
from autoprompt.llm.client import CUT, ROLES, CallRole, Completion, Options
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.llm.transport.failures import SYSTEM, found_elsewhere
from autoprompt.llm.transport.wire import Parameters, needs_plain_turns
from autoprompt.records import Message
from autoprompt.text.answers.texts import split_thoughts

FIRST_ROOM = 8192  # tokens for the thoughts of a model of which nothing is known
MORE = 8  # times as much, if that was too little, or nearly so
LARGEST = 131_072  # tokens; the largest limit that most models of today take
# Answers without a thought after which a model counts as one that does not think. In flight together are 16:
# one that thinks now and then shows it among these. Writers are asked seldom, so for them it is not worth it.
_FEWEST_PLAIN = 8
_PLAIN_ROLES: tuple[CallRole, ...] = ("task", "judge")
# Tokens that an answer of such a model may have at least: one that says a word more than asked is not cut.
LEAST_PLAIN = 256
_FEW = 64  # tokens by which a count may be above what is visible, without a thought


class Room:
    """The limits of one endpoint's answers. At work on the loop of `portal`."""

    def __init__(self, traits: LearnedTraits) -> None:
        self.traits = traits
        self._plain: dict[CallRole, int] = {}  # answers without a thought, in a row from the first
        self._wordy: set[CallRole] = set()  # roles with an answer that such a limit would have cut
        self._first = {role: asyncio.Lock() for role in ROLES}
        self._had_first: set[CallRole] = set()
        self._accepted = 0  # the largest limit that the endpoint took
        self._blamed = 0  # the smallest one that it refused without naming a bound; 0: none

    def turn(self, options: Options) -> AbstractAsyncContextManager[None]:
        """Hold requests back until the first one of a role is answered, if nothing is known of it.

        Without that, as many as are sent at once would find out alone that their limit is too small, or that
        the endpoint takes no system message. A request that blocks an event loop is not held back.
        """
        role = options.role
        is_known = role in self._had_first or self.traits.of(role).thinks_first is not None
        return nullcontext() if is_known or options.blocks_loop else self._first_or_later(role)

    @asynccontextmanager
    async def _first_or_later(self, role: CallRole) -> AsyncIterator[None]:
        async with self._first[role]:
            if role not in self._had_first:
                try:
                    yield
                finally:
                    self._had_first.add(role)
                return
        yield

    def limit(self, options: Options, prompt_tokens: int, *, is_held: bool = False) -> int | None:
        """Return the limit to send. None: none.

        is_held: the endpoint holds the answer to the allowed labels, so that there can be no thoughts.
        """
        traits = self.traits.of(options.role)
        asked = options.max_output_tokens
        if asked is None:
            return None
        wanted = asked
        if not options.is_limit_given and not is_held:
            wanted = self._with_room(asked, traits)
        if traits.largest_output is not None:
            wanted = min(wanted, traits.largest_output)
        if traits.source("window_tokens") != "default":
            # Never under what was asked for: that such a request is too long, the endpoint says best.
            wanted = max(min(wanted, traits.window_tokens - prompt_tokens), min(wanted, asked))
        return wanted

    def is_enough(self, answer: Completion, sent: Options, asked: Options) -> bool:
        """Return whether to take this answer; else it is to be asked for again, with more room.

        sent: the options with the limit for this model. Notes what the answer tells of the model.
        """
        role, limit = asked.role, sent.max_output_tokens
        traits = self.traits.of(role)
        if limit is None or asked.max_output_tokens is None or self._is_plain_for_sure(role):
            return True
        written = answer.usage.completion_tokens
        text, thoughts = split_thoughts(answer.text)
        counted = answer.usage.reasoning_tokens
        has_thoughts = bool(answer.has_thoughts or thoughts or counted) or _has_hidden(answer, text)
        if has_thoughts and (traits.thinks_first is not True or 2 * written > limit):
            more = MORE * limit if 2 * written > limit else 0
            traits = self._learn_thinking(role, traits, more)
        if not answer.is_cut:
            self._count_plain(role, traits, written, asked.max_output_tokens)
            return True
        is_in_thought = traits.thinks_first is True and not has_thoughts
        if text and not has_thoughts and not is_in_thought and 2 * written < limit:
            return True  # something else ended it, as the end of the window
        visible = 0 if is_in_thought else min(written - counted, len(text))
        if visible >= asked.max_output_tokens or asked.is_limit_given:
            return True
        self._learn_thinking(role, traits, MORE * limit)
        if self._blamed and traits.largest_output is not None and self._blamed // 2 >= 2 * limit:
            self.traits.learn(role, largest_output=max(traits.largest_output, self._blamed // 2))
        return False

    def _learn_thinking(self, role: CallRole, traits: Traits, more: int) -> Traits:
        """Note that the model thinks, and at least how much room that takes."""
        room = min(LARGEST, max(FIRST_ROOM, traits.thought_tokens, more))
        return self.traits.learn(role, thinks_first=True, thought_tokens=room)

    def refused(self, error: RequestRefusedError, prompt_tokens: int) -> bool:
        """Note the bound that a refusal names. Returns whether it names one."""
        if error.most_tokens is None and error.window_tokens is None:
            return False
        self._blamed = 0
        if error.window_tokens is None:
            self.traits.learn_of_endpoint(largest_output=error.most_tokens)
            return True
        # What is estimated of the prompt may be too little: as much as the endpoint has counted is not.
        counted = prompt_tokens if error.most_tokens is None else error.window_tokens - error.most_tokens
        window = error.window_tokens - max(0, counted - prompt_tokens)
        self.traits.learn_of_endpoint(window_tokens=window)
        return True

    def may_blame(self, limit: int, options: Options) -> bool:
        """Return whether a limit above what was asked for may be why a request was refused."""
        return limit > max(self._accepted, options.max_output_tokens or limit)

    def halve(self, limit: int, role: CallRole) -> bool:
        """Note that a limit may be too large. Returns whether a smaller one is known to be taken.

        The next one is half of it, or what was taken if that is nearly as much.
        """
        self._blamed = min(self._blamed or limit, limit)
        half, accepted = self._blamed // 2, self._accepted
        if accepted:
            self.traits.learn(role, largest_output=half if half >= 2 * accepted else accepted)
        return accepted > 0

    def clear(self, limit: int | None) -> None:
        """Note that a request was not refused for this limit."""
        self._accepted = max(self._accepted, limit or 0)
        if self._accepted >= self._blamed:
            self._blamed = 0

    def _is_plain_for_sure(self, role: CallRole) -> bool:
        """Return whether the user or the kind of model says that it does not think."""
        return self.traits.of(role).thinks_first is False and (
            self.traits.of(role).source("thinks_first") != "measured"
        )

    def _with_room(self, asked: int, traits: Traits) -> int:
        if traits.thinks_first is False:
            return max(asked, LEAST_PLAIN) if traits.source("thinks_first") == "measured" else asked
        return min(max(LARGEST, asked), asked + (traits.thought_tokens or FIRST_ROOM))

    def _count_plain(self, role: CallRole, traits: Traits, written: int, asked: int) -> None:
        """Note one answer without a thought. One that is longer than it would be cut at is none."""
        if traits.thinks_first is not None or role not in _PLAIN_ROLES:
            return
        if 2 * written > max(asked, LEAST_PLAIN):
            self._wordy.add(role)
        self._plain[role] = self._plain.get(role, 0) + 1
        is_plain = self._plain[role] >= _FEWEST_PLAIN and role not in self._wordy
        if is_plain:
            self.traits.learn(role, thinks_first=False)


def as_cut(answer: Completion, limit: int | None) -> Completion:
    """Return the answer, called cut if it is empty and has used up the limit.

    Some endpoints do not say so.
    """
    is_used_up = answer.is_empty and limit is not None and 0 < limit <= answer.usage.completion_tokens
    return replace(answer, finish_reason=CUT) if is_used_up and not answer.withheld else answer


def _has_hidden(answer: Completion, visible: str) -> bool:
    """Return whether far more was written than is visible.

    These are thoughts that the endpoint counts and does not show.
    """
    if answer.tool_calls or not visible.strip():
        return False
    return answer.usage.completion_tokens > 2 * len(visible) + _FEW


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
    """What one endpoint takes. At work on the loop of `portal`.

    parameters: the transport's; None for one that sends none. find_address: says which address is meant where
    no endpoint answers; "" if it finds none.
    """

    def __init__(
        self, traits: LearnedTraits, parameters: Parameters | None, find_address: Callable[[], str]
    ) -> None:
        self.traits = traits
        self._room, self._parameters = Room(traits), parameters
        self._find_address, self._looking, self._hint = find_address, asyncio.Lock(), ""
        self._has_looked = self._was_answered = False
        self._last_wanted = Options(), Options()
        self._takes_system = False  # what was refused with a system message was refused without it, too
        if parameters is not None:
            for name in (name for role in ROLES for name in _not_taken(traits.of(role))):
                parameters.drop(name)
        # Known before the first request, so that nothing was refused.
        self.never_sent = {name for role in ROLES for name in _not_taken(traits.said(role))}

    def turn(self, options: Options) -> AbstractAsyncContextManager[None]:
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
        if (limit, patience_s) == (options.max_output_tokens, options.timeout_s):
            return options
        before, wanted = self._last_wanted  # rows share their options
        if before is not options or (limit, patience_s) != (wanted.max_output_tokens, wanted.timeout_s):
            wanted = replace(options, max_output_tokens=limit, timeout_s=patience_s)
            self._last_wanted = options, wanted
        return wanted

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

    async def raise_if_elsewhere(self, error: ModelError) -> None:
        """Raise a fatal error that names the address that was meant, if one is found."""
        async with self._looking:
            if not self._has_looked:
                self._has_looked, self._hint = True, await portal.in_caller(self._find_address)
        if self._hint:
            status = getattr(error, "status", None)
            problem = found_elsewhere(str(error), self._hint)
            raise EndpointError(problem, status=status, is_fatal=True) from error


def _not_taken(known: Traits) -> tuple[str, ...]:
    return known.refused if known.has_system_role else (*known.refused, SYSTEM)
