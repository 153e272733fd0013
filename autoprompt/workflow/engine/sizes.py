"""How large the values of a workflow may become: from node to node, or pass to pass, they may double."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from autoprompt.text.names import counted

MAX_SIZE = 50_000_000
"""Characters of one value, and of all that a node puts out or fills in."""
MAX_TOTAL = 4 * MAX_SIZE
"""Characters that the nodes of one graph put out together."""
MAX_DEPTH = 500
_MAX_BITS = 14_000  # of a product: Python writes out no number of more than 4,300 digits
_PART = 16  # characters that an entry of a list counts, whatever it holds


class TooLargeError(ValueError):
    """A value that would take too much memory."""


class Room:
    """Characters that are left to use."""

    def __init__(self, size: int = MAX_SIZE) -> None:
        self._size = self._left = size

    def take(self, size: int) -> None:
        """Use some. Raises TooLargeError once there are not enough."""
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"the values here have more than {counted(self._size, 'character')} together")


def check_size(value: Any) -> int:
    """Return the size of a value, what it holds several times counted each time.

    Raises TooLargeError for one of more than MAX_SIZE characters, or nested deeper than MAX_DEPTH.
    """
    size = 0
    opened: list[Iterator[Any]] = [iter((value,))]
    while opened:
        for part in opened[-1]:
            size += _PART
            if isinstance(part, str | bytes):
                size += len(part)
            elif isinstance(part, int):
                size += _digits(part)
            elif isinstance(part, list | tuple) and (of_kind := _KINDS.get(frozenset(map(type, part)))):
                size += _PART * len(part) + sum(map(of_kind, part))  # ten times as fast
            elif isinstance(part, Mapping | list | tuple):
                inner = chain.from_iterable(part.items()) if isinstance(part, Mapping) else part
                opened.append(iter(inner))
                break
            if size > MAX_SIZE:
                raise TooLargeError(f"a value has more than {MAX_SIZE:,} characters")
        else:
            opened.pop()
        if len(opened) > MAX_DEPTH:
            raise TooLargeError(f"a value is nested more than {MAX_DEPTH} levels deep")
    return size


def _digits(number: int) -> int:
    """About how many digits a number has, at least as many."""
    return number.bit_length() // 3


# What counts of an entry in a list of one kind, beside _PART.
_KINDS: dict[frozenset[type], Callable[[Any], int]] = {
    frozenset({str}): len,
    frozenset({int}): _digits,
    frozenset({float}): lambda _: 0,
}


def product(left: Any, right: Any) -> Any:
    """Return the product of two numbers. Raises TooLargeError for one that Python could not write out."""
    are_whole = isinstance(left, int) and isinstance(right, int)
    if are_whole and left.bit_length() + right.bit_length() > _MAX_BITS:
        raise TooLargeError("a product has more than 4,000 digits")
    return left * right


def concatenated(left: Any, right: Any) -> Any:
    """Return the sum of two numbers, texts or lists. Raises TooLargeError."""
    if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
        Room().take(sum(len(side) * (1 if isinstance(side, str) else _PART) for side in (left, right)))
    return left + right


def joined(texts: Iterable[str]) -> str:
    """Return the texts as one. Raises TooLargeError."""
    found, room = [], Room()
    for text in texts:
        room.take(len(text))
        found.append(text)
    return "".join(found)
