"""`validate` says which variables may be empty: those of nodes that some way to their reader passes by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_runs import flow

from autoprompt.workflow.file.validation import validate

BRANCH = {"id": "branch", "type": "if-else", "data": {"cases": [{"id": "true", "if": "sys.query == 'x'"}]}}


def text(node_id: str, *reads: str, **data: Any) -> dict[str, Any]:
    """A template that reads nodes."""
    return {
        "id": node_id,
        "type": "template-transform",
        "data": {"template": "x", "variables": {f"v{n}": [r, "output"] for n, r in enumerate(reads)}, **data},
    }


def warned(edges: str, *nodes: dict[str, Any]) -> list[str]:
    """What may be empty in a graph of the edges `a>b`, or `a>handle>b`."""
    ways = [way.split(">") for way in edges.split()]
    content = {
        "nodes": [{"id": "start", "type": "start", "data": {"variables": []}}, *nodes],
        "edges": [[way[0], way[-1], *way[1:-1]] for way in ways],
    }
    faults = validate(content)
    assert all(fault.severity == "warning" for fault in faults), faults
    return [fault.message.partition(" may be empty: ")[0] for fault in faults]


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        # each branch has its own node, and they meet
        ("start>branch branch>true>a branch>false>b a>end b>end", ["a.output", "b.output"]),
        # one of them leads past the node
        ("start>branch branch>true>a branch>false>end a>end start>b b>end", ["a.output"]),
        # side by side, with no branch at all
        ("start>a start>b a>end b>end start>branch", []),
        # both on the same branch
        ("start>branch branch>true>a branch>true>b a>end b>end", []),
        # every branch leads to both
        ("start>branch branch>true>a branch>false>a a>b b>end", []),
        # on different branches, but the reader is on one of them
        ("start>branch branch>true>a a>end start>b b>end branch>false>c c>d", ["a.output"]),
        ("start>branch branch>true>a branch>true>b b>end a>end branch>false>c", []),
    ],
)
def test_nodes_that_a_way_passes_by(edges: str, expected: list[str]) -> None:
    more = [text(name) for name in "cd" if f">{name}" in edges]
    assert warned(edges, BRANCH, text("a"), text("b"), text("end", "a", "b"), *more) == expected


def test_a_node_that_may_fail_and_go_on() -> None:
    fails = text("a", error_strategy="fail-branch")
    edges = "start>a a>success-branch>b a>fail-branch>c b>end c>end"
    assert warned(edges, fails, text("b", "a"), text("c", "a"), text("end", "a")) == ["a.output", "a.output"]


def test_inside_of_an_iteration() -> None:
    each = {
        "id": "each",
        "type": "iteration",
        "data": {
            "iterator_selector": ["sys", "files"],
            "nodes": [text("inner", "a", "b")],
        },
    }
    edges = "start>branch branch>true>a branch>false>each a>each start>b b>each"
    assert warned(edges, BRANCH, text("a"), text("b"), each) == ["a.output"]


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("answer", {"answer": "{{#a.output#}}"}, "Then the answer is without it."),
        ("code", {"code": "def main(x): return {}", "variables": {"x": ["a", "output"]}}, "Then it is None."),
        (
            "llm",
            {"prompt_template": "{{#a.output#}}", "model": "m"},
            "Then this node fails. Join the branches",
        ),
        (
            "llm",
            {
                "prompt_template": "{{#context#}}",
                "context": {"enabled": True, "variable_selector": ["a", "output"]},
                "model": "m",
            },
            "Then it is an empty text.",
        ),
    ],
)
def test_what_becomes_of_it_is_said(kind: str, data: dict[str, Any], told: str) -> None:
    content = flow("""
        nodes:
          - {id: start, type: start, data: {variables: []}}
          - {id: branch, type: if-else, data: {cases: [{id: "true", if: "sys.query == 'x'"}]}}
          - {id: a, type: template-transform, data: {template: x}}
        edges: [[start, branch], [branch, a, "true"], [branch, b, "false"], [a, b]]
    """)
    content["nodes"].append({"id": "b", "type": kind, "data": data})
    (fault,) = validate(content)
    assert fault.node_id == "b"
    assert "a.output may be empty: node 'a' does not run on every way to this one." in fault.message
    assert told in fault.message


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("end", {"outputs": {"x": ["a", "output"]}}),
        ("variable-aggregator", {"variables": [["a", "output"]]}),
        ("if-else", {"cases": [{"id": "c", "if": "a.output == 'x'"}]}),
    ],
)
def test_nodes_that_take_null_are_not_warned_of(kind: str, data: dict[str, Any]) -> None:
    reader = {"id": "z", "type": kind, "data": data}
    assert warned("start>branch branch>true>a branch>false>z a>z", BRANCH, text("a"), reader) == []


def test_the_line_of_an_export_is_named() -> None:
    path = Path(__file__).parents[1] / "dify" / "one_answer.yml"
    found = {(fault.line, fault.message.split()[0]) for fault in validate(path)}
    lines = path.read_text(encoding="utf-8").splitlines()
    answer = next(n for n, line in enumerate(lines, 1) if "answer: " in line)
    assert {name for line, name in found if line == answer} == {"1761000000003.text", "1761000000004.text"}
    assert len(found) == 6


def test_an_agent_fails_without_its_query_and_a_classifier_gets_an_empty_text() -> None:
    asking: dict[str, Any] = {
        "agent": {"query": {"type": "variable", "value": ["a", "output"]}, "instruction": "Help."},
        "question-classifier": {"query_variable_selector": ["a", "output"], "classes": ["x"]},
    }
    for kind, fate in (("agent", "this node fails"), ("question-classifier", "it is an empty text")):
        node = {"id": "end", "type": kind, "data": {"model": "m", **asking[kind]}}
        content = {
            "nodes": [{"id": "start", "type": "start", "data": {"variables": []}}, BRANCH, text("a"), node],
            "edges": [["start", "branch"], ["branch", "a", "true"], ["branch", "end", "false"], ["a", "end"]],
        }
        (fault,) = validate(content)
        assert fault.message.startswith(
            "a.output may be empty: node 'a' does not run on every way to this one"
        )
        assert f"Then {fate}." in fault.message
