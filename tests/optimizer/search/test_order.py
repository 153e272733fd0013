"""Prompts that begin alike are asked one after the other, the longest first."""

from __future__ import annotations

from autoprompt.optimizer.search.order import asking_order
from autoprompt.records import Candidate, Demo


def shown(text: str, *inputs: str) -> Candidate:
    return Candidate({"prompt": text}, tuple(Demo(name, "A") for name in inputs))


def test_prompts_that_share_a_demonstration_are_asked_together_the_longest_first() -> None:
    candidates = [
        shown("naive"),
        shown("naive", "a"),
        shown("told", "a", "b"),
        shown("naive", "c", "b", "a"),
        shown("naive", "a", "b", "c"),
        shown("naive", "a", "b"),
        shown("reason"),
    ]
    assert asking_order(candidates) == [0, 4, 5, 1, 2, 3, 6]


def test_others_keep_their_order() -> None:
    assert asking_order([shown("b"), shown("a", "x"), shown("c", "x", "y")]) == [0, 1, 2]
    assert asking_order([]) == []
