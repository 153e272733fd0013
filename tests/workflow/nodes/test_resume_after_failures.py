"""A resumed run ends as the uninterrupted one does, where failures were taken up before it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_runs import flow, over_items

from autoprompt.errors import AuthenticationError, EndpointError
from autoprompt.llm import ScriptedClient
from autoprompt.workflow import RunSettings, Workflow

ASK = '- {id: ask, type: llm, data: {model: m, prompt_template: "{{#each.item#}}"}}'
ADD = """
- id: add
  type: assigner
  data: {items: [{variable_selector: [conversation, total], operation: "+=",
                  input_type: variable, value: [each, item]}]}
"""
LOOP = """
    nodes:
      - id: loop
        type: loop
        data:
          loop_count: 4
          loop_variables: [{label: passes, var_type: "array[string]", value: "[]"}]
          error_handle_mode: continue-on-error
          nodes:
            - {id: ask, type: llm, data: {model: m, prompt_template: "{{#loop.index#}}"}}
            - id: add
              type: assigner
              data: {items: [{variable_selector: [loop, passes], operation: append,
                              input_type: variable, value: [ask, text]}]}
      - {id: end, type: end, data: {outputs: {passes: [loop, passes], rounds: [loop, loop_round]}}}
"""


def stopped_and_resumed(
    content: dict[str, Any], inputs: dict[str, Any], fails: str, ends: str, runs_dir: Path
) -> tuple[dict[str, Any], list[str]]:
    """The result, and what was asked after the stop: at `ends`. At `fails` the model is away until then."""
    is_stopped = False
    asked: list[str] = []

    def reply(messages: list[Any]) -> str:
        text = str(messages[-1].content)
        if not is_stopped and text == ends:
            raise AuthenticationError("the key ran out")
        if not is_stopped and text == fails:
            raise EndpointError("away")
        asked.append(text)
        return f"<{text}>"

    settings = RunSettings(client=ScriptedClient(reply))
    workflow = Workflow.load(content)
    with pytest.raises(AuthenticationError):
        workflow.run(inputs, run_id="r", runs_dir=runs_dir, settings=settings)
    is_stopped = True
    asked.clear()
    return workflow.resume("r", runs_dir=runs_dir, settings=settings), asked


def test_a_failed_item_of_a_sequence_stays_failed(tmp_path: Path) -> None:
    # Those behind it have added to a total without it.
    content = over_items(ASK + ADD, "ask.text", error_handle_mode="continue-on-error")
    content["nodes"][2]["data"]["outputs"]["total"] = ["conversation", "total"]
    content["conversation_variables"] = {"total": 0}
    inputs = {"items": [10, 20, 30, 40]}
    result, asked = stopped_and_resumed(content, inputs, "20", "40", tmp_path)
    assert result == {"out": ["<10>", None, "<30>", "<40>"], "total": 80}
    assert asked == ["40"]


def test_a_failed_item_among_several_at_once_is_tried_again(tmp_path: Path) -> None:
    several = {"is_parallel": True, "parallel_nums": 2, "error_handle_mode": "continue-on-error"}
    content = over_items(ASK, "ask.text", **several)
    inputs = {"items": [10, 20, 30, 40]}
    result, asked = stopped_and_resumed(content, inputs, "20", "40", tmp_path)
    assert result["out"] == ["<10>", "<20>", "<30>", "<40>"]
    assert "20" in asked


def test_a_failed_pass_of_a_loop_stays_failed(tmp_path: Path) -> None:
    result, asked = stopped_and_resumed(flow(LOOP), {}, "1", "3", tmp_path)
    assert result == {"passes": ["<0>", "<2>", "<3>"], "rounds": 4}
    assert asked == ["3"]
