"""JSON inside of more or less text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from autoprompt.reading.texts import visible

_FENCE = re.compile(r"```[\w-]*\n?(.*?)```", re.DOTALL)


def read_json(text: str) -> Any | None:
    """The JSON value in `text`: the whole, its last fenced block, or the last object or list inside it."""
    shown = visible(text)
    for body in (shown, *reversed(_FENCE.findall(shown))):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            continue
    found = None
    for value in _embedded(shown):
        found = value
    return found


def _embedded(text: str) -> Iterator[Any]:
    """JSON objects and lists inside a text, outermost only."""
    decoder = json.JSONDecoder()
    at = 0
    # A text of thousands of opening brackets must not cost a quadratic search.
    for _ in range(200):
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return
        try:
            value, at = decoder.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            at = min(starts) + 1
            continue
        yield value
