"""Which grade a judge's reply gives: of several the overall one, then the one on a line of its own."""

from __future__ import annotations

import pytest

from autoprompt.metrics.judge import read_score


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Overall score: 4\nClarity score: 2", 0.75),
        ("Clarity score: 2\nTone score: 3\n**Overall score:** 4", 0.75),
        ("Clarity: 2\nTone: 3\nOverall: 4", 0.75),
        ("Final grade: 4\nScore: 2 for style", 0.75),
        ("Stil: 2\nGesamtbewertung: 4", 0.75),
        ("清晰度：2\n总分：4", 0.75),
        ("Score: 4 because a score: 5 needs sources", 0.75),
        ("Score: 4.\nFeedback: rating: 2 of the 3 points are missing", 0.75),
        ("I considered a score of 5. Score: 4", 0.75),
        ("Score: 4\n\nScale:\n1 = bad\n5 = good", 0.75),
        ("1 = bad\n5 = good\n\nScore: 4", 0.75),
        ("Score: 2\n\nOn reflection:\nScore: 4", 0.75),
        ("Score: 4,5", 0.875),
        ("Score: four", 0.75),
        ("Four out of five", 0.75),
        ("eight out of ten", 0.8),
        ("vier von fünf", 0.75),
        ("评分：四", 0.75),
        ("★★★★☆", 0.75),
        ("~~3~~ 4", 0.75),
        ("One error was found.", None),
        ("I cannot grade this answer with 5.", None),
        ("Punktzahl: 3,5", 0.625),
        ("Score: 4, since 5 facts are right", 0.75),
        ("5 - perfect answer", 1.0),
        ("3: partially right", 0.5),
        ("**2** (two facts are wrong)", 0.25),
        ('{"overall_score": 4}', 0.75),
        ('{"clarity": 2, "overall": 4}', 0.75),
        ('{"final_grade": "4/5", "total": 9}', 0.75),
        ("1 - bad\n2 - poor\n3 - fair", None),
        ("1. It names no source.", None),
        ("Overall: 4 or 5", None),
        ("Overall score: 3-4", None),
        ("Overall, 3 of the facts are right", None),
    ],
)
def test_of_several_numbers_the_grade_is_read(reply: str, value: float | None) -> None:
    score = read_score(reply)
    assert (score and score.value) == value
