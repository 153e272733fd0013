"""In which order candidates are asked, so that a model that keeps what it has read reads little twice."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from autoprompt.records import Candidate


def asking_order(candidates: Sequence[Candidate]) -> list[int]:
    """Places of the candidates in the order in which they are asked: prompts that begin alike one after the
    other, of these the one with the most demonstrations first; else as they come.

    llama.cpp goes back to the beginning that two prompts share, and keeps the rest of the first one only
    where that is the larger part of it. From the short to the long it would read the rest of the long one
    again each time.
    """
    families: dict[Hashable, list[int]] = {}
    for place, candidate in enumerate(candidates):
        families.setdefault(_beginning(candidate, place), []).append(place)
    return [
        place
        for family in families.values()
        for place in sorted(family, key=lambda p: -len(candidates[p].demos))
    ]


def _beginning(candidate: Candidate, place: int) -> Hashable:
    """Equal for prompts that share at least a demonstration."""
    if not candidate.demos:
        return place
    first = candidate.demos[0]
    texts = tuple(sorted(candidate.components.items()))
    return texts, first.component, first.input, first.output
