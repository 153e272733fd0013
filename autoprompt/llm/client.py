"""The protocol that every model speaks here: messages and options in, one completion out.

Everything above it (programs, agents, judges) knows this file only. `autoprompt.llm.models.connect` stacks
what is behind it: journal > cache > limits (budget, rate, retry) > transport. `first_that_fits` asks with
shorter versions of a request that is longer than the model's window.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from autoprompt.brief import brief
from autoprompt.errors import ContextOverflowError
from autoprompt.llm import portal
from autoprompt.records import Message, RunEvent, ToolCall, Usage, record
from autoprompt.text.answers.texts import without_opening_thought
from autoprompt.text.names import counted

CallRole = Literal["task", "optimizer", "judge"]
ROLES: tuple[CallRole, ...] = ("task", "optimizer", "judge")

_SHOWN = 200  # characters of a model's own words in a message
# Our words for why an answer ended, whatever the endpoint calls it: cut at the limit of its length, declined
# by the model (OpenAI's word for that is "stop"), withheld by the endpoint's content filter.
CUT, REFUSAL, FILTERED = "length", "refusal", "content_filter"
# The same in the words of endpoints and gateways.
_ENDINGS = {
    CUT: ("length", "max_tokens", "max_output_tokens", "model_length", "token_limit", "incomplete"),
    FILTERED: (
        *("content_filter", "content_filtered", "safety", "recitation", "prohibited_content", "spii"),
        *("blocklist", "sensitive", "guardrail_intervened", "prompt_filter", "image_safety", "moderation"),
    ),
    REFUSAL: ("refusal", "refused"),
}
_ENDING_BY_WORD = {theirs: ours for ours, words in _ENDINGS.items() for theirs in words}


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """Describe a tool to a model. parameters: a JSON schema of its arguments, as JSON text."""

    name: str
    description: str
    parameters: str

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer as it came, for code that reads it by itself.

    body: decoded; JSON or server-sent events. content_type: as the endpoint said.
    """

    status: int
    content_type: str
    body: str

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Forward:
    """A request that other code has made up, to be sent as it is.

    digest: of all that decides the answer. send: sends it, given a smaller limit of the answer's tokens or
        None, and a `UsageReader`, and returns the answer; raises errors of the `ModelError` family.
    blocks_loop: the event loop of the thread stands still until the answer is there. Other requests may need
        that loop to end, so this one must not wait for them.
    host: where it goes, with the port; "" if that is not known.
    """

    digest: str
    send: Callable[[int | None, Any], Completion]
    blocks_loop: bool = False
    host: str = ""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Options:
    """How to answer one request.

    max_output_tokens: what the answer itself may need. A client sends more where the model may think before
        it answers, unless `is_limit_given`.
    is_limit_given: `max_output_tokens` is the user's own, thoughts included, and is sent as it is.
    reasoning_effort: how much to think, in the endpoint's words; None: as it likes.
    timeout_s: how long to wait for the answer; None: as long as the client is set to.
    seed: passed on where the endpoint takes it. A task call's seed comes from its sample index alone, so that
        equal calls are equal; a writer's from run seed, iteration and proposal.
    sample: 0-based index of the repetition; part of the cache key.
    useful_tokens: what is longer is of no use to the caller. A model that is known not to think before it
        answers is cut there; for others the thoughts may count as well.
    repeats_after: tokens that an answer may have in any case; beyond them the embedded model stops one that
        only repeats itself. None: it never stops a task's answer, and others from the first token on.
    labels: the only answers allowed; enforced by grammar or schema where the endpoint can, a wish elsewhere.
    wants_label_probs: ask for the probability of each label, where the endpoint can tell.
    role: whose budget line this is.
    is_retry: asks again because an answer could not be read; paid like a retry, not from a block of rows.
    is_useful: whether a text is of use to the caller. One that is not is kept for its run alone, see
        `RecordedClient`. None: all are.
    tools: what the model may ask to have called, if the endpoint can; see `Completion.tool_calls`.
    max_attempts: requests that may be sent for one answer, where the caller tries again itself; None: as many
        as the client thinks right.
    forward: the request to send as it is; the messages then only describe it.
    """

    role: CallRole = "task"
    temperature: float = 0.0
    max_output_tokens: int | None = None
    is_limit_given: bool = False
    reasoning_effort: str | None = None
    timeout_s: float | None = None
    useful_tokens: int | None = None
    repeats_after: int | None = None
    seed: int | None = None
    sample: int = 0
    stop: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    wants_label_probs: bool = False
    is_retry: bool = False
    max_attempts: int | None = None
    is_useful: Callable[[str], bool] | None = None
    tools: tuple[ToolSchema, ...] = ()
    forward: Forward | None = None

    __repr__ = brief

    @property
    def blocks_loop(self) -> bool:
        """Whether this request must not wait for others, see `Forward`."""
        return self.forward is not None and self.forward.blocks_loop


@record
class Completion:
    """One answer.

    label_probs: label -> probability, summing to 1 over `Options.labels`; None where not asked or not known.
    tool_calls: the tools that the model wants to be called; `text` is empty then, mostly.
    finish_reason: `CUT`, `REFUSAL` or `FILTERED`, else the endpoint's word ("stop", ...); "" where it gave
        none. "stop" for a label that was cut on purpose, as soon as it was decided.
    has_thoughts: whether the endpoint shows or counts thoughts besides `text`. Not kept in the journal.
    attempts: requests sent for this answer, failed ones included; 0 for one that came from cache or journal.
    source: where this answer came from just now.
    raw: the whole answer to a request that was forwarded. host: where that went, as `Forward` has it.
    key: that the answer is kept under; "" if it is not kept.
    """

    text: str
    usage: Usage = Usage()
    label_probs: Mapping[str, float] | None = None
    finish_reason: str = ""
    model: str = ""
    latency_s: float = 0.0
    attempts: int = 1
    source: Literal["endpoint", "cache", "journal"] = "endpoint"
    tool_calls: tuple[ToolCall, ...] = ()
    has_thoughts: bool = False
    raw: RawAnswer | None = None
    host: str = ""
    key: str = field(default="", compare=False)

    __repr__ = brief

    @property
    def is_empty(self) -> bool:
        """Whether the model said nothing, and asked for no tool."""
        return not self.text.strip() and not self.tool_calls

    @property
    def is_cut(self) -> bool:
        """Whether the answer ended at the limit of its length."""
        return self.finish_reason == CUT

    @property
    def withheld(self) -> str:
        """Why there is no answer: the model declined, or a filter took it. "" if there is one."""
        if self.finish_reason == FILTERED:
            return "the endpoint's content filter withheld the answer"
        if self.finish_reason != REFUSAL:
            return ""
        said = " ".join(self.text.split())[:_SHOWN]
        return f"the model declined to answer{f': {said}' if said else ''}"

    @property
    def said(self) -> str:
        """What a writer means to be taken over: nothing of what it thought first, or if it is withheld."""
        return "" if self.withheld else without_opening_thought(self.text).strip()


def ended(word: object) -> str:
    """Return why an answer ended: in our words if we have one, else in the endpoint's; "" for None."""
    word = str(word or "")
    return _ENDING_BY_WORD.get(word.casefold(), word)


class Client(Protocol):
    """A model. Safe to call from several threads at once.

    One that need not block has `acomplete` as well, a coroutine function that takes and gives the same. It is
    awaited on the loop of `portal`, so that requests on their way need no thread each; `complete` is then
    called only where there is no loop.
    """

    @property
    def name(self) -> str:
        """The model's name as reports show it."""
        ...

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """Answer the messages once.

        Raises:
            ModelError: There is no answer; its classes say why.
            BudgetExhausted: A limit is reached, and nothing was sent.
        """
        ...

    def close(self) -> None:
        """Free what is held (connections, an embedded server). Safe to call twice."""
        ...


AsyncComplete = Callable[[Sequence[Message], Options], Awaitable[Completion]]


def own_acomplete(client: object) -> AsyncComplete | None:
    """Return the client's way to answer without blocking a thread, None if it has none.

    A wrapper has one only if the client inside has: `is_async` says so then.
    """
    if not getattr(client, "is_async", True):
        return None
    found: AsyncComplete | None = getattr(client, "acomplete", None)
    return found


def acomplete_of(client: Client) -> AsyncComplete:
    """Return how to ask a client on the loop: one that blocks is asked by the thread that waits."""
    own: AsyncComplete | None = getattr(client, "acomplete", None)
    if own is not None:
        return own

    async def ask(messages: Sequence[Message], options: Options) -> Completion:
        return await portal.in_caller(lambda: client.complete(messages, options))

    return ask


class AnswerCache(Protocol):
    """Request key -> answer; see `ResponseCache`."""

    def get(self, key: str) -> Completion | None: ...

    def put(self, key: str, completion: Completion) -> None: ...

    def forget(self, key: str) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


SHORTEST_CUT = 100  # characters; what is shorter stays whole, as the mark would be no shorter
Version = TypeVar("Version")


def first_that_fits(
    ask: Callable[[Version], Completion], versions: Iterable[Version]
) -> tuple[Completion, Version]:
    """Return the answer to the first version that the model's window holds, and that version.

    versions: from the whole request to the shortest one, at least one. Raises the ContextOverflowError of the
    last one if none fits.
    """
    refused: ContextOverflowError | None = None
    for version in versions:
        try:
            return ask(version), version
        except ContextOverflowError as error:
            refused = error
    if refused is None:
        raise ValueError("no version to send")
    raise refused


def halves(most: int) -> Iterator[int]:
    """Return most, half of it, and so on, down to 1."""
    while most >= 1:
        yield most
        most //= 2


def shortened(text: str, share: float) -> str:
    """Return about that share of a text: its beginning and its end, with a mark between them."""
    if share >= 1 or len(text) <= SHORTEST_CUT:
        return text
    kept = int(share * len(text)) // 2
    left_out = counted(len(text) - 2 * kept, "character")
    return f"{text[:kept]}\n[... {left_out} left out ...]\n{text[len(text) - kept :]}"


@dataclass(frozen=True, slots=True)
class WeightsProgress(RunEvent):
    """A part of a model's weights has come."""

    kind: ClassVar[str] = "weights_progress"
    what: str
    done_bytes: int
    total_bytes: int
