"""A stream of server-sent events that nobody asked for, put together to one answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\n|\r")  # others, as U+2028, may be in a text
_MOST_CALLS = 128  # tool calls of one answer
# Fields of a message that come in pieces of text.
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal", "thinking")


def is_stream(content: bytes) -> bool:
    """Whether a body is server-sent events, whatever its Content-Type says."""
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def read_stream(content: bytes) -> dict[str, Any]:
    """Return the chat completion of a stream, as if it had come whole.

    An error in the stream becomes the answer's `error`. Raises ValueError for a piece that is not JSON, and
    for a stream that breaks off before its end.
    """
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {"index": 0, "message": {}, "finish_reason": None}
    has_ended, has_choice = False, False
    for event, data in _events(content):
        if data == _DONE:
            has_ended = True
            break
        piece = json.loads(data)
        if not isinstance(piece, dict):
            raise ValueError("a piece of the stream is no object")
        if event == "error" and "error" not in piece:
            piece = {"error": piece}
        if piece.get("error"):
            return {"error": piece["error"]}
        choices = piece.pop("choices", None)
        whole |= {name: value for name, value in piece.items() if value is not None}
        for part in choices if isinstance(choices, list) else ():
            if isinstance(part, Mapping) and not part.get("index"):  # the first of several answers
                has_choice = True
                if part.get("error"):
                    return {"error": part["error"]}
                _add(choice, part)
    if not has_ended and not choice["finish_reason"]:
        raise ValueError("the stream broke off")
    return {**whole, "choices": [choice] if has_choice else []}


def _events(content: bytes) -> Iterator[tuple[str, str]]:
    """Name and data of each event, without comments, which gateways send to keep a connection."""
    name, lines = "", list[str]()
    for line in [*_LINE_END.split(content.decode("utf-8-sig", errors="replace")), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line.strip():
            if lines:
                yield name, "\n".join(lines)
            name, lines = "", []
        elif field == "data":
            if lines and _is_whole(lines):  # some servers leave out the blank line between events
                yield name, "\n".join(lines)
                lines = []
            lines.append(value)
        elif field == "event":
            name = value.strip()


def _is_whole(lines: list[str]) -> bool:
    try:
        json.loads("\n".join(lines))
    except ValueError:
        return False
    return True


def _add(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add a piece to the answer so far."""
    if part.get("finish_reason"):
        choice["finish_reason"] = part["finish_reason"]
    if isinstance(told := part.get("logprobs"), Mapping) and isinstance(told.get("content"), list):
        choice.setdefault("logprobs", {"content": []})["content"] += told["content"]
    if isinstance(message := part.get("message"), Mapping):  # one that sends the whole at its end
        choice["message"] = dict(message)
        return
    delta = part.get("delta")
    if not isinstance(delta, Mapping):
        if isinstance(part.get("text"), str):
            choice["message"]["content"] = choice["message"].get("content", "") + part["text"]
        return
    message = choice["message"]
    for name in _TEXTS:
        piece = delta.get(name)
        if isinstance(piece, str):
            message[name] = (message.get(name) or "") + piece
        elif isinstance(piece, list):
            message[name] = [*(message.get(name) or []), *piece]
    pieces = delta.get("tool_calls") or ()
    if not isinstance(pieces, list | tuple):
        raise ValueError(f"tool_calls is {pieces!r:.40}, expected a list")
    for piece in pieces:
        _add_call(message.setdefault("tool_calls", []), piece)


def _add_call(calls: list[dict[str, Any]], piece: object) -> None:
    """Add a piece of a tool call: the first one names the tool, the others go on with its arguments.

    Raises ValueError for what is no such piece.
    """
    if not isinstance(piece, Mapping):
        raise ValueError(f"a tool call is {piece!r:.40}, expected an object")
    number = piece.get("index")
    place = len(calls) if number is None else number
    if not isinstance(place, int) or not 0 <= place < _MOST_CALLS:
        raise ValueError(f"the index of a tool call is {place!r:.40}, expected 0 to {_MOST_CALLS - 1}")
    while len(calls) <= place:
        calls.append({"id": None, "function": {"name": "", "arguments": ""}})
    call, function = calls[place], piece.get("function")
    function = function if isinstance(function, Mapping) else {}
    call["id"] = call["id"] or piece.get("id")
    call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
    arguments = function.get("arguments") or ""
    call["function"]["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)
