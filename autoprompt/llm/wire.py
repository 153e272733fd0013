"""The chat-completions protocol as JSON: what is sent, how labels are enforced, how an answer is read."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from autoprompt.llm.client import Completion, Options, ToolSchema
from autoprompt.llm.failures import BrokenAnswerError
from autoprompt.llm.label_probs import label_probabilities, steps_of
from autoprompt.tokens import estimate_tokens
from autoprompt.types import Message, ToolCall, Usage

Constrain = Literal["grammar", "json_schema", "off"]

SURE = 8  # labels in a row, written out under a grammar, after which an answer is cut where it is decided


class Parameters:
    """The optional parameters of requests to one endpoint, less those that it will not take.

    Thread-safe: a parameter is dropped when the endpoint refuses it, for all requests that follow.
    """

    def __init__(self, constrain: Constrain) -> None:
        self.constrain = constrain
        self._lock = threading.Lock()
        self._dropped: set[str] = set()
        self._kept_to = 0  # answers that the grammar, as far as can be seen, held to a label

    @property
    def dropped(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._dropped))

    def drop(self, name: str) -> None:
        """Send no `name` from now on. `max_tokens` is then called `max_completion_tokens`."""
        with self._lock:
            self._dropped.add("logprobs" if name == "top_logprobs" else name)

    def of(self, options: Options) -> dict[str, Any]:
        """Parameter -> value for one request."""
        with self._lock:
            dropped, is_sure = set(self._dropped), self._kept_to >= SURE
        wanted: dict[str, Any] = {"temperature": options.temperature}
        if options.max_output_tokens is not None:
            wanted["max_tokens"] = options.max_output_tokens
        if options.seed is not None:
            wanted["seed"] = options.seed
        if options.stop:
            wanted["stop"] = list(options.stop)
        if options.labels and self.constrain == "grammar":
            wanted["grammar"] = label_grammar(options.labels)
            if is_sure and "grammar" not in dropped:
                enough = deciding_tokens(options.labels)
                wanted["max_tokens"] = min(enough, wanted.get("max_tokens", enough))
        if options.labels and self.constrain == "json_schema":
            wanted["response_format"] = label_schema(options.labels)
        elif options.labels and options.wants_label_probs:
            wanted["logprobs"] = True
        if options.tools:
            wanted["tools"] = [_function(tool) for tool in options.tools]
        if "max_tokens" in dropped and "max_tokens" in wanted:
            wanted["max_completion_tokens"] = wanted["max_tokens"]
        wanted = {name: value for name, value in wanted.items() if name not in dropped}
        if "logprobs" in wanted:
            wanted["top_logprobs"] = 20  # OpenAI's limit, and enough for as many labels
        return wanted

    def read(
        self,
        data: object,
        messages: Sequence[Message],
        options: Options,
        latency_s: float,
        sent: Mapping[str, Any],
    ) -> Completion:
        """`read_answer` of what was asked with the parameters `sent`; a label that was cut is whole again.

        An endpoint may take a grammar and not keep to it. So answers are cut only after SURE of them were
        labels, and no more once one begins no label.
        """
        limit = sent.get("max_tokens", sent.get("max_completion_tokens"))
        is_cut = "grammar" in sent and limit is not None and limit != options.max_output_tokens
        completion = read_answer(data, messages, options, latency_s, is_cut=is_cut)
        if "grammar" in sent:
            with self._lock:
                is_label = completion.text in options.labels
                self._kept_to = self._kept_to + 1 if is_label else 0
        return completion


def turn(message: Message) -> dict[str, Any]:
    """A message as it is sent."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        sent["tool_call_id"] = message.tool_call_id
    return sent


def _function(tool: ToolSchema) -> dict[str, Any]:
    parameters = json.loads(tool.parameters)
    named = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": named}


def label_grammar(labels: Sequence[str]) -> str:
    """GBNF, llama.cpp's grammar, that takes one of the labels and nothing else."""
    return "root ::= " + " | ".join(_literal(label) for label in labels)


def deciding_tokens(labels: Sequence[str]) -> int:
    """Tokens after which an answer under `label_grammar` can only be one of the labels.

    A token is at least a byte, so it takes no more than the bytes that two labels share and the character
    after them. What is left of the label would only be written out.
    """
    ordered = sorted(label.encode() for label in set(labels))
    shared = (_shared_bytes(*pair) for pair in itertools.pairwise(ordered))
    longest = 1 if all(label.isascii() for label in labels) else 4  # bytes of a character
    return max(shared, default=0) + longest


def _shared_bytes(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def label_schema(labels: Sequence[str]) -> dict[str, Any]:
    """A strict `response_format`: an object, as strict schemas must be, with the label under "answer"."""
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(labels)}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def read_answer(
    data: object, messages: Sequence[Message], options: Options, latency_s: float, *, is_cut: bool = False
) -> Completion:
    """A chat completion's JSON as a completion. Raises BrokenAnswerError for anything else.

    Where the endpoint counts no tokens, they are estimated from the texts, so that a cap on
    tokens can be reached there too.
    is_cut: no more was asked for than decides between the labels.
    """
    if not isinstance(data, Mapping) or not data.get("choices"):
        raise BrokenAnswerError(f"the answer is not a chat completion: {str(data)[:200]!r}")
    try:
        choice = data["choices"][0]
        text = _text(choice["message"].get("content"))
        finish_reason = str(choice.get("finish_reason") or "")
        content = (choice.get("logprobs") or {}).get("content")
        usage = _usage(data.get("usage"), messages, text)
        tool_calls = _tool_calls(choice["message"].get("tool_calls"))
        if options.labels:
            text = _unwrapped(text)
            if is_cut and text not in options.labels and (label := _decided(text, options.labels)):
                text, finish_reason = label, "stop"  # not all endpoints say "length"
        label_probs = None
        if options.wants_label_probs and content and text in options.labels:
            label_probs = label_probabilities(steps_of(content), options.labels)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BrokenAnswerError(f"the answer is not a chat completion: {str(data)[:200]!r}") from error
    model = str(data.get("model") or "")
    return Completion(text, usage, label_probs, finish_reason, model, latency_s, tool_calls=tool_calls)


def _decided(text: str, labels: Sequence[str]) -> str:
    """The only label that begins so; "" where none or several do."""
    begun = text.strip().rstrip("\ufffd")  # of a character that was cut
    possible = {label for label in labels if begun and label.startswith(begun)}
    return possible.pop() if len(possible) == 1 else ""


def _tool_calls(asked: object) -> tuple[ToolCall, ...]:
    if not isinstance(asked, list):
        return ()
    return tuple(
        ToolCall(
            str(call.get("id") or f"call_{number}"),
            str(call["function"]["name"]),
            _arguments(call["function"].get("arguments")),
        )
        for number, call in enumerate(asked)
    )


def _arguments(given: object) -> str:
    """Some endpoints give the arguments as an object, not as text."""
    return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)


def _text(content: object) -> str:
    """Text as it is, or joined from parts; "" for none (a refusal, a tool call)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    raise ValueError("content is neither text nor parts")


def _usage(counted: object, messages: Sequence[Message], text: str) -> Usage:
    if isinstance(counted, Mapping) and counted.get("prompt_tokens") is not None:
        return Usage(int(counted["prompt_tokens"]), int(counted.get("completion_tokens") or 0))
    return Usage(estimate_tokens(messages), estimate_tokens(text))


def _unwrapped(text: str) -> str:
    """The label out of the object that `label_schema` asks for; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        data = json.loads(text)
    except ValueError:
        return text
    answer = data.get("answer")
    return answer if isinstance(answer, str) else text


def _literal(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
