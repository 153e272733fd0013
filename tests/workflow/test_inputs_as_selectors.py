"""An entry of a node's `inputs`, used by its name alone wherever a selector can stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autoprompt.workflow import RunSettings, Workflow
from autoprompt.workflow.file.validation import validate

INPUTS = [
    {
        "name": "k",
        "type": "extraction",
        "value": {"source_node_id": "ask", "source_variable": "context", "extraction_prompt": "Which queue?"},
    }
]


def flow(*nodes: Mapping[str, Any]) -> dict[str, Any]:
    """`ask`, then the node `t`, which has the extraction `k` = "tech", and others."""
    ask = {"id": "ask", "type": "llm", "data": {"model": "m", "prompt_template": "Hello"}}
    return {
        "mocks": {"ask": {"outputs": {"text": "hi"}}, "t.ext_1": {"outputs": {"text": "tech"}}},
        "nodes": [ask, *nodes],
    }


def told(kind: str, **data: Any) -> dict[str, Any]:
    return {"id": "t", "type": kind, "data": {"inputs": INPUTS, **data}}


def outputs(workflow: Mapping[str, Any]) -> dict[str, Any]:
    assert [str(fault) for fault in validate(workflow)] == []
    return dict(Workflow.load(workflow).run({}, settings=RunSettings()))


@pytest.mark.parametrize(
    "case",
    [
        {"expression": "k == 'tech'"},
        {
            "conditions": [{"variable_selector": ["k"], "comparison_operator": "is", "value": "tech"}],
            "logical_operator": "and",
        },
        {"expression": "{{#k#}} == 'tech'"},
    ],
)
def test_a_branch_is_chosen_by_what_the_node_extracts(case: dict[str, Any]) -> None:
    branch = told("if-else", cases=[{"case_id": "yes", **case}])
    ends = [
        {
            "id": word,
            "type": "end",
            "data": {"outputs": [{"variable": "taken", "value_selector": ["t", "result"]}]},
        }
        for word in ("right", "wrong")
    ]
    edges = [
        {"source": "ask", "target": "t"},
        {"source": "t", "sourceHandle": "yes", "target": "right"},
        {"source": "t", "sourceHandle": "false", "target": "wrong"},
    ]
    assert outputs({**flow(branch, *ends), "edges": edges}) == {"taken": True}


def test_an_end_hands_back_what_it_extracts() -> None:
    end = told("end", outputs=[{"variable": "r", "value_selector": ["k"]}])
    assert outputs(flow(end)) == {"r": "tech"}


@pytest.mark.parametrize(
    ("kind", "data", "name"),
    [
        ("template-transform", {"template": "<{{ word }}>"}, "output"),
        ("code", {"code": "def main(word, k):\n    return {'output': f'<{word}>'}"}, "output"),
    ],
)
def test_a_variable_is_given_what_the_node_extracts(kind: str, data: dict[str, Any], name: str) -> None:
    node = told(kind, variables=[{"variable": "word", "value_selector": ["k"]}], **data)
    end = {"id": "e", "type": "end", "data": {"outputs": [{"variable": "r", "value_selector": ["t", name]}]}}
    assert outputs(flow(node, end)) == {"r": "<tech>"}


def test_an_answer_names_it_in_its_text() -> None:
    assert outputs(flow(told("answer", answer="It is {{#k#}}.")))["answer"] == "It is tech."


def test_a_loop_ends_by_what_it_extracts() -> None:
    inner = [{"id": "step", "type": "template-transform", "data": {"template": "x"}}]
    loop = told("loop", nodes=inner, loop_count=5, break_expression="k == 'tech' and len(step.output) == 1")
    end = {
        "id": "e",
        "type": "end",
        "data": {"outputs": [{"variable": "r", "value_selector": ["t", "loop_round"]}]},
    }
    assert outputs(flow(loop, end)) == {"r": 1}


def test_a_misspelt_one_is_told_with_the_inputs_that_there_are() -> None:
    end = told("end", outputs=[{"variable": "r", "value_selector": ["kk"]}])
    (fault,) = validate(flow(end))
    assert "kk: no node 'kk'. Did you mean 'k'? Known here: k, " in fault.message


def test_an_input_that_names_another_is_told_before_the_first_call() -> None:
    other = {"name": "again", "type": "variable", "value": ["k"]}
    node = {"id": "t", "type": "end", "data": {"inputs": [*INPUTS, other], "outputs": []}}
    (fault,) = validate(flow(node))
    assert "k: no node 'k'." in fault.message
