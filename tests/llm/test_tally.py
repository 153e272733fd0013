"""Which answers of a role count as cut or empty."""

from __future__ import annotations

import pytest

from autoprompt.llm.client import CUT, Completion, Options
from autoprompt.llm.kept.tally import Tally
from autoprompt.records import ToolCall, Usage


@pytest.mark.parametrize(
    ("answer", "labels", "cut", "empty"),
    [
        (Completion("odd", finish_reason=CUT), ("odd", "even"), 0, 0),
        (Completion(" Odd.\n", finish_reason=CUT), ("odd", "even"), 0, 0),
        (Completion("<think>hm</think>奇数", finish_reason=CUT), ("奇数", "偶数"), 0, 0),
        (Completion("it is od", finish_reason=CUT), ("odd", "even"), 1, 0),
        (Completion("it may be odd", finish_reason=CUT), ("odd", "even"), 1, 0),
        (Completion("odd", finish_reason=CUT), (), 1, 0),
        (Completion("<think>odd", finish_reason=CUT), ("odd", "even"), 1, 0),
        (Completion("<think>Let me see. It may be odd", finish_reason="stop"), ("odd", "even"), 0, 1),
        (Completion("<think>hm</think>", finish_reason="stop"), (), 0, 1),
        (Completion("", finish_reason="stop"), (), 0, 1),
        (Completion("", tool_calls=(ToolCall("c", "f", "{}"),)), (), 0, 0),
        (Completion("<think>hm</think>odd", finish_reason="stop"), ("odd", "even"), 0, 0),
    ],
)
def test_what_is_visible_tells_whether_an_answer_is_lost(
    answer: Completion, labels: tuple[str, ...], cut: int, empty: int
) -> None:
    tally = Tally()
    for _ in range(3):
        tally.add(Options(labels=labels), answer)
    bad = tally.bad()
    found = (bad["task"].cut, bad["task"].empty) if bad else (0, 0)
    assert found == (3 * cut, 3 * empty)


def test_a_role_whose_thoughts_never_end_is_named_with_its_cost() -> None:
    tally = Tally()
    for _ in range(4):
        tally.add(Options(), Completion("<think>hm", Usage(10, 90, cost_usd=0.01), model="m"))
    said = str(tally.bad()["task"].problem("task", None))
    assert said.startswith("task: 4 of 4 answers of m were cut off or empty; they took 400 tokens ($0.0400)")
