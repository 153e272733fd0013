"""An answer that is read while it is written, and broken off where it does nothing but repeat itself.

For the embedded model alone: what a hung-up connection still costs elsewhere, nobody tells.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from autoprompt.llm.transport.failures import BrokenAnswerError

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


def read_watched(pieces: Iterable[bytes], *, gives_up_after: int) -> bytes:
    """Return the chat completion that a stream of events makes up, as one that is sent at once has it.

    An answer of more than `gives_up_after` tokens that repeats itself ends at its last whole line, as if it
    were cut there: with `finish_reason` "length". The caller hangs up, which ends the writing of it.
    """
    message = {"role": "assistant", "content": ""}
    reason, name = "", "content"
    told: dict[str, Any] = {}
    ends: list[int] = []  # of the field that is written, after each token
    for event in _events(pieces):
        if "choices" not in event:  # an error
            return json.dumps(event).encode()
        told = {**told, **event}
        choice = (event["choices"] or [{}])[0]
        delta = choice.get("delta") or {}
        for field in ("reasoning_content", "content"):
            if piece := delta.get(field):
                ends = ends if field == name else []
                name = field
                message[name] = message.get(name, "") + piece
                ends.append(len(message[name]))
        reason = choice.get("finish_reason") or reason
        if len(ends) > gives_up_after and len(ends) % _LOOK_EVERY == 0 and _repeats(message[name], ends):
            message[name] = message[name][: message[name].rfind("\n") + 1 or None]
            reason = "length"
            break
    choices = [{"message": message, "finish_reason": reason}]
    return json.dumps({"model": told.get("model"), "choices": choices, "usage": _usage(told)}).encode()


def _events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    left = b""
    for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        for line in lines:
            name, _, data = line.strip().partition(b":")
            if name in (b"data", b"error") and data.strip() != b"[DONE]":
                try:
                    event = json.loads(data)
                except ValueError as error:
                    raise BrokenAnswerError(f"an event of the answer is not JSON: {data[:100]!r}") from error
                yield event if name == b"data" else {"error": event}


def _usage(told: Mapping[str, Any]) -> dict[str, int] | None:
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
