"""Answers inside of tags, boxes and JSON: what stands there counts, whatever is around it."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import within

from autoprompt.metrics.judge import read_score
from autoprompt.metrics.registry import get_metric
from autoprompt.records import Example, Prediction
from autoprompt.text.answers.label_sets import read_labels
from autoprompt.text.answers.labels import read_label
from autoprompt.text.answers.numbers import read_number
from autoprompt.text.answers.wrapping import read_json, unwrap, wrapped_answers

TONES = ("positive", "negative", "neutral")
LETTERS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Some positive words.\n\n<answer>negative</answer>", "negative"),
        ("<answer>negative</answer>\n\nThere are positive words, too.", "negative"),
        ("<Answer>\n  **Negative**\n</Answer> is what I chose over positive", "negative"),
        ("<reasoning>positive?</reasoning>\n<final_answer>negative</final_answer>", "negative"),
        ("<analysis>positive words</analysis>\n<label>negative</label>", "negative"),
        ("<explanation>Positive in tone</explanation><sentiment>negative</sentiment>", "negative"),
        ("<output>\n<reason>positive words</reason>\n<class>negative</class>\n</output>", "negative"),
        ("<output><reason>positive words</reason>negative</output>", "negative"),
        ("<reasoning>positive at first</reasoning>\nnegative", "negative"),
        ("<label>negative</label><confidence>high</confidence>", "negative"),
        ('<result id="1">negative</result> <!-- not positive -->', "negative"),
        ("I put it in <answer></answer>, not positive: <answer>negative</answer>", "negative"),
        ("<answer>positive</answer> No, wait. <answer>negative</answer>", "negative"),
        ("positive words\n<answer>negative", "negative"),
        ("positive words\n[ANSWER] negative", "negative"),
        ("[answer]negative[/answer] since positive words are absent", "negative"),
        ("正面词语很少。<answer>negative</answer>", "negative"),
        ("The words are positive. \\boxed{\\text{negative}}", "negative"),
        ("$\\boxed{\\mathbf{negative}}$, not positive", "negative"),
        ("positive? <answer>\\boxed{negative}</answer>", "negative"),
        # Two that count the same, and one that names none.
        ("<label>positive</label>\n<label>negative</label>", None),
        ("\\boxed{positive} and \\boxed{negative}", None),
        ("It has positive words. <answer>unclear</answer>", None),
        # Not marks of an answer.
        ("It is <b>positive</b>, and not <i>negative</i>", "positive"),
        ("positive <explanation>It is not negative.</explanation>", "positive"),
        ('{"reason": "no <answer>negative</answer> was asked for", "label": "positive"}', "positive"),
        ("positive\n<explanation>positive words</explanation>", "positive"),
    ],
)
def test_a_label_in_a_tag_or_box_counts(text: str, label: str | None) -> None:
    assert read_label(text, TONES) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("A is nice. \\boxed{B}", "B"),
        ("A and C fail, so $\\boxed{\\textbf{(B)}\\ 42}$.", "B"),
        ("\\boxed{A} is what I had; now \\boxed{ B. }", "B"),
        ("A: \\frac{1}{2}. \\fbox{B}", "B"),
        ("<answer>B) pears</answer> rather than A", "B"),
        ("\\boxed{", None),
    ],
)
def test_a_letter_in_a_box_counts(text: str, label: str | None) -> None:
    assert read_label(text, LETTERS) == label


def test_labels_that_are_marks_are_read_in_tags() -> None:
    assert read_label("<answer>-</answer>", ("+", "-")) == "-"
    assert read_label("<answer>yes</answer>", ("<answer>yes</answer>", "yes")) == "<answer>yes</answer>"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("<reasoning>c3 is close</reasoning><answer>a1, b2</answer>", ("a1", "b2")),
        ("<label>a1</label>\n<label>b2</label>\nc3 does not apply", ("a1", "b2")),
        ('I looked at c3. <answer>["a1", "b2"]</answer>', ("a1", "b2")),
        ("c3 is out. \\boxed{a1}, \\boxed{b2}", ("a1", "b2")),
        ("c3 is out.\n<answer>none</answer>", ()),
    ],
)
def test_sets_are_read_in_tags_and_boxes(text: str, labels: tuple[str, ...]) -> None:
    assert read_labels(text, ("a1", "b2", "c3")) == labels


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<answer>42</answer> (see 3)", 42),
        ("<answer>42 apples for 5 people</answer> of 3", 42),
        ("<answer>\n6 * 7 = 42\n</answer>\n\nChecked in 2 ways.", 42),
        ("<total>42</total>", 42),
        ("<answer>see above</answer> 42", 42),
        ("<item>3</item> so the total is 42", 42),
        ("\\boxed{42\\text{ apples in 3 days}}", 42),
        ("\\boxed{3} million", 3e6),
    ],
)
def test_numbers_are_read_in_tags(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


def test_grades_and_json_are_read_in_tags() -> None:
    score = read_score("<reason>Score: 2 would be harsh.</reason>\n<score>4</score>")
    assert score is not None
    assert score.value == 0.75
    assert "harsh" in score.feedback
    text = '<answer>{"a": 1}</answer>\nNot {"a": 2}'
    assert read_json(text) == {"a": 1}
    assert read_json('{"a": "<answer>{}</answer>"}') == {"a": "<answer>{}</answer>"}
    assert read_json('<output>done</output> {"a": 1}') == {"a": 1}


def test_texts_are_compared_without_tags_unless_the_target_has_them() -> None:
    def score(answer: str, target: str) -> float:
        return (
            get_metric("exact_match").score(Prediction(answer, answer), Example("x", "q", target, {})).value
        )

    assert score("<reasoning>France.</reasoning>\n<answer>Paris</answer>", "Paris") == 1
    assert score("So \\boxed{\\text{Paris}}.", "Paris") == 1
    assert score("\\boxed{\\text{Paris}}", "\\text{Paris}") == 1
    assert score("<answer>Paris</answer>", "<answer>Paris</answer>") == 1
    assert score("<b>Paris</b>", "Paris") == 0


def test_marks_without_an_end_take_no_quadratic_time() -> None:
    for part in (
        "<answer>",
        "</answer>",
        "<answer>a</answer> b ",
        "\\boxed{",
        "\\boxed{a} b",
        "[ANSWER]",
        "<a ",
    ):
        with within(4):
            wrapped_answers(part * 12_000)
            unwrap(part * 12_000)


FENCED = '```json\n{"a": 1}\n```'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # An example behind the answer.
        ('{"a": 1}\n\nNote: unlike {"a": 2}', {"a": 1}),
        ('{"a": 1}\n\nI left out {"a": 2}.', {"a": 1}),
        ('{"a": 1} – das Gegenteil ist {"a": 2}', {"a": 1}),
        ('{"a": 1}\n\n如果价格更高：{"a": 2}', {"a": 1}),
        ('The result is {"a": 1}. For another input it is {"a": 2}.', {"a": 1}),
        ('The result is {"a": 1}, and {"a": 2} would be wrong.', {"a": 1}),
        (f'{FENCED}\n\nFor another input:\n```json\n{{"a": 2}}\n```', {"a": 1}),
        (f'Here it is:\n{FENCED}\nAn example of a different one:\n```\n{{"a": 2}}\n```', {"a": 1}),
        (f'{FENCED}\nThe field comes from {{"a": 2}}.', {"a": 1}),
        ('{"a": 1}\n\nIn a fence:\n```json\n{"a": 2}\n```', {"a": 1}),
        # The last, where it is called better or where nothing is between.
        ('{"a": 1}\n\nWait, corrected: {"a": 2}', {"a": 2}),
        (f'{FENCED}\nFinal version:\n```json\n{{"a": 2}}\n```', {"a": 2}),
        ('{"a": 1}\n\n更正：{"a": 2}', {"a": 2}),
        ('{"a": 1}\n{"a": 2}', {"a": 2}),
        ('First I had {"a": 1}, and now {"a": 2}', {"a": 2}),
        ('As in [1], it is {"a": 2}', {"a": 2}),
        ('[1] says so: {"a": 2}', {"a": 2}),
        (f'{FENCED}\nis the form, so:\n```json\n{{"a": 2}}\n```', {"a": 2}),
        ('{"a": 1} ist die Form, also: {"a": 2}', {"a": 2}),
        # The only one, whatever is said in front of it.
        ('Unlike before, it is not a list: {"a": 1}', {"a": 1}),
    ],
)
def test_examples_behind_the_answer_do_not_count(text: str, value: Any) -> None:
    assert read_json(text, dict) == value


def test_a_judge_may_add_an_example() -> None:
    for behind in ('{"score": 1} would be for a wrong answer', 'a worse answer gets {"score": 2}.'):
        score = read_score(f'{{"score": 4, "reason": "ok"}}\n\nNote: {behind}')
        assert score is not None
        assert score.value == 0.75


def test_many_values_are_ranked_in_time() -> None:
    with within(4):
        read_json('{"a": 1} so ' * 8_000)
