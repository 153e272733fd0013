"""States and moments in words."""

from __future__ import annotations

import pytest

from autoprompt.web.live import LiveState
from autoprompt.web.words import clock, file_name, moment, phase, slug


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        (LiveState(), "running", "Starting"),
        (LiveState(), "interrupted", "Stopped at the start"),
        (
            LiveState(node="rewrite", iteration=2, max_iterations=6),
            "running",
            "Round 2 of at most 6: writing candidates",
        ),
        (LiveState(node="rewrite", iteration=2), "interrupted", "Stopped in round 2, writing candidates"),
        (LiveState(node="a later step", iteration=1), "running", "Round 1: a later step"),
    ],
)
def test_phase(state: LiveState, status: str, expected: str) -> None:
    assert phase(state, status) == expected


def test_times_and_what_is_none() -> None:
    assert clock("2026-11-22T07:20:54+00:00") == "07:20:54"
    assert moment("2026-11-22T07:20:54+00:00") == "2026-11-22 07:20"
    assert (clock("<script>"), moment("")) == ("", "–")


def test_names() -> None:
    assert file_name("/data/标题.jsonl") == "标题.jsonl"
    assert slug('warning" onclick="x') == "warningonclickx"
