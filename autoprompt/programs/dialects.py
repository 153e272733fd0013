"""What a program sends to a model, in the words of each API: where a request's texts are, what came back.

A dialect is known by the path of the address. It finds the texts of a request (system, user, descriptions of
tools and of their parameters), puts others in their place, and reads answer and usage.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from autoprompt.llm.transport.stream import is_stream, read_stream, stream_events
from autoprompt.records import ToolCall

Role = Literal["system", "user", "assistant", "result", "tool", "parameter"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a request.

    path: where it is in the body. name: of a tool ("search"), or of a parameter and its tool
        ("search.query"); "" for a message.
    """

    role: Role
    path: Path
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer says.

    counted: its usage, in the fields that `llm.transport.usage` reads. error: of an answer that is one.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    model: str = ""
    counted: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API.

    endings: of the address's path; () if it is not known by it. parts: the texts of a body. read: an answer's
    JSON. streamed: a stream's events as one answer. limits: where a body may limit the answer's tokens.
    speakers: the roles of who asks and of the model.
    """

    name: str
    endings: tuple[str, ...]
    parts: Callable[[Mapping[str, Any]], Iterator[Part]]
    read: Callable[[Mapping[str, Any]], Answered]
    streamed: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], Mapping[str, Any]]
    limits: tuple[Path, ...]
    speakers: tuple[str, str] = ("user", "assistant")


def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of an address's path; None for what is no question to a model."""
    plain = path.rstrip("/")
    return next((known for known in DIALECTS if plain.endswith(known.endings)), None)


def with_text(body: Mapping[str, Any], texts: Mapping[Path, str]) -> dict[str, Any]:
    """Return a body with other texts at their paths."""
    changed = copy.deepcopy(dict(body))
    for path, text in texts.items():
        place: Any = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = text
    return changed


def read_answer(dialect: Dialect, content: bytes) -> Answered:
    """Return what a successful answer says.

    Raises:
        ValueError: For one that is no JSON and no whole stream, and for an error.
        TypeError: For one of another form.
    """
    data: Any
    if not is_stream(content):
        data = json.loads(content)
        if isinstance(data, list) and dialect is GEMINI:  # its stream without `alt=sse`
            data = dialect.streamed([("", piece) for piece in data if isinstance(piece, Mapping)])
    elif dialect is CHAT:
        data = read_stream(content)
    else:
        data = dialect.streamed([(name, json.loads(text)) for name, text in stream_events(content)])
    if not isinstance(data, Mapping):
        raise TypeError("the answer is no object")
    if data.get("error"):
        raise ValueError(f"the answer is an error: {data['error']!r:.200}")
    return dialect.read(data)


# --- texts ---


def _texts(role: Role, content: object, path: Path) -> Iterator[Part]:
    """Yield a message's content: a text, or a list of parts of which some are texts."""
    if isinstance(content, str):
        yield Part(role, path, content)
    elif isinstance(content, list):
        for place, piece in enumerate(content):
            if isinstance(piece, str):
                yield Part(role, (*path, place), piece)
            elif isinstance(piece, Mapping):
                if isinstance(piece.get("text"), str):
                    yield Part(role, (*path, place, "text"), piece["text"])
                elif piece.get("type") == "tool_result":
                    yield from _texts("result", piece.get("content"), (*path, place, "content"))


def _tool(tool: Mapping[str, Any], schema: str, path: Path) -> Iterator[Part]:
    """Yield a tool's description and those of its parameters. schema: the key of its JSON schema."""
    name = tool.get("name")
    if not isinstance(name, str):
        return
    if isinstance(tool.get("description"), str):
        yield Part("tool", (*path, "description"), tool["description"], name)
    yield from _parameters(tool.get(schema), (*path, schema), name)


def _parameters(schema: object, path: Path, name: str) -> Iterator[Part]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for key, inner in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(inner, Mapping):
            place = (*path, "properties", key)
            if isinstance(inner.get("description"), str):
                yield Part("parameter", (*place, "description"), inner["description"], f"{name}.{key}")
            yield from _parameters(inner, place, f"{name}.{key}")


def _listed(body: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    items = body.get(name)
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping):
            yield place, item


_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "result",
    "function": "result",
}


def _role(word: object) -> Role:
    return _ROLES.get(str(word), "user")


def _chat_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    for place, message in _listed(body, "messages"):
        yield from _texts(_role(message.get("role")), message.get("content"), ("messages", place, "content"))
    for place, tool in _listed(body, "tools"):
        if isinstance(tool.get("function"), Mapping):
            yield from _tool(tool["function"], "parameters", ("tools", place, "function"))


def _responses_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    yield from _texts("system", body.get("instructions"), ("instructions",))
    if isinstance(body.get("input"), str):
        yield from _texts("user", body["input"], ("input",))
    for place, item in _listed(body, "input"):
        if item.get("type") == "function_call_output":
            yield from _texts("result", item.get("output"), ("input", place, "output"))
        else:
            yield from _texts(_role(item.get("role")), item.get("content"), ("input", place, "content"))
    for place, tool in _listed(body, "tools"):
        yield from _tool(tool, "parameters", ("tools", place))


def _anthropic_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    yield from _texts("system", body.get("system"), ("system",))
    for place, message in _listed(body, "messages"):
        yield from _texts(_role(message.get("role")), message.get("content"), ("messages", place, "content"))
    for place, tool in _listed(body, "tools"):
        yield from _tool(tool, "input_schema", ("tools", place))


def _gemini_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    for name in ("systemInstruction", "system_instruction"):
        if isinstance(body.get(name), Mapping):
            yield from _texts("system", body[name].get("parts"), (name, "parts"))
    for place, turn in _listed(body, "contents"):
        yield from _texts(_role(turn.get("role")), turn.get("parts"), ("contents", place, "parts"))
    for place, tool in _listed(body, "tools"):
        for name in ("functionDeclarations", "function_declarations"):
            for number, function in _listed(tool, name):
                yield from _tool(function, "parameters", ("tools", place, name, number))


def _langchain_parts(body: Mapping[str, Any]) -> Iterator[Part]:
    roles: dict[str, Role] = {"ai": "assistant", "tool": "result", "system": "system"}
    for place, message in _listed(body, "messages"):
        role = roles.get(str(message.get("role")), "user")
        yield from _texts(role, message.get("content"), ("messages", place, "content"))
    for place, tool in _listed(body, "tools"):
        if isinstance(tool.get("function"), Mapping):
            yield from _tool(tool["function"], "parameters", ("tools", place, "function"))
        else:
            yield from _tool(tool, "input_schema", ("tools", place))


# --- answers ---


def _joined(content: object) -> str:
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else ()
    return "".join(p["text"] for p in pieces if isinstance(p, Mapping) and isinstance(p.get("text"), str))


def _as_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_chat(data: Mapping[str, Any]) -> Answered:
    choices = [choice for _, choice in _listed(data, "choices")]
    message = choices[0].get("message") or {} if choices else {}
    calls = tuple(
        ToolCall(
            call.get("id") or "", call["function"].get("name") or "", call["function"].get("arguments") or ""
        )
        for call in message.get("tool_calls") or ()
        if isinstance(call.get("function"), Mapping)
    )
    ending = str(choices[0].get("finish_reason") or "") if choices else ""
    text = _joined(message.get("content")) or str(message.get("refusal") or "")
    return Answered(text, calls, ending, str(data.get("model") or ""), data)


def _read_responses(data: Mapping[str, Any]) -> Answered:
    outputs = [item for _, item in _listed(data, "output")]
    text = "".join(_joined(item.get("content")) for item in outputs if item.get("type") == "message")
    calls = tuple(
        ToolCall(item.get("call_id") or "", item.get("name") or "", item.get("arguments") or "")
        for item in outputs
        if item.get("type") == "function_call"
    )
    why = data.get("incomplete_details") or {}
    ending = str(why.get("reason") or data.get("status") or "") if isinstance(why, Mapping) else ""
    return Answered(text, calls, ending, str(data.get("model") or ""), data)


def _read_anthropic(data: Mapping[str, Any]) -> Answered:
    pieces = [piece for _, piece in _listed(data, "content")]
    calls = tuple(
        ToolCall(piece.get("id") or "", piece.get("name") or "", _as_json(piece.get("input")))
        for piece in pieces
        if piece.get("type") == "tool_use"
    )
    text = _joined([piece for piece in pieces if piece.get("type") == "text"])
    return Answered(text, calls, str(data.get("stop_reason") or ""), str(data.get("model") or ""), data)


def _read_gemini(data: Mapping[str, Any]) -> Answered:
    candidates = [candidate for _, candidate in _listed(data, "candidates")]
    first = candidates[0] if candidates else {}
    content = first.get("content") or {}
    parts = content.get("parts") or [] if isinstance(content, Mapping) else []
    calls = tuple(
        ToolCall("", part["functionCall"].get("name") or "", _as_json(part["functionCall"].get("args")))
        for part in parts
        if isinstance(part, Mapping) and isinstance(part.get("functionCall"), Mapping)
    )
    shown = [part for part in parts if isinstance(part, Mapping) and not part.get("thought")]
    ending = str(first.get("finishReason") or "")
    return Answered(_joined(shown), calls, ending, str(data.get("modelVersion") or ""), data)


def _read_langchain(data: Mapping[str, Any]) -> Answered:
    message = (data.get("message") or {}).get("data") or {}
    calls = tuple(
        ToolCall(call.get("id") or "", call.get("name") or "", _as_json(call.get("args")))
        for call in message.get("tool_calls") or ()
    )
    metadata = message.get("response_metadata") or {}
    ending = str(metadata.get("finish_reason") or metadata.get("stop_reason") or "")
    model = str(metadata.get("model_name") or metadata.get("model") or "")
    return Answered(_joined(message.get("content")), calls, ending, model, data)


# --- streams ---


def _whole_chat(events: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    raise NotImplementedError  # `read_stream` does it


def _whole_responses(events: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    for _, event in reversed(events):
        if isinstance(event.get("response"), Mapping) and event.get("type") != "response.created":
            return dict(event["response"])
        if event.get("type") == "error":
            return {"error": event.get("message") or "the stream ended with an error"}
    raise ValueError("the stream broke off")


def _whole_anthropic(events: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    whole: dict[str, Any] = {}
    pieces: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    usage: dict[str, Any] = {}
    has_ended = False
    for _, event in events:
        kind, place = event.get("type"), int(event.get("index") or 0)
        if kind == "message_start":
            whole = dict(event.get("message") or {})
            usage |= whole.get("usage") or {}
        elif kind == "content_block_start":
            pieces[place] = dict(event.get("content_block") or {})
        elif kind == "content_block_delta" and place in pieces:
            delta = event.get("delta") or {}
            if delta.get("type") == "text_delta":
                pieces[place]["text"] = pieces[place].get("text", "") + delta.get("text", "")
            elif delta.get("type") == "input_json_delta":
                inputs[place] = inputs.get(place, "") + delta.get("partial_json", "")
        elif kind == "message_delta":
            whole |= {k: v for k, v in (event.get("delta") or {}).items() if v is not None}
            usage |= {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
        elif kind == "message_stop":
            has_ended = True
        elif kind == "error":
            return {"error": event.get("error") or "the stream ended with an error"}
    if not has_ended:
        raise ValueError("the stream broke off")
    for place, text in inputs.items():
        pieces[place]["input"] = json.loads(text or "{}")
    return {**whole, "content": [pieces[place] for place in sorted(pieces)], "usage": usage}


def _whole_gemini(events: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    whole: dict[str, Any] = {}
    parts: list[Any] = []
    ending = ""
    for _, event in events:
        if event.get("error"):
            return {"error": event["error"]}
        whole |= {name: value for name, value in event.items() if name != "candidates"}
        for _, candidate in _listed(event, "candidates"):
            content = candidate.get("content") or {}
            parts += content.get("parts") or [] if isinstance(content, Mapping) else []
            ending = candidate.get("finishReason") or ending
    if not ending:
        raise ValueError("the stream broke off")
    return {**whole, "candidates": [{"content": {"parts": parts}, "finishReason": ending}]}


CHAT = Dialect(
    "chat completions",
    ("/chat/completions",),
    _chat_parts,
    _read_chat,
    _whole_chat,
    (("max_completion_tokens",), ("max_tokens",)),
)
RESPONSES = Dialect(
    "responses",
    ("/responses",),
    _responses_parts,
    _read_responses,
    _whole_responses,
    (("max_output_tokens",),),
)
ANTHROPIC = Dialect(
    "messages", ("/v1/messages",), _anthropic_parts, _read_anthropic, _whole_anthropic, (("max_tokens",),)
)
GEMINI = Dialect(
    "generateContent",
    (":generateContent", ":streamGenerateContent"),
    _gemini_parts,
    _read_gemini,
    _whole_gemini,
    (("generationConfig", "maxOutputTokens"), ("generation_config", "max_output_tokens")),
    ("user", "model"),
)
LANGCHAIN = Dialect(
    "langchain",
    (),
    _langchain_parts,
    _read_langchain,
    _whole_chat,
    (("settings", "max_tokens"),),
    ("human", "ai"),
)
DIALECTS = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
