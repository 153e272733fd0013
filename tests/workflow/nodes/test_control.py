"""`iteration`: order, failures, flattening, several at once. `loop`: passes, variables, when it stops."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from flow_runs import flow, outputs_of, over_items, run_flow

from autoprompt.errors import EndpointError
from autoprompt.workflow.engine.events import (
    IterationFailed,
    IterationNext,
    IterationStarted,
    IterationSucceeded,
    LoopNext,
    LoopSucceeded,
)

ASK = '- {id: ask, type: llm, data: {model: m, prompt_template: "{{#each.index#}}: {{#each.item#}}"}}'


def each(**data: Any) -> dict[str, Any]:
    return over_items(ASK, "ask.text", **data)


def failing_on(*items: str) -> Any:
    def answer(messages: list[Any]) -> str:
        text = messages[-1].content
        if any(text.endswith(f": {item}") for item in items):
            raise EndpointError("the endpoint is down")
        return f"<{text}>"

    return answer


def test_item_and_index_are_seen_inside() -> None:
    assert outputs_of(each(), {"items": ["a", "b"]}) == {"out": ["<0: a>", "<1: b>"]}


def test_an_empty_list_gives_an_empty_list() -> None:
    assert outputs_of(each(), {"items": []}) == {"out": []}


def test_what_is_no_list_is_an_error() -> None:
    content = each()
    content["nodes"][0]["data"]["variables"][0]["type"] = "json_object"
    done = run_flow(content, {"items": {"a": 1}})
    assert "node 'each': ValueError: start.items is dict, expected a list" in str(done.error)


def test_results_are_in_the_order_of_the_items_whatever_came_first() -> None:
    later = threading.Event()

    def answer(messages: list[Any]) -> str:
        text = str(messages[-1].content)
        if text.startswith("0"):
            assert later.wait(10)
        if text.startswith("3"):
            later.set()
        return text

    out = outputs_of(each(is_parallel=True, parallel_nums=4), {"items": list("abcd")}, answer)
    assert out == {"out": ["0: a", "1: b", "2: c", "3: d"]}


def test_parallel_nums_items_are_at_work_at_once_and_no_more() -> None:
    lock, all_there = threading.Lock(), threading.Barrier(3)
    now, most = 0, 0

    def answer(messages: list[Any]) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_there.wait(10)
        with lock:
            now -= 1
        return "x"

    outputs_of(each(is_parallel=True, parallel_nums=3), {"items": list(range(9))}, answer)
    assert most == 3


@pytest.mark.parametrize("is_parallel", [False, True])
def test_terminated_fails_the_node_and_names_the_item(is_parallel: bool) -> None:
    done = run_flow(each(is_parallel=is_parallel), {"items": list("abc")}, failing_on("b"))
    assert done.outputs is None
    assert "node 'each': item 2 of 3 (index 1) failed: node 'ask': LLM invocation failed" in str(done.error)
    assert len(done.of(IterationFailed)) == 1


@pytest.mark.parametrize("is_parallel", [False, True])
def test_continue_on_error_puts_null_in_its_place(is_parallel: bool) -> None:
    content = each(is_parallel=is_parallel, error_handle_mode="continue-on-error")
    done = run_flow(content, {"items": list("abc")}, failing_on("b"))
    assert done.outputs == {"out": ["<0: a>", None, "<2: c>"]}
    assert [item["index"] for item in done.node("each").process_data["failed_items"]] == [1]
    assert any("item 2 of 3 (index 1) failed" in warning for warning in done.warnings)


@pytest.mark.parametrize("is_parallel", [False, True])
def test_remove_abnormal_output_leaves_it_out(is_parallel: bool) -> None:
    content = each(is_parallel=is_parallel, error_handle_mode="remove-abnormal-output")
    done = run_flow(content, {"items": list("abc")}, failing_on("a", "c"))
    assert done.outputs == {"out": ["<1: b>"]}
    assert [item["index"] for item in done.node("each").process_data["failed_items"]] == [0, 2]


PICK = "- {id: pick, type: variable-aggregator, data: {variables: [[each, item]]}}"


@pytest.mark.parametrize(
    ("items", "flat"),
    [([[1], [2, 3], []], [1, 2, 3]), ([[1], 2], [[1], 2]), ([None, [1]], [1]), (["a"], ["a"])],
)
def test_flatten_output_makes_one_list_of_lists(items: list[Any], flat: list[Any]) -> None:
    assert outputs_of(over_items(PICK, "pick.output"), {"items": items}) == {"out": flat}


def test_without_flatten_output_lists_stay() -> None:
    content = over_items(PICK, "pick.output", flatten_output=False)
    assert outputs_of(content, {"items": [[1], [2, 3]]}) == {"out": [[1], [2, 3]]}


SEEN = """
    - id: join
      type: template-transform
      data: {template: "{{ s }}{{ i }}", variables: {s: conversation.seen, i: each.item}}
    - id: note
      type: assigner
      data:
        items:
          - {variable_selector: [conversation, seen], operation: over-write,
             input_type: variable, value: [join, output]}
"""


def seeing(**data: Any) -> dict[str, Any]:
    content = over_items(SEEN, "join.output", **data)
    content["nodes"][2]["data"]["outputs"]["seen"] = ["conversation", "seen"]
    return {**content, "conversation_variables": {"seen": ""}}


def test_one_after_the_other_items_see_what_was_assigned_before() -> None:
    assert outputs_of(seeing(), {"items": list("abc")}) == {"out": ["a", "ab", "abc"], "seen": "abc"}


def test_what_items_at_once_assign_over_each_other_is_warned_of() -> None:
    done = run_flow(seeing(is_parallel=True), {"items": list("abc")})
    assert done.outputs == {"out": ["a", "b", "c"], "seen": "c"}
    (warning,) = done.warnings
    assert warning.startswith("several items assigned conversation.seen at once")


def test_iteration_in_iteration() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [{variable: rows, type: array}]}}
          - id: row
            type: iteration
            data:
              iterator_selector: [start, rows]
              output_selector: [cell, output]
              flatten_output: false
              nodes:
                - id: cell
                  type: iteration
                  data:
                    iterator_selector: [row, item]
                    output_selector: [t, output]
                    nodes:
                      - id: t
                        type: template-transform
                        data:
                          template: "{{ i }}{{ j }}{{ x }}"
                          variables: {i: row.index, j: cell.index, x: cell.item}
    """
    assert outputs_of(text, {"rows": [["a", "b"], ["c"]]}) == {"output": [["00a", "01b"], ["10c"]]}


def test_answers_inside_are_said_in_the_order_of_the_items() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
          - id: each
            type: iteration
            data:
              iterator_selector: [start, items]
              is_parallel: true
              nodes:
                - {id: say, type: answer, data: {answer: "{{#each.item#}};"}}
          - {id: last, type: answer, data: {answer: "."}}
    """
    assert outputs_of(text, {"items": list("abc")}) == {"answer": "a;b;c;."}


def test_events_of_an_iteration() -> None:
    done = run_flow(each(), {"items": list("ab")})
    (started,), (ended,) = done.of(IterationStarted), done.of(IterationSucceeded)
    assert started.metadata["iteration_length"] == 2
    assert [event.pass_index for event in done.of(IterationNext)] == [0, 1]
    assert (ended.steps, ended.outputs) == (2, {"output": ["<0: a>", "<1: b>"]})
    inner = [event for event in done.events if getattr(event, "node_id", "") == "ask"]
    assert {(event.in_node_id, event.index) for event in inner} == {("each", 0), ("each", 1)}


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
