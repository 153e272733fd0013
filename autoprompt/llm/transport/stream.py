"""Answers that come as server-sent events: put together, or watched while they are written.

`read_stream` puts a stream together that nobody asked for. `WatchedAnswer` reads one that was asked for on
purpose, and ends it if the answer does nothing but repeat itself. That is for the embedded model alone:
nobody knows what a closed connection still costs elsewhere.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autoprompt.llm.transport.failures import BrokenAnswerError

_DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\n|\r")  # others, as U+2028, may be in a text
_MOST_CALLS = 128  # tool calls of one answer
# Fields of a message that come in pieces of text.
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal", "thinking")


def is_stream(content: bytes) -> bool:
    """Return whether a body is server-sent events, whatever its Content-Type says."""
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
    for event, data in stream_events(content):
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


def stream_events(content: bytes) -> Iterator[tuple[str, str]]:
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
    """Add a piece of a tool call: the first one names the tool, later ones add to its arguments.

    Raises:
        ValueError: For what is no such piece.
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


# A greedy model that has written the same unit so often, and so many tokens of nothing else, writes it up to
# its limit: the answer would be cut there and is read as such. Rows of a table that happen to be equal, or
# steps that are worked out, end sooner.
LOOP_TOKENS, LOOP_REPEATS = 96, 16
_LONGEST_UNIT = 240  # characters
_LOOK_EVERY = 8  # tokens


STREAMED = {"stream": True, "timings_per_token": True}
"""Parameters of a request that is answered piece by piece, with the tokens counted beside each."""


def may_repeat(parameters: Mapping[str, Any]) -> bool:
    """Return whether an answer to a request with these parameters can go round in circles for long."""
    limit = parameters.get("max_tokens", parameters.get("max_completion_tokens"))
    is_free = {"grammar", "response_format", "logprobs", "tools"}.isdisjoint(parameters)
    return is_free and (limit is None or limit > LOOP_TOKENS)


class WatchedAnswer:
    """A chat completion that comes as a stream of events, made up as one that is sent at once has it.

    An answer of more than `gives_up_after` tokens that repeats itself ends at its last whole line, as if it
    were cut there: with `finish_reason` "length". The caller hangs up, which ends the writing of it.
    """

    def __init__(self, gives_up_after: int) -> None:
        self._gives_up_after = gives_up_after
        self._left = b""  # of a line that has not ended
        self._message = {"role": "assistant", "content": ""}
        self._reason, self._name = "", "content"
        self._told: dict[str, Any] = {}
        self._ends: list[int] = []  # of the field that is written, after each token
        self._failure: bytes | None = None
        self._is_over = False

    def add(self, piece: bytes) -> bool:
        """Read the next piece. Return whether no more are needed. Raises BrokenAnswerError."""
        *lines, self._left = (self._left + piece).split(b"\n")
        for line in lines:
            name, _, data = line.strip().partition(b":")
            if self._is_over or name not in (b"data", b"error") or data.strip() == b"[DONE]":
                continue
            try:
                event = json.loads(data)
            except ValueError as error:
                raise BrokenAnswerError(f"an event of the answer is not JSON: {data[:100]!r}") from error
            self._read(event if name == b"data" else {"error": event})
        return self._is_over

    def content(self) -> bytes:
        """Return the answer so far as the JSON of a chat completion, or of an error."""
        if self._failure is not None:
            return self._failure
        choices = [{"message": self._message, "finish_reason": self._reason}]
        told = self._told
        counted = {"usage": _counts(told), "timings": told.get("timings")}
        return json.dumps({"model": told.get("model"), "choices": choices, **counted}).encode()

    def _read(self, event: dict[str, Any]) -> None:
        if "choices" not in event:  # an error
            self._failure, self._is_over = json.dumps(event).encode(), True
            return
        self._told = {**self._told, **event}
        choice = (event["choices"] or [{}])[0]
        delta = choice.get("delta") or {}
        message = self._message
        for field in ("reasoning_content", "content"):
            if piece := delta.get(field):
                self._ends = self._ends if field == self._name else []
                self._name = field
                message[field] = message.get(field, "") + piece
                self._ends.append(len(message[field]))
        self._reason = choice.get("finish_reason") or self._reason
        written, ends = message.get(self._name, ""), self._ends
        if len(ends) > self._gives_up_after and len(ends) % _LOOK_EVERY == 0 and _repeats(written, ends):
            message[self._name] = written[: written.rfind("\n") + 1 or None]
            self._reason, self._is_over = "length", True


def _counts(told: Mapping[str, Any]) -> dict[str, int] | None:
    """None where nothing was counted: it is estimated then."""
    timings = told.get("timings")
    if not isinstance(timings, Mapping):
        return None
    prompt = timings.get("cache_n", 0) + timings.get("prompt_n", 0)
    return {"prompt_tokens": prompt, "completion_tokens": timings.get("predicted_n", 0)}


def _repeats(text: str, ends: Sequence[int]) -> bool:
    begin = loop_of(text)
    return begin is not None and len(ends) - bisect_right(ends, begin) >= LOOP_TOKENS


def loop_of(text: str) -> int | None:
    """Return where the end of `text` begins that is one unit over and over; None where it is not.

    >>> loop_of("So: " + "1, " * 20)
    3
    """
    for size in range(1, min(_LONGEST_UNIT, len(text) // LOOP_REPEATS) + 1):
        unit = text[-size:]
        if not text.endswith(unit * LOOP_REPEATS):
            continue
        begin = len(text) - size * LOOP_REPEATS
        while begin > 0 and text[begin - 1] == text[begin - 1 + size]:
            begin -= 1
        return begin
    return None
