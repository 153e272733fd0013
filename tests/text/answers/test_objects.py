"""Which JSON of an answer counts: not the example behind it."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import within

from autoprompt.metrics.judge import read_score
from autoprompt.text.answers.objects import read_json

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
    with within(20):
        read_json('{"a": 1} so ' * 20_000)
