"""How sure an answer says it is, at its end, is no part of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import within

from autoprompt.metrics import get_metric
from autoprompt.records import Example, Prediction
from autoprompt.text.answers.numbers import read_number
from autoprompt.text.answers.wrapping import without_confidence

SAID = [
    *(
        "42\nConfidence: 0.9",
        "42 (95% confident)",
        "42，置信度：0.9",
        "42\n置信度：0.9",
        "42 (confidence: 0.9)",
    ),
    *("42, confidence 95%", "42. Confidence: 0.9.", "42\n\n**Confidence:** 90%", "42 Confidence: 0.9"),
    *("42\nConfidence score: 9/10", "42\nConfidence (0-1): 0.9", "42\nConfidence Level: High"),
    *(
        "42. I am 95% confident.",
        "42. I'm 90% sure of this answer.",
        "42 with 95% confidence",
        "42 (90% sure)",
    ),
    *("42, with 95% confidence", "42（置信度0.9）", "42（95%置信度）", "42。置信度为95%", "42 — 95% certain"),
    *(
        "42 (95% CI: 40–44)",
        "42 (95% confidence interval 40 to 44)",
        "42\nKonfidenz: 0,9",
        "42\nConfianza: 0.9",
    ),
    *("42\nNiveau de confiance : 90 %", "42\nУверенность: 0.9", "42\n確信度: 0.9", "42\n신뢰도: 0.9"),
    *("42\n- Confidence: 0.85", "42 | Confidence: 0.9", "42 [confidence=0.9]", "42\nMy confidence: 90%"),
    *("42\nConfidence: 0.9 (high)", "42 (high confidence)", "42\n`confidence: 0.9`", "42\n信心：90%"),
    *("42\n<confidence>0.9</confidence>", "42\nCertainty: 80 percent", "42\nConfidence: 8 out of 10"),
    *("42\nConfidence: 0.9 because the sum was checked", "42; confidence of 0.9", "42，我有90%的把握"),
]


@pytest.mark.parametrize("text", SAID)
def test_a_trailing_confidence_is_left_out(text: str) -> None:
    assert without_confidence(text).strip(" .。") == "42"
    number = read_number(text)
    assert number is not None
    assert number.value == 42


@pytest.mark.parametrize(
    "text",
    [
        *("Confidence: 0.9", "95% confidence", "High confidence", "The confidence level is 95%", "42", ""),
        *("The study of 30 patients reports a confidence of 95%", "the 95% confidence level"),
        *("He has confidence 5", "Paris is in confidence", "The level of confidence was 0.95"),
    ],
)
def test_a_confidence_that_is_the_answer_stays(text: str) -> None:
    assert without_confidence(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[('{"total": 42, "confidence": 0.9}', 42), ("Confidence: 0.9", 0.9), ("答案：42\n置信度：0.9", 42)],
        *[("5 million (confidence 0.9)", 5e6), ("Confidence: 0.9\n42", 42), ("The confidence is 95%", 95)],
    ],
)
def test_numbers_are_read_without_a_confidence(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("answer", "target", "is_right"),
    [
        *[("Paris\nConfidence: 0.9", "Paris", True), ("Paris (95% confident)", "Paris", True)],
        *[("Paris, high confidence", "Paris", True), ("Rome\nConfidence: 0.9", "Paris", False)],
        *[("Paris (90% sure)", "Paris (90% sure)", True), ("Paris", "Paris (90% sure)", False)],
        *[("high confidence", "high confidence", True), ("Confidence: 0.9", "Paris", False)],
    ],
)
def test_texts_are_compared_without_a_confidence(answer: str, target: str, is_right: bool) -> None:
    row = Example("r", "q", target, {})
    for name in ("exact_match", "macro_f1"):
        metric = get_metric(name)
        assert metric.score(Prediction(answer, answer), row).is_correct is is_right
    assert get_metric("macro_f1").aggregate([answer], [target]) == is_right


@given(
    st.lists(
        st.sampled_from(["confidence", ":", " ", "\n", "- ", "0.9", "%", "(", "my", "a ", "sure"]),
        max_size=80,
    )
)
def test_any_end_is_looked_at_in_time(parts: list[str]) -> None:
    with within(5):
        without_confidence("".join(parts))
