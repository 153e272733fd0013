"""A code fence around a whole answer."""

from __future__ import annotations

import pytest

from autoprompt.metrics import get_metric
from autoprompt.records import Example, Prediction
from autoprompt.text.answers.wrapping import unfence

CODE = "SELECT 1;"


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"```sql\n{CODE}\n```",
            f"```\n{CODE}\n```",
            f"```sql\n{CODE}\n```\n",
            f"\n\n```SQL\n{CODE}\n```  \n",
        ),
        *(f"~~~\n{CODE}\n~~~", f"~~~sql\n{CODE}\n~~~", f"````sql\n{CODE}\n````", f"``` sql\n{CODE}\n```"),
        *(f'```python title="a"\n{CODE}\n```', f"```{{.sql}}\n{CODE}\n```", f"```sql\r\n{CODE}\r\n```"),
        # One line that introduces it, a fence that is left open, one that closes on the last line.
        *(
            f"Here is the SQL:\n```sql\n{CODE}\n```",
            f"**SQL:**\n\n```sql\n{CODE}\n```",
            f"### Query\n```\n{CODE}\n```",
        ),
        *(f"查询如下：\n```sql\n{CODE}\n```", f"```sql\n{CODE}", f"```sql\n{CODE}```"),
    ],
)
def test_a_fence_around_the_answer_is_no_part_of_it(text: str) -> None:
    assert unfence(text).strip() == CODE
    row = Example("r", "q", CODE, {})
    assert get_metric("exact_match").score(Prediction(text, text), row).is_correct
    assert get_metric("contains").score(Prediction(text, text), row).is_correct
    assert (
        get_metric("regex", {"pattern": r"\ASELECT \d;\s*\Z"}).score(Prediction(text, text), row).is_correct
    )
    fenced = Example("r", "q", text, {})
    assert get_metric("exact_match").score(Prediction(CODE, CODE), fenced).is_correct
    assert get_metric("contains").score(Prediction(CODE, CODE), fenced).is_correct


@pytest.mark.parametrize(
    "text",
    [
        *(f"```a\n{CODE}\n```\n```b\n{CODE}\n```", f"```a\n{CODE}\n```\n\nand\n\n```\n{CODE}\n```"),
        *(
            f"I think not.\n```\n{CODE}\n```",
            f"```\n{CODE}\n```\nThis query selects 1.",
            "no fence",
            "```",
            "",
        ),
        *(f"One:\nTwo:\n```\n{CODE}\n```", "a ``` b", f"`{CODE}` or `x`"),
    ],
)
def test_any_other_text_stays(text: str) -> None:
    assert unfence(text) == text


@pytest.mark.parametrize("mark", ["```", "````", "~~~~"])
def test_blocks_inside_a_document_are_parts_of_it(mark: str) -> None:
    document = "# T\n```python\nx\n```\nend"
    assert unfence(f"{mark}markdown\n{document}\n{mark}") == document


def test_a_pattern_with_a_backtick_sees_the_fence() -> None:
    text = f"```sql\n{CODE}\n```"
    row = Example("r", "q", "x", {})
    assert get_metric("regex", {"pattern": "^```sql"}).score(Prediction(text, text), row).is_correct
    assert not get_metric("regex", {"pattern": "^[^`]*$"}).score(Prediction(text, text), row).is_correct


def test_a_class_is_the_same_in_a_fence() -> None:
    metric = get_metric("macro_f1")
    assert metric.aggregate(["```\nyes\n```", "no"], ["yes", "no"]) == 1.0
