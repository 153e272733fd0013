"""The chat-completions protocol as JSON: what is sent, how an answer is read, how labels are enforced.

`with_tools_told` describes tools in words, for models whose endpoint takes no `tools`. `label_grammar` and
`label_schema` hold an answer to the labels; `decided` and `unwrapped` read it.
`label_probabilities` comes from the log-probabilities of the answer's tokens. An endpoint reports, for each
token of the answer, the likeliest tokens at that place. Under a grammar only a token that continues a label
could have been taken, so at each place the mass of those tokens, taken as one, is divided among the labels
that part there; what stays with the answer moves on to the next place. (llama.cpp reports the mass before its
grammar; dividing it anew at each place is what applies the grammar.)
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from autoprompt.llm.client import FILTERED, REFUSAL, Completion, Options, ToolSchema, ended
from autoprompt.llm.transport.failures import SYSTEM, BrokenAnswerError
from autoprompt.llm.transport.usage import Exchange, UsageReader
from autoprompt.records import Message, ToolCall
from autoprompt.text.templates import fill, language_of


@functools.cache
def label_grammar(labels: tuple[str, ...]) -> str:
    """Return GBNF, llama.cpp's grammar, that takes one of the labels and nothing else.

    What labels share at the beginning is written once: llama.cpp follows all alternatives that are open, so
    that of 1,000 flat ones each token of an answer took it twice as long.
    """
    return "root ::= " + _alternatives(sorted(set(labels)), 0)


@functools.cache
def deciding_tokens(labels: tuple[str, ...]) -> int:
    """Tokens after which an answer under `label_grammar` can only be one of the labels.

    A token is at least a byte, so it takes no more than the bytes that two labels share and the character
    after them. What is left of the label would only be written out.
    """
    ordered = sorted(label.encode() for label in set(labels))
    shared = (_shared(*pair) for pair in itertools.pairwise(ordered))
    longest = 1 if all(label.isascii() for label in labels) else 4  # bytes of a character
    return max(shared, default=0) + longest


def decided(text: str, labels: Sequence[str]) -> str:
    """Return the only label that begins so; "" where none or several do."""
    begun = text.strip().rstrip("\ufffd")  # of a character that was cut
    possible = {label for label in labels if begun and label.startswith(begun)}
    return possible.pop() if len(possible) == 1 else ""


def label_schema(labels: Sequence[str]) -> dict[str, Any]:
    """Return a strict `response_format`.

    An object, as strict schemas must be, with the label under "answer".
    """
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(labels)}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def unwrapped(text: str) -> str:
    """Return the label out of the object that `label_schema` asks for; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # a model that repeats itself opens bracket after bracket
        return text
    answer = data.get("answer")
    return answer if isinstance(answer, str) else text


def _alternatives(labels: Sequence[str], read: int) -> str:
    """Return what may follow the first `read` characters, which the labels share; they are in order."""
    rest = labels[1:] if len(labels[0]) == read else labels
    groups = [list(group) for _, group in itertools.groupby(rest, key=lambda label: label[read])]
    parts = []
    for group in groups:
        end = read + _shared(group[0][read:], group[-1][read:])
        parts.append(_literal(group[0][read:end]))
        if len(group) > 1:
            following = _alternatives(group, end)
            parts[-1] += f" {following}" if len(group[0]) == end else f" ({following})"
    whole = " | ".join(parts)
    return whole if rest is labels else f"({whole})?"


def _shared(one: Sequence[str | int], other: Sequence[str | int]) -> int:
    """Return how many characters, or bytes, two labels begin with alike."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _literal(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


# No label is impossible: what is not among the likeliest tokens is small, not zero.
_FLOOR = 1e-6


class Step(NamedTuple):
    """One token of the answer as bytes, and (token, log-probability) of the likeliest ones at its place."""

    token: bytes
    likeliest: tuple[tuple[bytes, float], ...]


def steps_of(content: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Read `choices[0].logprobs.content` of a chat completion."""
    return [_step(entry) for entry in content]


def label_probabilities(steps: Sequence[Step], labels: Sequence[str]) -> dict[str, float]:
    """Label -> probability; above 0, summing to 1.

    steps: the tokens of an answer that begins with a label, or with as much of one as decides between them.
    Labels that are still open at the end, or that part at a token that is not the answer's, share their mass
    evenly: what would tell them apart was not asked.
    """
    mass = dict.fromkeys(labels, 0.0)
    open_labels = {label: label.encode() for label in labels}  # label -> what is still to come of it
    on_path = 1.0
    for step in steps:
        if len(open_labels) < 2:
            break
        shares = _shares(step, open_labels)
        total = sum(shares.values())
        staying = _followers(step.token, open_labels)
        if not staying:
            break
        if total > 0:
            for followers, share in shares.items():
                if followers != staying:
                    for label in followers:
                        mass[label] += on_path * share / total / len(followers)
            on_path *= shares.get(staying, 0.0) / total
        open_labels = {label: open_labels[label][len(step.token) :] for label in staying}
    for label in open_labels:
        mass[label] += on_path / len(open_labels)
    floored = {label: max(value, _FLOOR) for label, value in mass.items()}
    total = sum(floored.values())
    return {label: value / total for label, value in floored.items()}


def _shares(step: Step, open_labels: Mapping[str, bytes]) -> dict[frozenset[str], float]:
    """Mass of the likeliest tokens, by the labels that each of them leaves open."""
    shares: dict[frozenset[str], float] = {}
    for token, log_probability in step.likeliest or ((step.token, 0.0),):
        followers = _followers(token, open_labels)
        if followers:
            shares[followers] = shares.get(followers, 0.0) + math.exp(log_probability)
    return shares


def _followers(token: bytes, open_labels: Mapping[str, bytes]) -> frozenset[str]:
    """Return the labels that this token continues; if it continues none, the labels that it ends."""
    going_on = frozenset(label for label, rest in open_labels.items() if token and rest.startswith(token))
    if going_on:
        return going_on
    return frozenset(label for label, rest in open_labels.items() if not rest)


def _step(entry: Mapping[str, Any]) -> Step:
    token = _bytes(entry)
    likeliest = [(_bytes(top), float(top["logprob"])) for top in entry.get("top_logprobs") or ()]
    # Under a grammar, or drawn at a temperature, the token taken need not be among the likeliest.
    if likeliest and all(other != token for other, _ in likeliest):
        likeliest.append((token, float(entry["logprob"])))
    return Step(token, tuple(likeliest))


def _bytes(entry: Mapping[str, Any]) -> bytes:
    """Return the bytes of a token: one that is a part of a character has no text of its own."""
    raw = entry.get("bytes")
    return bytes(raw) if raw is not None else str(entry.get("token", "")).encode()


Constrain = Literal["grammar", "json_schema", "off"]

# Where a message holds its thoughts: DeepSeek, vLLM and llama.cpp; OpenRouter; others.
_THOUGHTS = frozenset(
    {"reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks", "thought"}
)
_THOUGHT_PARTS = ("thinking", "reasoning", "redacted_thinking", "thought", "reasoning_content")

# An endpoint may take a grammar and not keep to it: what it answers is cut after so many labels in a row.
LABELS_BEFORE_CUT = 8

# Of more labels no probabilities are asked for: an endpoint tells 20 tokens at a place, and the answers that
# are kept would hold thousands of numbers each.
MOST_WITH_PROBS = 200


class Parameters:
    """The optional parameters of requests to one endpoint, less those that it will not take.

    Thread-safe: a parameter is dropped when the endpoint refuses it, for all requests that follow.
    """

    def __init__(self, constrain: Constrain, endpoint: str = "the endpoint") -> None:
        self.constrain = constrain
        self.usage = UsageReader(endpoint)
        self._lock = threading.Lock()
        self.dropped: tuple[str, ...] = ()  # parameters that the endpoint refused, sorted
        self._labels_in_a_row = 0  # under a grammar

    def holds(self, options: Options) -> bool:
        """Return whether a grammar holds the answer to a label, which leaves a model no room to think."""
        return bool(options.labels) and self.constrain == "grammar" and "grammar" not in self.dropped

    def drop(self, name: str) -> None:
        """Stop sending the parameter `name`.

        Instead of `max_tokens`, `max_completion_tokens` is sent. The text of `SYSTEM` messages moves to the
        user's first turn, and `tools` are described in words.
        """
        with self._lock:
            name = "logprobs" if name == "top_logprobs" else name
            self.dropped = tuple(sorted({*self.dropped, name}))

    def restore(self, name: str) -> None:
        """Send `name` again: it was not what the endpoint refused."""
        with self._lock:
            self.dropped = tuple(other for other in self.dropped if other != name)

    def turns(self, messages: Sequence[Message], options: Options = Options()) -> Sequence[Message]:
        """Return the messages as this endpoint takes them."""
        dropped = self.dropped
        if options.tools and "tools" in dropped:
            messages = with_tools_told(messages, options.tools)
        return alternating(messages) if SYSTEM in dropped else messages

    def of(self, options: Options) -> dict[str, Any]:
        """Parameter -> value for one request."""
        with self._lock:
            dropped, may_cut = self.dropped, self._labels_in_a_row >= LABELS_BEFORE_CUT
        wanted: dict[str, Any] = {"temperature": options.temperature}
        if options.max_output_tokens is not None:
            wanted["max_tokens"] = options.max_output_tokens
        if options.reasoning_effort is not None:
            wanted["reasoning_effort"] = options.reasoning_effort
        if options.seed is not None:
            wanted["seed"] = options.seed
        if options.stop:
            wanted["stop"] = list(options.stop)
        if options.labels and self.constrain == "grammar":
            wanted["grammar"] = label_grammar(options.labels)
            if may_cut and "grammar" not in dropped:
                enough = deciding_tokens(options.labels)
                wanted["max_tokens"] = min(enough, wanted.get("max_tokens", enough))
        if options.labels and self.constrain == "json_schema":
            wanted["response_format"] = label_schema(options.labels)
        elif options.wants_label_probs and 0 < len(options.labels) <= MOST_WITH_PROBS:
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

        One that begins no label ends the cutting, until LABELS_BEFORE_CUT more were labels.
        """
        limit = sent.get("max_tokens", sent.get("max_completion_tokens"))
        is_cut = "grammar" in sent and limit is not None and limit != options.max_output_tokens
        completion = read_answer(data, messages, options, latency_s, is_cut=is_cut, usage=self.usage)
        if "grammar" in sent:
            with self._lock:
                is_label = completion.text in options.labels
                self._labels_in_a_row = self._labels_in_a_row + 1 if is_label else 0
        return completion


def turn(message: Message) -> dict[str, Any]:
    """Return a message as it is sent."""
    return message.to_dict()


def needs_plain_turns(messages: Sequence[Message]) -> bool:
    """Return whether a model could refuse the roles of these turns.

    A system message, or one role twice in a row.
    """
    roles = [message.role for message in messages]
    return "system" in roles or any(one == other != "tool" for one, other in itertools.pairwise(roles))


def alternating(messages: Sequence[Message]) -> list[Message]:
    """Return the messages for models that know user and assistant alone, each role once in a row.

    What a system message says begins the next turn of the user.
    """
    turns: list[Message] = []
    waiting: list[str] = []  # texts of system messages
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
            continue
        if message.role == "user":
            message = replace(message, content="\n\n".join([*waiting, message.content]))
        elif waiting:
            turns.append(Message("user", "\n\n".join(waiting)))
        waiting = []
        if turns and turns[-1].role == message.role != "tool" and not turns[-1].tool_calls:
            joined = "\n\n".join(filter(None, (turns[-1].content, message.content)))
            turns[-1] = replace(message, content=joined)
        else:
            turns.append(message)
    if waiting:
        text = "\n\n".join(waiting)
        if turns and turns[-1].role == "user":
            turns[-1] = replace(turns[-1], content=f"{turns[-1].content}\n\n{text}")
        else:
            turns.append(Message("user", text))
    return turns


def _function(tool: ToolSchema) -> dict[str, Any]:
    parameters = json.loads(tool.parameters)
    named = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": named}


def read_answer(
    data: object,
    messages: Sequence[Message],
    options: Options,
    latency_s: float,
    *,
    is_cut: bool = False,
    usage: UsageReader | None = None,
) -> Completion:
    """Return a chat completion's JSON as a completion.

    is_cut: no more was asked for than decides between the labels. usage: reads the endpoint's usage records.

    Raises:
        BrokenAnswerError: For anything else, with what it took if it says so.
    """
    reader = UsageReader() if usage is None else usage

    def broken() -> BrokenAnswerError:
        error = BrokenAnswerError(f"the answer is not a chat completion: {str(data)[:200]!r}")
        if isinstance(data, Mapping) and data.get("usage"):
            exchange = Exchange(messages, "", options.max_output_tokens, options.tools)
            error.usage_of_answer = reader.read(data, exchange)
        return error

    if isinstance(data, Mapping) and not data.get("choices") and _is_blocked(data):
        exchange = Exchange(messages, "", options.max_output_tokens, options.tools)
        return Completion("", reader.read(data, exchange), finish_reason=FILTERED)
    if not isinstance(data, Mapping) or not data.get("choices"):
        raise broken()
    try:
        choice = data["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        finish_reason = ended(choice.get("finish_reason") or choice.get("stop_reason"))
        if not text.strip() and (declined := message.get("refusal")):
            text, finish_reason = str(declined), REFUSAL
        told = choice.get("logprobs")
        content = told.get("content") if isinstance(told, Mapping) else None
        exchange = Exchange(messages, text, options.max_output_tokens, options.tools)
        taken = reader.read(data, exchange)
        tool_calls = _tool_calls(message.get("tool_calls"))
        if options.labels and finish_reason != REFUSAL:
            text = unwrapped(text)
            if is_cut and text not in options.labels and (label := decided(text, options.labels)):
                text, finish_reason = label, "stop"  # not all endpoints say "length"
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise broken() from error
    label_probs = None
    if options.wants_label_probs and content and text in options.labels:
        label_probs = _label_probs(content, options.labels)
    model = str(data.get("model") or "")
    return Completion(
        text,
        taken,
        label_probs,
        finish_reason,
        model,
        latency_s,
        tool_calls=tool_calls,
        has_thoughts=_has_thoughts(message),
    )


def _label_probs(content: Any, labels: Sequence[str]) -> dict[str, float] | None:
    """None where they cannot be read (`logprob: null`): the answer beside them is whole, and paid for."""
    try:
        return label_probabilities(steps_of(content), labels)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


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
    """Return the arguments as text; some endpoints give an object."""
    return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)


def _is_blocked(data: Mapping[str, Any]) -> bool:
    """Return whether a filter stopped the prompt: there are no choices then, in Gemini's or Azure's way."""
    feedback = data.get("prompt_feedback") or data.get("promptFeedback")
    if isinstance(feedback, Mapping) and (feedback.get("block_reason") or feedback.get("blockReason")):
        return True
    found = data.get("prompt_filter_results")
    return isinstance(found, list) and '"filtered": true' in json.dumps(found)


def _has_thoughts(message: Mapping[str, Any]) -> bool:
    """Return whether thoughts are shown beside the text."""
    content = message.get("content")
    if isinstance(content, list) and any(_is_thought(part) for part in content):
        return True
    return any(message[name] for name in _THOUGHTS.intersection(message))


def _is_thought(part: object) -> bool:
    return isinstance(part, Mapping) and str(part.get("type")) in _THOUGHT_PARTS


def _text(content: object) -> str:
    """Text as it is, or joined from parts without thoughts; "" for none (beside a refusal, say)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        said = [part for part in content if not _is_thought(part)]
        return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in said)
    raise ValueError("content is neither text nor parts")


def with_tools_told(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[Message]:
    """Return the messages with the tools, and how to call one, at the end of the first system message.

    A call is then an answer in JSON, which the caller reads out of the text.
    """
    first = next((n for n, message in enumerate(messages) if message.role == "system"), None)
    language = language_of(" ".join(message.content for message in messages[:2]))
    told = fill("call_tools", language, tools="\n".join(map(_described, tools)))
    if first is None:
        return [Message("system", told), *messages]
    system = messages[first]
    whole = replace(system, content=f"{system.content}\n\n{told}".strip())
    return [*messages[:first], whole, *messages[first + 1 :]]


def _described(tool: ToolSchema) -> str:
    properties = json.loads(tool.parameters).get("properties", {})
    arguments = ", ".join(f"{name}: {part.get('type', 'any')}" for name, part in properties.items())
    return f"- {tool.name}({arguments}): {tool.description}"
