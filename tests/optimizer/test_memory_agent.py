"""Lessons: measured, paired, none in round 1."""

from __future__ import annotations

import pytest

from autoprompt.optimizer.agents.memory import MemoryAgent

AGENT = MemoryAgent()


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([0, 0, 0, 1], [1, 1, 1, 1], "better"),
        ([1, 1, 1, 1], [0, 0, 0, 1], "worse"),
        ([0, 0, 1, 1], [1, 1, 1, 1], "no_difference"),
        ([0, 1], [0, 1], "no_difference"),
    ],
)
def test_the_verdict_is_that_of_the_paired_rows(old: list[float], new: list[float], verdict: str) -> None:
    lesson = AGENT.learn("Old.", "Old. New.", old, new, 2)
    assert lesson is not None
    assert lesson.verdict == verdict
    assert (lesson.before, lesson.after, lesson.rows) == (sum(old) / len(old), sum(new) / len(new), len(old))
    assert lesson.change == "added: New."


def test_round_one_and_unshared_rows_teach_nothing() -> None:
    assert AGENT.learn("a", "b", [0.0], [1.0], 1) is None
    assert AGENT.learn("a", "b", [], [], 2) is None


def test_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="same rows"):
        AGENT.learn("a", "b", [0.0, 1.0], [1.0], 2)


def test_the_text_says_what_and_how_much() -> None:
    lesson = AGENT.learn("a", "b", [0, 0, 0, 0], [1, 1, 1, 0], 3, change="16 demonstrations")
    assert lesson is not None
    assert lesson.text == "[better +0.75 on 4 rows] 16 demonstrations"


def test_rows_of_one_group_make_no_lesson_better() -> None:
    for groups, verdict in (None, "better"), (["g", "g", "g", None], "no_difference"):
        lesson = AGENT.learn("a", "b", [0, 0, 0, 1], [1, 1, 1, 1], 2, groups=groups)
        assert lesson is not None
        assert lesson.verdict == verdict
