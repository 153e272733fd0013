"""The judge: grades as scores, and what happens when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import EndpointError, JudgeError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.measure.rows import RowTally
from autoprompt.metrics import get_metric
from autoprompt.metrics.judge import Grades, LLMJudge, read_score
from autoprompt.records import EvaluatedRow, Event, Example, Message, Prediction

ROW = Example("r1", "Q {x}", "A", {"input": "Q {x}", "target": "A"})
ANSWER = Prediction("my answer", "my answer")


@pytest.mark.parametrize(
    ("reply", "value", "reason"),
    [
        ('{"reason": "names the fact", "score": 5}', 1.0, "names the fact"),
        ('```json\n{"score": 3, "reason": "half"}\n```', 0.5, "half"),
        ('{"score": "4/5", "reason": ""}', 0.75, ""),
        ('{"score": "0.8/1"}', 0.8, ""),
        ('{"score": "1 out of 1"}', 1.0, ""),
        ('{"score": "0/5"}', 0.0, ""),
        ("0.5 out of 5", 0.0, ""),
        ('{"score": 1.0}', 0.0, ""),
        ('{"grade": 2}', 0.25, ""),
        ("Score: 4\nIt is fine.", 0.75, "Score: 4 It is fine."),
        ("**Rating:** 8 out of 10", 0.8, ""),
        ("评分：5", 1.0, ""),
        ("3", 0.5, ""),
        ('{"Score": 4, "Reason": "near"}', 0.75, "near"),
        ("<think>Maybe score: 2? No.</think>\nScore: 5", 1.0, ""),
        ("Score: 2? No, it names the date.</think>\n5", 1.0, ""),
        ("Score 1 means it fails; score: 4", 0.75, "Score 1 means it fails; score: 4"),
        (
            "At first a score of 2.\nScore: 3\n**Score: 4**",
            0.75,
            "At first a score of 2. Score: 3 **Score: 4**",
        ),
        ("Score: 4 (a score 5 would name the date)", 0.75, "Score: 4 (a score 5 would name the date)"),
        ("得分：4", 0.75, ""),
        ("分数是 4", 0.75, ""),
    ],
)
def test_grades_are_read(reply: str, value: float, reason: str) -> None:
    graded = read_score(reply)
    assert graded is not None
    assert graded.value == pytest.approx(value)
    assert graded.reason == reason


@pytest.mark.parametrize(
    "reply",
    ["", "good", '{"score": 9}', '{"score": true}', '{"reason": "x"}', "Score: 80/5", '{"score": 0.9}', "0"],
)
def test_what_holds_no_grade_is_none(reply: str) -> None:
    assert read_score(reply) is None


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("The answer is polite.\nRating (1-5): 5", 5),
        ("Rating (1-5): 5", 5),
        ("Score (1 = fails, 5 = meets in full): 4", 4),
        ("On a scale of 1 to 5: 4", 4),
        ("On a scale of 1 to 5, I'd give this a 4.", 4),
        ("I rate this 4 on a scale of 1 to 5.", 4),
        ("4 (on a scale from 1 to 5)", 4),
        ("Grades: 1 (fails the rubric) to 5 (meets it in full). Score: 5", 5),
        ('{"score": "4 (1-5)", "reason": ""}', 4),
        ('{"score": "1-5"}', None),
        ('{"score": "4/5 (1 = bad, 5 = good)"}', 4),
        ("评分（1-5分）：5", 5),
        ("评分（1-5分）：5分", 5),
        ("評価（1〜5）：4", 4),
        ("평가(1-5점): 4점", 4),
        ("Bewertung (1 bis 5): 4", 4),
        ("Note (de 1 à 5) : 4", 4),
        ("Puntuación (1 a 5): 4", 4),
        ("Оценка (от 1 до 5): 4", 4),
        ("คะแนน (1 ถึง 5): 4", 4),
        ("Score: 3\nConfidence score: 5", 3),
        ("Score: 4. Confidence: 5/5", 4),
        ("Confidence: 5\nScore: 3", 3),
        ("Score: 4-5", None),
        ("Score: 4 or 5", None),
        ("Score: between 3 and 4", None),
        ("Score: 3 to 4", None),
        ("Accuracy score: 3\nTone score: 5\nOverall score: 4", 4),
        ("The answer lists 3 reasons.", None),
        ("On a scale of 1 to 5. The answer lists 3 reasons. I'd give it a 4.", None),
        ("5/5", 5),
        ("5 / 5", 5),
        ("**5**", 5),
        ("4/5 stars", 4),
        ("满分5分，给4分", 4),
        ("5点満点中4点", 4),
        ("5점 만점에 4점", 4),
        ("Out of 5: 4", 4),
        ("4 out of 5", 4),
        ("Score: 4 out of 5 (5 = best)", 4),
        ("Rating scale: 1-5\nRating: 2", 2),
        ("1 = fails, 5 = meets in full. Score = 4", 4),
        ("Score (out of 5): 4", 4),
        ("Score (/5): 4", 4),
        ("Score [1..5] = 2", 2),
        ("The rubric asks for 5 things", None),
        ("1 2 3 4 5\nScore: 3", 3),
        ("Score (1, 2, 3, 4 or 5): 3", 3),
        ("The answer deserves a 4 (scale: 1-5).", 4),
        ("Score: 1 (lowest) to 5 (highest): 4", 4),
        ("On a 1-5 scale this is a 3", 3),
        ("Rating (1–5) — 4", 4),
        ("Score (1 poor, 5 excellent): 4", 4),
        ("Score (1=poor..5=excellent): 4", 4),
        ("Score 1 = fails.\nScore 5 = meets it.\nScore: 4", 4),
        ("Note: the answer is fine", None),
        ("Note 1: typo. Score: 3", 3),
        ("5 — meets it in full", 5),
        ("Grade: 4, because 2 facts are right", 4),
    ],
)
def test_a_reply_that_repeats_the_scale_has_one_grade_or_none(reply: str, grade: int | None) -> None:
    graded = read_score(reply)
    assert (graded and graded.value) == (None if grade is None else (grade - 1) / 4)


@given(st.text())
def test_any_reply_is_a_score_in_range_or_none(reply: str) -> None:
    graded = read_score(reply)
    assert graded is None or 0 <= graded.value <= 1


def test_the_judge_sees_rubric_row_and_answer() -> None:
    client = ScriptedClient(['{"score": 5, "reason": "ok"}'])
    score = LLMJudge(client, "Be {short}.").score(ANSWER, ROW)
    assert (score.value, score.reason) == (1.0, "ok")
    (system, user) = client.calls[0]
    assert "Be {short}." in system.content
    for part in ("Q {x}", "<expected>\nA\n", "<answer>\nmy answer\n"):
        assert part in user.content


def test_an_unreadable_reply_is_asked_once_more_and_then_counted() -> None:
    seen: list[Options] = []

    def reply(messages: list[Message], options: Options) -> str:
        seen.append(options)
        return "hm"

    judge = LLMJudge(ScriptedClient(reply), "r")
    score = judge.score(ANSWER, ROW)
    assert score.value == 0
    assert score.is_unscored
    assert score.reason.startswith("the judge replied 'hm'")
    assert [(o.role, o.sample) for o in seen] == [("judge", 0), ("judge", 1001)]


def test_a_readable_second_reply_counts() -> None:
    assert LLMJudge(ScriptedClient(["hm", "4"]), "r").score(ANSWER, ROW).value == 0.75


def graded(*, missing: int = 0, graded: int = 0) -> list[EvaluatedRow]:
    """Rows without a grade, then rows with one."""
    row = EvaluatedRow("r", "in", "out", "target", False, 0.0, "unscored: says the judge itself")
    none = replace(row, reason="the judge replied 'hm', which holds no grade", is_unscored=True)
    return [none] * missing + [row] * graded


def test_answers_without_a_grade_are_counted_with_judge_and_reply() -> None:
    grades = Grades.of(LLMJudge(ScriptedClient([], name="grader"), "r"))
    grades.add(graded(graded=2))
    assert grades.warning is None
    failed = EvaluatedRow("r", "in", "", "target", False, 0.0, "failed: 503", error="503")
    unread = EvaluatedRow("r", "in", "", "target", False, 0.0, "unparsed: ...", is_unparsed=True)
    grades.add([*graded(missing=1), failed, unread])
    said = "judge grader: 1 of 3 answers have no grade; the judge replied 'hm'"
    assert str(grades.warning).startswith(said)
    assert Grades(**grades.to_dict()) == grades


@pytest.mark.parametrize(
    ("missing", "rows", "is_error"), [(6, 10, True), (5, 10, False), (9, 9, False), (51, 100, True)]
)
def test_a_judge_that_grades_hardly_anything_is_an_error(missing: int, rows: int, is_error: bool) -> None:
    grades = Grades("grader")
    grades.add(graded(missing=missing, graded=rows - missing))
    if not is_error:
        grades.check()
        return
    with pytest.raises(
        JudgeError, match=rf"^judge grader: {missing} of {rows} .*'hm'.* another judge_model,"
    ) as info:
        grades.check()
    assert info.value.exit_code == 4


def test_a_judge_that_grades_nothing_is_found_out_early() -> None:
    for before, fails_at in ((0, 10), (1, None)):
        grades, seen = Grades("grader"), list[Event]()
        count = RowTally(seen.append, BudgetMeter(), "rows", 20, grades=grades).add
        for row in graded(graded=before):
            count(row)
        for number, row in enumerate(graded(missing=19), start=1):
            if number == fails_at:
                with pytest.raises(JudgeError, match="10 of 10"):
                    count(row)
                break
            count(row)
        assert [event["done"] for event in seen] == ([] if fails_at else [20])


def test_reasons_of_another_metric_are_no_missing_grades() -> None:
    grades = Grades.of(get_metric("exact_match"))
    grades.add(graded(missing=20))
    grades.check()
    assert grades.warning is None


def test_an_unparsed_answer_is_not_sent_to_the_judge() -> None:
    client = ScriptedClient([])
    assert LLMJudge(client, "r").score(Prediction("", None), ROW).value == 0
    assert client.calls == []


def test_a_judge_that_is_down_says_so() -> None:
    with pytest.raises(EndpointError, match="down"):
        LLMJudge(ScriptedClient([EndpointError("down")]), "r").score(ANSWER, ROW)
