"""Lessons: measured, paired, none in round 1; which of them say the same."""

from __future__ import annotations

import pytest

from autoprompt.memory import Experience, words
from autoprompt.optimizer.agents.writer import text_change
from autoprompt.optimizer.lessons import measure
from autoprompt.records import Change

ADDED = Change(added="New.")
OLD = "Is it clickbait?"
RULES = "Mind the rule of the house. " * 15


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


def digest_of(change: Change) -> str:
    return Experience("t", change, "better").digest


def test_what_differs_behind_the_cut_alone_is_another_change() -> None:
    for more in ({}, {"component": "prompt"}, {"demos": 8, "how": "balanced"}):
        one, other = (
            Change(**{**more, "added": text_change(OLD, f"{OLD} {RULES}{end}").added})
            for end in ("Guess.", "Ask.")
        )
        assert words(one) == words(other)
        assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize("new", ["Mind it.", RULES])
def test_demonstrations_count_beside_what_the_text_says(new: str) -> None:
    change = text_change(OLD, new)
    shown = Change(added=change.added, removed=change.removed, demos=8, how="balanced")
    assert digest_of(change) != digest_of(shown)


def test_what_was_removed_does_not_count_wherever_the_cut_is() -> None:
    for new in ("Mind it.", RULES):
        assert digest_of(text_change(OLD, new)) == digest_of(text_change("Is it true? " * 40, new))
