"""JSON inside of more or less text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from autoprompt.text.answers.texts import visible
from autoprompt.text.answers.wrapped import tagged

_FENCE = re.compile(r"(```|~~~)[\w-]*\n?(.*?)\1", re.DOTALL)
# Of the braces of prose, of formulas and of code most begin no JSON: they cost nothing.
_BEGIN = re.compile(r"""\{[ \t\r\n]*["}]|\[[ \t\r\n]*[\]\[{"\d\-tfnNI]""")
# Characters that are read in vain at most: thousands of opening brackets must not cost a quadratic search.
# What fails at once costs a few, too; of what nests without an end it is not told how far it was read.
_MOST_WORK, _LEAST_COST, _ENDLESS_COST = 2_000_000, 200, 10_000
_NONE: Any = object()


def read_json(
    text: str, kind: type[Any] | tuple[type[Any], ...] = object, *, default: Any | None = None
) -> Any | None:
    """The JSON value in `text`: the whole, its last fenced block, or the last object or list inside it.

    kind: the type that is asked for, as of `json.loads`: of several values the last of it, and where there is
    none, of any, since an answer may quote an example or a `[1]`. default: for a text without JSON.
    """
    other = _NONE
    for value in _values(visible(text)):
        if isinstance(value, kind):
            return value
        other = value if other is _NONE else other
    return default if other is _NONE else other


def _values(text: str) -> Iterator[Any]:
    """All values, the one that counts first."""
    for body in reversed(tagged(text)) if "<" in text and not text.startswith(("{", "[")) else ():
        yield from (value for value in _values(body) if isinstance(value, dict | list))
    for body in (text, *reversed([body for _, body in _FENCE.findall(text)])):
        try:
            yield json.loads(body)
        except (ValueError, RecursionError):
            continue
    yield from reversed(list(_embedded(text)))


def _embedded(text: str) -> Iterator[Any]:
    """JSON objects and lists inside a text, outermost only."""
    decoder = json.JSONDecoder()
    at, work = 0, _MOST_WORK
    while work > 0 and (begin := _BEGIN.search(text, at)) is not None:
        at = begin.start()
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            work -= error.pos - at + _LEAST_COST
            at += 1
        except (ValueError, RecursionError):
            work -= _ENDLESS_COST
            at += 1
        else:
            yield value
