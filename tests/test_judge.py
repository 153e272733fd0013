"""The judge: grades as scores, and what happens when there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import EndpointError
from autoprompt.judge import LLMJudge, read_grade
from autoprompt.llm.client import Options
from autoprompt.llm.scripted import ScriptedClient
from autoprompt.types import Example, Message, Prediction

ROW = Example("r1", "Q {x}", "A", {"input": "Q {x}", "target": "A"})
ANSWER = Prediction("my answer", "my answer")


@pytest.mark.parametrize(
    ("reply", "value", "reason"),
    [
        ('{"reason": "names the fact", "score": 5}', 1.0, "names the fact"),
        ('```json\n{"score": 3, "reason": "half"}\n```', 0.5, "half"),
        ('{"score": "4/5", "reason": ""}', 0.75, ""),
        ('{"score": 0.8}', 0.8, ""),
        ('{"grade": 2}', 0.25, ""),
        ("Score: 4\nIt is fine.", 0.75, "Score: 4 It is fine."),
        ("**Rating:** 8 out of 10", 0.8, "**Rating:** 8 out of 10"),
        ("评分：5", 1.0, ""),
        ("3", 0.5, ""),
    ],
)
def test_grades_are_read(reply: str, value: float, reason: str) -> None:
    graded = read_grade(reply)
    assert graded is not None
    assert graded.value == pytest.approx(value)
    assert graded.reason == reason or reply.startswith("评分")


@pytest.mark.parametrize(
    "reply", ["", "good", '{"score": 9}', '{"score": true}', '{"reason": "x"}', "Score: 80/5"]
)
def test_what_holds_no_grade_is_none(reply: str) -> None:
    assert read_grade(reply) is None


@given(st.text())
def test_any_reply_is_a_score_in_range_or_none(reply: str) -> None:
    graded = read_grade(reply)
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
    assert score.reason.startswith("unscored: the judge replied 'hm'")
    assert judge.unscored == 1
    assert [(o.role, o.sample) for o in seen] == [("judge", 0), ("judge", 1001)]


def test_a_readable_second_reply_counts() -> None:
    judge = LLMJudge(ScriptedClient(["hm", "4"]), "r")
    assert judge.score(ANSWER, ROW).value == 0.75
    assert judge.unscored == 0


def test_an_unparsed_answer_is_not_sent_to_the_judge() -> None:
    client = ScriptedClient([])
    assert LLMJudge(client, "r").score(Prediction("", None), ROW).value == 0
    assert client.calls == []


def test_a_judge_that_is_down_says_so() -> None:
    with pytest.raises(EndpointError, match="down"):
        LLMJudge(ScriptedClient([EndpointError("down")]), "r").score(ANSWER, ROW)
