"""`loop`: passes, variables, when it stops."""

from __future__ import annotations

from typing import Any

import pytest
from flow_runs import flow, outputs_of, run_flow

from autoprompt.errors import EndpointError
from autoprompt.workflow.engine.events import LoopNext, LoopSucceeded

COUNTING = """
    nodes:
      - {id: start, type: start, data: {variables: [{variable: first, type: number}]}}
      - id: loop
        type: loop
        data:
          loop_count: 10
          logical_operator: and
          break_conditions:
            - {variable_selector: [loop, num], comparison_operator: "≥", value: "5", varType: number}
          loop_variables:
            - {label: num, var_type: number, value_type: constant, value: "1"}
            - {label: log, var_type: "array[string]", value_type: constant, value: "[]"}
          nodes:
            - id: name
              type: template-transform
              data: {template: "{{ i }}:{{ n }}", variables: {i: loop.index, n: loop.num}}
            - id: add
              type: assigner
              data:
                version: "2"
                items:
                  - {variable_selector: [loop, num], operation: "+=", input_type: constant, value: 1}
                  - {variable_selector: [loop, log], operation: append, input_type: variable,
                     value: [name, output]}
      - id: end
        type: end
        data: {outputs: {num: [loop, num], log: [loop, log], rounds: [loop, loop_round]}}
"""


def counting(**data: Any) -> dict[str, Any]:
    content = flow(COUNTING)
    content["nodes"][1]["data"] |= data
    return content


def test_loop_variables_live_from_pass_to_pass_until_a_break_condition_holds() -> None:
    assert outputs_of(COUNTING, {"first": 1}) == {"num": 5, "log": ["0:1", "1:2", "2:3", "3:4"], "rounds": 4}


def test_loop_count_is_the_most_passes() -> None:
    assert outputs_of(counting(loop_count=2), {"first": 1})["rounds"] == 2


def test_a_condition_that_holds_before_the_first_pass_runs_none() -> None:
    variables = [
        {"label": "num", "var_type": "number", "value_type": "variable", "value": ["start", "first"]},
        {"label": "log", "var_type": "array[string]", "value_type": "constant", "value": "[]"},
    ]
    content = counting(loop_variables=variables)
    assert outputs_of(content, {"first": 9}) == {"num": 9, "log": [], "rounds": 0}
    assert outputs_of(content, {"first": 4})["rounds"] == 1


@pytest.mark.parametrize(("operator", "rounds"), [("and", 6), ("or", 4)])
def test_logical_operator_joins_break_conditions(operator: str, rounds: int) -> None:
    conditions = [
        {"variable_selector": ["loop", "num"], "comparison_operator": "≥", "value": "5"},
        {"variable_selector": ["name", "output"], "comparison_operator": "contains", "value": "5:"},
    ]
    content = counting(break_conditions=conditions, logical_operator=operator)
    assert outputs_of(content, {"first": 1})["rounds"] == rounds


def test_a_condition_in_one_line() -> None:
    content = counting(break_conditions=[], break_expression="loop.num >= 3")
    assert outputs_of(content, {"first": 1})["rounds"] == 2


def test_loop_end_stops_after_its_pass() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: []}}
          - id: loop
            type: loop
            data:
              loop_count: 10
              nodes:
                - {id: enough, type: if-else, data: {cases: [{id: "true", if: "loop.index == 2"}]}}
                - {id: stop, type: loop-end}
                - {id: go_on, type: template-transform, data: {template: x}}
              edges:
                - [enough, stop, "true"]
                - [enough, go_on, "false"]
    """
    assert outputs_of(text)["loop_round"] == 3


def test_a_failed_pass_is_named() -> None:
    text = """
        nodes:
          - id: loop
            type: loop
            data:
              loop_count: 3
              nodes:
                - {id: ask, type: llm, data: {model: m, prompt_template: "pass {{#loop.index#}}"}}
    """

    def answer(messages: list[Any]) -> str:
        if messages[-1].content == "pass 1":
            raise EndpointError("down")
        return "ok"

    done = run_flow(text, answers=answer)
    assert "node 'loop': pass 2 failed: node 'ask'" in str(done.error)
    content = flow(text)
    content["nodes"][0]["data"]["error_handle_mode"] = "continue-on-error"
    assert outputs_of(content, answers=answer)["loop_round"] == 3


def test_events_of_a_loop() -> None:
    done = run_flow(counting(loop_count=2), {"first": 1})
    assert [event.pass_index for event in done.of(LoopNext)] == [0, 1]
    (ended,) = done.of(LoopSucceeded)
    assert (ended.steps, ended.outputs["num"]) == (2, 3)
