"""Messages of a conversation with a model, and what the conversation used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from autoprompt.brief import brief
from autoprompt.records.base import Count, Seconds, record

Role = Literal["system", "user", "assistant", "tool"]


@record
class ToolCall:
    """A model's wish to have a tool called."""

    id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments as JSON, as the model wrote them."""

    __repr__ = brief


@record
class Message:
    """One turn. tool_calls: of an assistant's turn. tool_call_id: of a tool's, the call that it answers."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    __repr__ = brief

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Read `to_dict`."""
        calls = (
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in data.get("tool_calls", ())
        )
        return cls(data["role"], data["content"], tuple(calls), data.get("tool_call_id", ""))

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as the chat-completions protocol has it."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.tool_call_id:
            data["tool_call_id"] = self.tool_call_id
        return data

    @property
    def shown(self) -> str:
        """The turn for people: its content, and the tools that it calls."""
        calls = (f"{call.name}({call.arguments})" for call in self.tool_calls)
        return "\n".join(filter(None, (self.content, *calls)))


def question(turns: Iterable[Message]) -> str:
    """Return the user's last turn: what the conversation asks at its end."""
    return [turn.content for turn in turns if turn.role == "user"][-1]


def transcript(turns: Iterable[Message]) -> str:
    """Return a conversation as one text: each turn behind the name of its role."""
    return "\n".join(f"{turn.role.capitalize()}: {turn.shown}" for turn in turns)


USAGE_IF_NOT_0 = ("cached_tokens", "cache_write_tokens", "reasoning_tokens", "read_s", "write_s")
_ALWAYS = ("prompt_tokens", "completion_tokens", "cost_usd")


@record
class Usage:
    """Tokens and cost of one or more calls. A part that a file does not have is 0, but for `billed_usd`."""

    prompt_tokens: Count = 0
    """Tokens that were sent, from a cache or not."""
    completion_tokens: Count = 0
    """Tokens that the model wrote, its hidden reasoning included."""
    cost_usd: float | None = 0.0
    """US dollars by the known prices; null if a price is not known."""
    cached_tokens: Count = 0
    """Prompt tokens that were read from the provider's cache."""
    cache_write_tokens: Count = 0
    """Prompt tokens that were written to the provider's cache."""
    reasoning_tokens: Count = 0
    """Completion tokens that were hidden reasoning."""
    billed_usd: float | None = None
    """US dollars that the endpoint says it charges; null unless it says so for every call."""
    read_s: Seconds = 0.0
    """Seconds that the model took to read, if the endpoint says so."""
    write_s: Seconds = 0.0
    """Seconds that the model took to write, if the endpoint says so."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens at the full price of input."""
        return self.prompt_tokens - self.cached_tokens - self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        if self._is_nothing:
            return other
        if other._is_nothing:
            return self
        # What used no tokens and names no bill, as a request that failed, adds nothing to the bill.
        bills = [one.billed_usd for one in (self, other) if one.total_tokens or one.billed_usd is not None]
        # Name by name: this is added up several times for each request.
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            total(self.cost_usd, other.cost_usd),
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            total(*bills) if bills else None,
            self.read_s + other.read_s,
            self.write_s + other.write_s,
        )

    @property
    def _is_nothing(self) -> bool:
        """Whether it adds nothing: most sums of a row begin so."""
        return (
            self.cost_usd == 0
            and not self.total_tokens
            and self.billed_usd is None
            and not (self.read_s or self.write_s)
        )

    def to_record(self) -> dict[str, Any]:
        """Return the parts as JSON, without those that are 0 and without a bill that is not known."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _ALWAYS}
        record |= {name: value for name in USAGE_IF_NOT_0 if (value := getattr(self, name))}
        return record if self.billed_usd is None else {**record, "billed_usd": self.billed_usd}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Usage:
        """Read `to_record` out of a record that may hold more.

        Raises:
            KeyError: For another record.
        """
        always = {name: record[name] for name in _ALWAYS}
        optional = (name for name in (*USAGE_IF_NOT_0, "billed_usd") if name in record)
        return cls(**always, **{name: record[name] for name in optional})


def total(*costs: float | None) -> float | None:
    """Return the sum; None if one of them is not known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
