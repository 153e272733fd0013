"""Lessons: measured, paired, none in round 1."""

from __future__ import annotations

import pytest

from autoprompt.optimizer.lessons import measure
from autoprompt.records import Change

ADDED = Change(added="New.")


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
    lesson = measure("t", ADDED, old, new)
    assert lesson is not None
    assert lesson.verdict == verdict
    assert (lesson.before, lesson.after, lesson.rows) == (sum(old) / len(old), sum(new) / len(new), len(old))
    assert (lesson.text, lesson.task) == ("added: New.", "t")


def test_unshared_rows_teach_nothing() -> None:
    assert measure("t", ADDED, [], []) is None


def test_a_change_that_no_words_tell_teaches_nothing() -> None:
    """Two sentences in another order, say, or demonstrations halved to none: there is no line to write."""
    assert measure("t", Change(), [0.0, 0.0], [1.0, 1.0]) is None
    assert measure("t", Change(demos=0, how="varied"), [0.0], [1.0]) is None


def test_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="same rows"):
        measure("t", ADDED, [0.0, 1.0], [1.0])


def test_rows_of_one_group_make_no_lesson_better() -> None:
    for groups, verdict in (None, "better"), (["g", "g", "g", None], "no_difference"):
        lesson = measure("t", ADDED, [0, 0, 0, 1], [1, 1, 1, 1], groups)
        assert lesson is not None
        assert lesson.verdict == verdict
