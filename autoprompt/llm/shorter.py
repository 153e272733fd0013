"""Requests that are longer than the model's window: what to send instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from autoprompt.errors import ContextOverflowError
from autoprompt.llm.client import Completion
from autoprompt.text.names import counted

SHORTEST_CUT = 100  # characters; what is shorter stays whole, as the mark would be no shorter
Version = TypeVar("Version")


def first_that_fits(
    ask: Callable[[Version], Completion], versions: Iterable[Version]
) -> tuple[Completion, Version]:
    """Return the answer to the first version that the model's window holds, and that version.

    versions: from the whole request to the shortest one, at least one. Raises the ContextOverflowError of the
    last one if none fits.
    """
    refused: ContextOverflowError | None = None
    for version in versions:
        try:
            return ask(version), version
        except ContextOverflowError as error:
            refused = error
    if refused is None:
        raise ValueError("no version to send")
    raise refused


def halves(most: int) -> Iterator[int]:
    """Return most, half of it, and so on, down to 1."""
    while most >= 1:
        yield most
        most //= 2


def shortened(text: str, share: float) -> str:
    """Return about that share of a text: its beginning and its end, with a mark between them."""
    if share >= 1 or len(text) <= SHORTEST_CUT:
        return text
    kept = int(share * len(text)) // 2
    left_out = counted(len(text) - 2 * kept, "character")
    return f"{text[:kept]}\n[... {left_out} left out ...]\n{text[len(text) - kept :]}"
