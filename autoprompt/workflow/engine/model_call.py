"""One request to a model for a node: what is sent, what comes back and what it costs, and the JSON in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from autoprompt.errors import AutopromptError, ModelError, WithheldError
from autoprompt.llm.client import FILTERED, Options, ToolSchema
from autoprompt.measure.problems import ROOM_OF_A_NODE
from autoprompt.records import Message, Role, ToolCall, Usage
from autoprompt.text.answers.texts import visible
from autoprompt.text.answers.wrapping import read_json
from autoprompt.workflow.engine.context import NodeContext, Turn
from autoprompt.workflow.engine.errors import FATAL, InvalidVariableTypeError, LLMInvocationError
from autoprompt.workflow.engine.models import ModelSpec

CURRENCY = "USD"
# A repeated question must be another sample, else journal and cache would give the same answer for ever.
_RETRY_SAMPLE = 1_000_003
_MAX_OUTPUT_TOKENS = 1024  # where the node says nothing: a small model may not stop by itself
_BROKE_OFF = f"an answer was cut off at its length limit. To raise it: {ROOM_OF_A_NODE}"
_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "ai": "assistant"}
_TYPES: Mapping[str, type[Any] | tuple[type[Any], ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_NONE = object()


@dataclass(frozen=True)
class ModelReply:
    """An answer with what it was asked.

    prompts: the messages that were sent, as `[{role, text, files}]`. calls: replies that this one sums up.
    """

    text: str
    prompts: list[dict[str, Any]]
    usage: Usage = Usage()
    finish_reason: str = ""
    model: str = ""
    mode: str = "chat"
    source: str = "endpoint"
    calls: int = field(default=1)
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def context(self) -> list[dict[str, Any]]:
        """The conversation without system messages, this reply last."""
        kept = [message for message in self.prompts if message["role"] != "system"]
        return [*kept, _turn("assistant", self.text)]

    @property
    def process_data(self) -> dict[str, Any]:
        return {
            "model_mode": self.mode,
            "prompts": self.prompts,
            "usage": usage_record(self.usage),
            "finish_reason": self.finish_reason,
            "model": self.model,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """total_price: USD, None where the price is unknown."""
        return {
            "total_tokens": self.usage.total_tokens,
            "total_price": self.usage.cost_usd,
            "currency": CURRENCY,
        }

    def __add__(self, later: ModelReply) -> ModelReply:
        """Return the later answer, with the usage of both."""
        return ModelReply(
            later.text,
            later.prompts,
            self.usage + later.usage,
            later.finish_reason,
            later.model,
            later.mode,
            later.source,
            self.calls + later.calls,
            later.tool_calls,
        )


def llm_usage(usage: Usage | None) -> dict[str, Any] | None:
    """Return tokens and price as events tell them; None if nothing was sent."""
    if usage is None:
        return None
    return {**usage_record(usage), "total_price": usage.cost_usd, "currency": CURRENCY}


def usage_record(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }


def call_model(
    context: NodeContext,
    messages: Sequence[Message],
    model: ModelSpec | None,
    *,
    labels: Sequence[str] = (),
    chunk_name: str | None = "text",
    temperature: float | None = None,
    max_output_tokens: int | None = None,
    client: Any = None,
    sample: int = 0,
    tools: Sequence[ToolSchema] = (),
) -> ModelReply:
    """Ask the model that the node names, once.

    Args:
        labels: The only answers allowed.
        chunk_name: The output that the answer is streamed as; None to stream nothing.
        temperature: Replaces the one in the model's `completion_params`.
        max_output_tokens: Replaces `max_tokens` in the model's `completion_params`.
        client: Asked instead of the named model.
        sample: Another number for each time that one attempt asks the same question.
        tools: The tools that the model may call.

    Raises:
        LLMInvocationError: The model failed, or declined to answer.
        AutopromptError: An error that ends the whole run, or a setting is wrong.
    """
    options = _options(context, model, labels, temperature, max_output_tokens, sample)
    options = replace(options, tools=tuple(tools)) if tools else options
    client = client if client is not None else context.client(model)
    try:
        with context.turn():
            answer = client.complete(_with_demonstrations(messages, context.demonstrations()), options)
    except FATAL:
        raise
    except ModelError as error:
        raise LLMInvocationError(error) from error
    except AutopromptError:  # a script that has run out, a setting that is wrong: no failure of a model
        raise
    except Exception as error:  # clients of one's own raise what they like
        raise LLMInvocationError(error) from error
    context.usage = answer.usage if context.usage is None else context.usage + answer.usage
    if answer.finish_reason == FILTERED:
        raise LLMInvocationError(WithheldError(answer.withheld))
    if answer.is_cut and answer.text.strip() not in labels:
        context.warn(_BROKE_OFF)
    if chunk_name is not None:
        context.chunk(answer.text, chunk_name)
    reply = ModelReply(
        answer.text,
        [_turn(message.role, message.content) for message in messages],
        answer.usage,
        answer.finish_reason,
        answer.model or client.name,
        model.mode if model is not None else "chat",
        answer.source,
        tool_calls=answer.tool_calls,
    )
    context.answered = {**reply.process_data, "answer": answer.text}
    return reply


def _with_demonstrations(messages: Sequence[Message], turns: Sequence[Turn]) -> list[Message]:
    """Return the turns between the system messages and the rest.

    They are no part of the node's conversation.
    """
    first = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    shown = [m for user, said in turns for m in (Message("user", user), Message("assistant", said))]
    return [*messages[:first], *shown, *messages[first:]]


def _options(
    context: NodeContext,
    model: ModelSpec | None,
    labels: Sequence[str],
    temperature: float | None,
    max_output_tokens: int | None,
    sample: int,
) -> Options:
    params = model.completion_params if model is not None else {}
    heat = float(params.get("temperature", 0.0) or 0.0) if temperature is None else temperature
    given = max_output_tokens or params.get("max_tokens")
    stop = params.get("stop") or ()
    seed = params.get("seed")
    return Options(
        temperature=heat,
        max_output_tokens=int(given) if given else _MAX_OUTPUT_TOKENS,
        is_limit_given=bool(given),
        seed=int(seed) if seed is not None else None,
        sample=sample + (_place_sample(context.path) if heat > 0 else 0) + _RETRY_SAMPLE * context.tries,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        labels=tuple(labels),
        is_retry=context.tries > 0,
        max_attempts=1 if context.retries_itself else None,
    )


def _place_sample(path: str) -> int:
    """Return a number for a place in a run. With a temperature, equal questions of two places are two draws.

    Places are nodes, visits and passes. Small enough for a seed of 31 bits, with that of retries on top.
    """
    return int.from_bytes(sha256(ascii(path).encode()).digest()[:4]) >> 2


def is_context(value: Any) -> bool:
    """Return whether a value is a list of messages, as LLM nodes put out in `context`."""
    return isinstance(value, list | tuple) and all(
        isinstance(part, Mapping) and part.get("role") in _ROLES and ("text" in part or "content" in part)
        for part in value
    )


def to_messages(value: Any, selector: Sequence[str] = ("context",)) -> list[Message]:
    """Return the messages of a `context`.

    Args:
        selector: What the error calls the value.

    Raises:
        InvalidVariableTypeError: The value is not a list of messages.
    """
    if not is_context(value):
        raise InvalidVariableTypeError(selector, type(value))
    return [
        Message(_ROLES[part["role"]], str(part["text"] if "text" in part else part["content"]))
        for part in value
    ]


def build_context(messages: Sequence[Message], reply: str) -> list[dict[str, Any]]:
    """Return a conversation as LLM nodes put it out: no system messages, the reply last."""
    kept = [_turn(message.role, message.content) for message in messages if message.role != "system"]
    return [*kept, _turn("assistant", reply)]


def _turn(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "text": text, "files": []}


def read_json_answer(text: str, kind: type[Any] | tuple[type[Any], ...] = object) -> Any:
    """Return the JSON value in an answer, as `read_json` finds it.

    Raises:
        ValueError: The answer holds no JSON of this kind.
    """
    found = read_json(text, kind, default=_NONE)
    if found is _NONE:
        raise ValueError(f"the answer holds no JSON: {_shown(text)}")
    return found


def read_structured(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the JSON value in an answer to a question with a schema.

    Only the schema's `type` and `required` are checked: enough to see that the answer is something else.

    Raises:
        ValueError: The answer holds no JSON, a value of another type, or lacks a required one.
    """
    types = _types(schema)
    containers = tuple(kind for name, kind in (("object", dict), ("array", list)) if name in types)
    value = read_json_answer(text, containers or object)
    if types and not any(_fits(value, name) for name in types):
        found = next(name for name in _TYPES if _fits(value, name))
        raise ValueError(
            f"the answer does not fit its schema: expected {' or '.join(types)}, found {found}: "
            f"{_shown(text)}"
        )
    required = schema.get("required") or ()
    missing = [str(name) for name in required if name not in value] if isinstance(value, dict) else []
    if missing:
        raise ValueError(f"the answer has no {', '.join(missing)}: {_shown(text)}")
    return value


def _types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema allows, () for any: one that names properties means an object."""
    named = schema.get("type", "object" if "properties" in schema else [])
    return [named] if isinstance(named, str) else [str(name) for name in named or ()]


def _fits(value: Any, name: str) -> bool:
    """Return whether a value is of a type of JSON schema. A type that is none fits all."""
    if isinstance(value, bool):
        return _TYPES.get(name, bool) is bool
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))


def _shown(text: str) -> str:
    return repr(visible(text)[:200])
