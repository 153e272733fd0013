"""From a checked file to what the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprompt.workflow.building import graph_node
from autoprompt.workflow.definition import Definition, GraphEdge, GraphNode
from autoprompt.workflow.errors import WorkflowDefinitionError
from autoprompt.workflow.http_tools import HttpTool
from autoprompt.workflow.mocks import read_mocks
from autoprompt.workflow.spec.checking import check_workflow
from autoprompt.workflow.spec.checks import CheckedGraph
from autoprompt.workflow.spec.inputs import first_values
from autoprompt.workflow.spec.reading import FileGraph
from autoprompt.workflow.spec.tools import read_tools
from autoprompt.workflow.variables import VariablePool

_MAX_SHOWN = 20


def load_definition(source: Path | str | Mapping[str, Any]) -> Definition:
    """The workflow of a file, or of its content, ready to run.

    A node without a model is no fault here: a run may bring one for all nodes.
    Raises WorkflowDefinitionError with file and line of all faults at once, ConfigError for what is no YAML.
    """
    file, faults, graph = check_workflow(source, needs_model=False)
    errors = faults.errors
    if errors:
        shown = [str(fault) for fault in errors[:_MAX_SHOWN]]
        rest = len(errors) - len(shown)
        raise WorkflowDefinitionError("\n".join(shown + ([f"... and {rest} more"] if rest else [])))
    nodes, edges = _build(file.graph, graph, read_tools(file))
    return Definition(
        nodes,
        edges,
        name=file.name,
        start=first_values(file, graph),
        result=_result_of(nodes),
        mocks=read_mocks(file.mocks),
    )


def _build(
    file: FileGraph, graph: CheckedGraph, tools: Mapping[str, HttpTool]
) -> tuple[tuple[GraphNode, ...], tuple[GraphEdge, ...]]:
    """Nodes that can be reached, and the edges between them."""
    reached = graph.order.reached
    nodes = []
    for node in file.nodes:
        if node.id not in reached:
            continue
        inner = None
        if node.inner is not None and node.id in graph.inner:
            inner_nodes, inner_edges = _build(node.inner, graph.inner[node.id], tools)
            inner = Definition(inner_nodes, inner_edges, name=node.id)
        data = {**node.data, "http_tools": tools} if node.type in ("tool", "agent") else node.data
        nodes.append(graph_node(node.id, node.type, data, inner=inner))
    edges = tuple(
        GraphEdge(edge.source, edge.target, edge.handle)
        for edge in graph.edges
        if edge.source in reached and edge.target in reached
    )
    return tuple(nodes), edges


def _result_of(nodes: Sequence[GraphNode]) -> Callable[[VariablePool, Sequence[str]], dict[str, Any]]:
    """What a run hands back: the outputs of its end nodes, its answers joined, or its last node's outputs."""
    kinds = {node.id: node.type for node in nodes}

    def result(pool: VariablePool, ran: Sequence[str]) -> dict[str, Any]:
        values = pool.values
        found: dict[str, Any] = {}
        answers = []
        for node_id in ran:
            outputs = values.get(node_id, {})
            if kinds.get(node_id) == "end":
                found.update(outputs)
            elif kinds.get(node_id) in ("answer", "iteration", "loop") and "answer" in outputs:
                answers.append(str(outputs["answer"]))
        if answers:
            found["answer"] = "".join(answers)
        has_end = any(kinds.get(node_id) == "end" for node_id in ran)
        if found or has_end or not ran:
            return found
        return dict(values.get(ran[-1], {}))

    return result
