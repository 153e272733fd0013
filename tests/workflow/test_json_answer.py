"""JSON in the answer of a model that repeats itself."""

from __future__ import annotations

import pytest

from autoprompt.llm.client import ToolSchema
from autoprompt.workflow.agent_model import written_calls
from autoprompt.workflow.json_answer import read_json_answer

ENDLESS = "[" * 100_000


@pytest.mark.parametrize("answer", [ENDLESS, f"Here it is: {ENDLESS}", f"```json\n{ENDLESS}\n```"])
def test_brackets_without_an_end_are_no_json(answer: str) -> None:
    with pytest.raises(ValueError, match="holds no JSON"):
        read_json_answer(answer)


def test_brackets_without_an_end_call_no_tool() -> None:
    tools = [ToolSchema("look", "Looks.", "{}")]
    assert written_calls('<tool_call>{"name": ' + ENDLESS + "}</tool_call>", tools, 1) == ()
