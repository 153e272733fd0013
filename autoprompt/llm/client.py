"""The protocol that every model speaks here: messages and options in, one completion out.

Everything above it (programs, agents, judges) knows this file only. What stands behind it is stacked by
`autoprompt.llm.connect`: journal > cache > limits (budget, rate, retry) > transport.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from autoprompt.records import Message, ToolCall, Usage
from autoprompt.text.answers.thoughts import without_opening

CallRole = Literal["task", "optimizer", "judge"]

# Our word for an answer by which a model declines, where the endpoint marks it as such; OpenAI's is "stop".
REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model is told of it. parameters: a JSON schema of its arguments, as JSON text."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class Options:
    """How to answer one request.

    seed: passed on where the endpoint takes it. A task call's seed comes from its sample index alone, so that
        equal calls are equal; a writer's from run seed, iteration and proposal.
    sample: 0-based index of the repetition; part of the cache key.
    useful_tokens: what is longer is of no use to the caller. A model that is known not to think before it
        answers is cut there; for others the thoughts may count as well, and `max_output_tokens` is the cap.
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
    """

    role: CallRole = "task"
    temperature: float = 0.0
    max_output_tokens: int | None = None
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


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer.

    label_probs: label -> probability, summing to 1 over `Options.labels`; None where not asked or not known.
    tool_calls: the tools that the model wants to be called; `text` is empty then, mostly.
    finish_reason: the endpoint's word ("stop", "length", ...); "" where it gave none. "stop" for a label that
        was cut on purpose, as soon as it was decided. `REFUSAL` where `text` says that the model declines.
    attempts: requests sent for this answer, failed ones included; 0 for one that came from cache or journal.
    source: where this answer came from just now.
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

    @property
    def is_empty(self) -> bool:
        """Whether the model said nothing, and asked for no tool."""
        return not self.text.strip() and not self.tool_calls

    @property
    def is_refusal(self) -> bool:
        """Whether the model declines: what the text names besides is no answer."""
        return self.finish_reason == REFUSAL

    @property
    def said(self) -> str:
        """What a writer means to be taken over: nothing of what it thought first, or where it declines."""
        return "" if self.is_refusal else without_opening(self.text).strip()


class Client(Protocol):
    """A model. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """The model's name as reports show it."""
        ...

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        """One answer, or an error of the `ModelError` family; `BudgetExhausted` when a cap is reached."""
        ...

    def close(self) -> None:
        """Free what is held (connections, an embedded server). Safe to call twice."""
        ...
