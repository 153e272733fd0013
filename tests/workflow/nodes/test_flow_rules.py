"""The rules of the YAML form where Dify is silent or surprising: each has a test that is named after it."""

from __future__ import annotations

from typing import Any

import pytest
from flow_runs import flow, outputs_of, run_flow

from autoprompt.errors import InputError
from autoprompt.workflow import Workflow
from autoprompt.workflow.engine.events import NodeRunStreamChunk
from autoprompt.workflow.engine.tools import FunctionTool, register_tool

BRANCHES = """
    nodes:
      - {id: start, type: start, data: {variables: [query]}}
      - {id: branch, type: if-else, data: {cases: [{id: "true", if: 'start.query == "left"'}]}}
      - {id: left, type: template-transform, data: {template: L}}
      - {id: right, type: template-transform, data: {template: R}}
      - {id: meet, type: variable-aggregator, data: {variables: [[left, output], [right, output]]}}
      - id: end
        type: end
        data: {outputs: {met: [meet, output], left: [left, output], right: [right, output]}}
    edges:
      - [start, branch]
      - [branch, left, "true"]
      - [branch, right, "false"]
      - [left, meet]
      - [right, meet]
      - [meet, end]
"""


def test_without_edges_nodes_run_in_list_order_and_the_last_ones_outputs_are_the_result() -> None:
    done = run_flow(
        """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - {id: a, type: template-transform, data: {template: "{{ q }}1", variables: {q: start.query}}}
          - {id: b, type: template-transform, data: {template: "{{ q }}2", variables: {q: a.output}}}
        """,
        {"query": "x"},
    )
    assert done.ran == ["start", "a", "b"]
    assert done.outputs == {"output": "x12"}


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_branch_not_taken_is_null_in_end_and_variable_aggregator(side: str) -> None:
    other = "right" if side == "left" else "left"
    assert outputs_of(BRANCHES, {"query": side}) == {
        "met": side[0].upper(),
        side: side[0].upper(),
        other: None,
    }


def test_a_branch_not_taken_is_null_in_if_else() -> None:
    content = flow(BRANCHES)
    content["nodes"][4] = {
        "id": "meet",
        "type": "if-else",
        "data": {
            "cases": [
                {
                    "case_id": "c",
                    "conditions": [{"variable_selector": ["left", "output"], "comparison_operator": "null"}],
                }
            ]
        },
    }
    content["nodes"][5]["data"]["outputs"] = {"case": ["meet", "selected_case_id"]}
    content["edges"][-1:] = [["meet", "end", "c"], ["meet", "end", "false"]]
    assert outputs_of(content, {"query": "right"}) == {"case": "c"}
    assert outputs_of(content, {"query": "left"}) == {"case": "false"}


READERS = {
    "answer": {"answer": "<{{#left.output#}}>"},
    "template-transform": {"template": "<{{ x }}>", "variables": {"x": ["left", "output"]}},
    "code": {"code": "def main(x): return {'x': x}", "variables": {"x": ["left", "output"]}},
}


def reading(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """BRANCHES with a node that reads `left`, whichever branch was taken."""
    content = flow(BRANCHES)
    content["nodes"][4] = {"id": "meet", "type": kind, "data": data}
    del content["nodes"][5]
    del content["edges"][-1]
    return content


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [("answer", {"answer": "<>"}), ("template-transform", {"output": "<None>"}), ("code", {"x": None})],
)
def test_a_branch_not_taken_is_empty_in_an_answer_and_none_in_template_and_code(
    kind: str, outputs: dict[str, Any]
) -> None:
    content = reading(kind, READERS[kind])
    assert outputs_of(content, {"query": "right"}) == outputs
    assert outputs_of(content, {"query": "left"}) != outputs


def test_a_branch_not_taken_fails_a_prompt() -> None:
    done = run_flow(reading("llm", {"prompt_template": "{{#left.output#}}"}), {"query": "right"})
    assert done.outputs is None
    assert "node 'meet': variable left.output has no value. Node 'left' did not run" in str(done.error)


READS_TXT = """
    nodes:
      - {id: start, type: start, data: {variables: [query]}}
      - {id: find, type: tool, data: {tool_name: find_text}}
      - {id: a, type: answer, data: {answer: "{{#find.txt#}}"}}
"""


def test_a_variable_that_a_node_which_ran_did_not_put_out_is_an_error_in_an_answer_too() -> None:
    register_tool(FunctionTool(lambda: "x", "find_text"))
    done = run_flow(READS_TXT, {"query": "x"})
    assert "variable find.txt has no value. Did you mean 'find.text'?" in str(done.error)


def test_a_mock_that_gives_another_output_than_the_one_that_is_read_is_refused() -> None:
    done = run_flow(READS_TXT, {"query": "x"}, mocks={"find": {"outputs": {"text": "x"}}})
    assert done.error == "node 'find': find.txt has no value, which node 'a' reads. Given: text."


def test_a_failure_that_was_taken_up_leaves_the_outputs_empty() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - {id: find, type: tool, data: {tool_name: find, error_strategy: fail-branch}}
          - {id: a, type: answer, data: {answer: "<{{#find.text#}}>"}}
        edges: [[start, find], [find, a, success-branch], [find, a, fail-branch]]
        mocks: {find: {outputs: {text: x}, errors: [%s]}}
    """
    assert outputs_of(text % "down", {"query": "x"}) == {"answer": "<>"}
    assert outputs_of(text % "", {"query": "x"}) == {"answer": "<x>"}


def test_a_join_waits_for_all_branches_that_were_taken() -> None:
    done = run_flow(
        """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - {id: short, type: template-transform, data: {template: s}}
          - {id: long1, type: template-transform, data: {template: l}}
          - {id: long2, type: template-transform, data: {template: "{{ x }}2", variables: {x: long1.output}}}
          - {id: join, type: answer, data: {answer: "{{#short.output#}}+{{#long2.output#}}"}}
        edges:
          - [start, short]
          - [start, long1]
          - [long1, long2]
          - [short, join]
          - [long2, join]
        """,
        {"query": "x"},
    )
    assert done.outputs == {"answer": "s+l2"}
    assert done.ran.count("join") == 1


def test_an_input_named_query_is_also_sys_query() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - {id: a, type: answer, data: {answer: "{{#sys.query#}}={{#start.query#}}"}}
    """
    assert outputs_of(text, {"query": "hi"}) == {"answer": "hi=hi"}


def test_several_answer_nodes_join_in_order() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - {id: a, type: answer, data: {answer: "Hello "}}
          - {id: b, type: answer, data: {answer: "{{#start.query#}}."}}
    """
    assert outputs_of(text, {"query": "world"}) == {"answer": "Hello world."}


def test_a_variable_of_the_environment_and_of_the_conversation() -> None:
    text = """
        environment_variables: [{name: tone, value: dry, value_type: string}]
        conversation_variables: [{name: seen, value: ["a"], value_type: "array[string]"}]
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - id: note
            type: assigner
            data:
              items:
                - {variable_selector: [conversation, seen], operation: append, input_type: variable,
                   value: [start, query]}
          - {id: a, type: answer, data: {answer: "{{#env.tone#}} {{#conversation.seen#}}"}}
    """
    assert outputs_of(text, {"query": "b"}) == {"answer": "dry - a\n- b"}
    assert outputs_of(text, {"query": "b", "env.tone": "warm"}) == {"answer": "warm - a\n- b"}
    workflow = Workflow.load(flow(text))
    assert [workflow.run({"query": "c"})["answer"] for _ in range(2)] == ["dry - a\n- c"] * 2


def test_a_missing_input_is_named_with_what_was_given() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [query, city]}}
    """
    with pytest.raises(
        InputError, match=r"no value for the input city \(given: query\). Add inputs=\{'city': '\.\.\.'\}"
    ):
        Workflow.load(flow(text)).run({"query": "x"})


@pytest.mark.parametrize(
    ("variable", "given", "value"),
    [
        ({"type": "number"}, "3", 3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "checkbox"}, "yes", True),
        ({"type": "text-input"}, 7, "7"),
        ({"type": "select", "options": ["a", "b"]}, "a", "a"),
        ({"type": "json_object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "paragraph", "default": "d"}, None, "d"),
        ({"type": "paragraph"}, None, ""),
        ({"type": "array"}, '["a"]', ["a"]),
        ({"type": "array[string]"}, None, []),
        ({"type": "string", "max_length": 3}, "abc", "abc"),
    ],
)
def test_inputs_are_of_their_type(variable: dict[str, Any], given: Any, value: Any) -> None:
    content = {
        "nodes": [{"id": "start", "type": "start", "data": {"variables": [{"variable": "v", **variable}]}}]
    }
    inputs = {} if given is None else {"v": given}
    assert outputs_of(content, inputs) == {"v": value}


@pytest.mark.parametrize(
    ("variable", "given", "message"),
    [
        ({"type": "number"}, "many", "input v is 'many', expected a number"),
        ({"type": "number"}, "nan", "input v is 'nan', expected a number"),
        ({"type": "number"}, [1], r"input v is \[1\], expected a number"),
        ({"type": "select", "options": ["a", "b"]}, "c", "input v is 'c', expected one of: a, b"),
        ({"type": "text-input", "max_length": 2}, "abc", "input v has 3 characters, at most 2 are allowed"),
        ({"type": "string", "max_length": 2}, "abc", "input v has 3 characters, at most 2 are allowed"),
        ({"type": "json_object"}, "{", "expected JSON"),
        ({"type": "array"}, '"abc"', 'input v is "abc", expected a list, such as'),
        ({"type": "array[number]"}, '{"a": 1}', "expected a list, such as"),
    ],
)
def test_inputs_that_do_not_do_are_told(variable: dict[str, Any], given: Any, message: str) -> None:
    content = {
        "nodes": [{"id": "start", "type": "start", "data": {"variables": [{"variable": "v", **variable}]}}]
    }
    with pytest.raises(InputError, match=message):
        Workflow.load(content).run({"v": given})


def test_an_if_else_with_cases_leaves_by_the_first_that_holds() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [{variable: n, type: number}]}}
          - id: branch
            type: if-else
            data:
              cases:
                - case_id: small
                  logical_operator: and
                  conditions:
                    - {variable_selector: [start, n], comparison_operator: "<", value: "10"}
                    - {variable_selector: [start, n], comparison_operator: ">", value: "0"}
                - case_id: odd
                  logical_operator: or
                  conditions:
                    - {variable_selector: [start, n], comparison_operator: "=", value: "11"}
                    - {variable_selector: [start, n], comparison_operator: "=", value: "13"}
          - {id: small, type: answer, data: {answer: small}}
          - {id: odd, type: answer, data: {answer: odd}}
          - {id: other, type: answer, data: {answer: other}}
        edges:
          - {source: start, target: branch}
          - {source: branch, sourceHandle: small, target: small}
          - {source: branch, sourceHandle: odd, target: odd}
          - {source: branch, sourceHandle: "false", target: other}
    """
    said = [outputs_of(text, {"n": n})["answer"] for n in (5, 11, 13, 12, -1)]
    assert said == ["small", "odd", "odd", "other", "other"]


def test_an_if_else_of_the_older_form() -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - id: branch
            type: if-else
            data:
              logical_operator: or
              conditions:
                - {id: "1", variable_selector: [start, query], comparison_operator: contains, value: a}
                - {id: "2", variable_selector: [start, query], comparison_operator: is, value: zz}
          - {id: yes, type: answer, data: {answer: "yes"}}
          - {id: no, type: answer, data: {answer: "no"}}
        edges:
          - {source: start, target: branch}
          - {source: branch, sourceHandle: "true", target: "yes"}
          - {source: branch, sourceHandle: "false", target: "no"}
    """
    content = flow(text)
    for node, name in zip(content["nodes"][2:], ("yes", "no"), strict=True):
        node["id"] = name  # plain YAML reads `yes` as a truth value
    assert [outputs_of(content, {"query": q})["answer"] for q in ("banana", "zz", "bob")] == [
        "yes",
        "yes",
        "no",
    ]


def test_groups_of_a_variable_aggregator() -> None:
    content = flow(BRANCHES)
    content["nodes"][4]["data"] = {
        "variables": [],
        "advanced_settings": {
            "group_enabled": True,
            "groups": [
                {"group_name": "Group1", "variables": [["left", "output"], ["start", "query"]]},
                {"group_name": "Group2", "variables": [["right", "output"]]},
            ],
        },
    }
    content["nodes"][5]["data"]["outputs"] = {
        "one": ["meet", "Group1", "output"],
        "two": ["meet", "Group2", "output"],
    }
    assert outputs_of(content, {"query": "right"}) == {"one": "right", "two": "R"}


def test_an_answer_is_told_as_a_chunk() -> None:
    done = run_flow("nodes: [{id: a, type: answer, data: {answer: hi}}]")
    (chunk,) = done.of(NodeRunStreamChunk)
    assert (list(chunk.selector), chunk.chunk) == (["a", "answer"], "hi")
