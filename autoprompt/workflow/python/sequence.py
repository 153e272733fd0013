"""A list of Python nodes as a definition, and the nodes that begin and end it."""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from autoprompt.errors import InputError
from autoprompt.workflow.engine.definition import Definition, GraphEdge
from autoprompt.workflow.engine.errors import WorkflowDefinitionError, suggestion
from autoprompt.workflow.engine.variables import VariablePool
from autoprompt.workflow.python.base import CONTEXT, ITERATION_COUNT, BaseNode, WorkflowContext, as_graph_node


def sequence_definition(
    nodes: Sequence[BaseNode], edges: Sequence[tuple[str, str]] | None = None, *, name: str
) -> Definition:
    """The nodes in list order, each may name the next one; or joined by edges, branches side by side.

    Raises WorkflowDefinitionError for no nodes, what is no node, an id twice, an unknown id, a circle.
    """
    if not nodes:
        raise WorkflowDefinitionError(f"{name}: a workflow needs at least one node")
    for node in nodes:
        if not isinstance(node, BaseNode):
            raise WorkflowDefinitionError(f"{name}: {node!r} is no node; derive it from BaseNode")
    ids = [node.node_id for node in nodes]
    doubles = [node_id for node_id, count in Counter(ids).items() if count > 1]
    if doubles:
        raise WorkflowDefinitionError(
            f"{name}: duplicate node ids: {', '.join(doubles)}. Ids must be unique."
        )
    for node in nodes:
        if node.next_node_id is not None:
            _check_known(name, node.next_node_id, ids, f"next_node_id of {node.node_id!r}")
    return Definition(
        nodes=tuple(as_graph_node(node) for node in nodes),
        edges=None if edges is None else _edges(name, ids, edges),
        name=name,
        start=lambda inputs, _: {CONTEXT: dict(inputs)},
        result=_result_of(nodes),
    )


def _edges(name: str, ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[GraphEdge, ...]:
    for edge in edges:
        for end in edge:
            _check_known(name, end, ids, f"edge {edge[0]} -> {edge[1]}")
    before: dict[str, set[str]] = {node_id: set() for node_id in ids}
    for source, target in edges:
        before[target].add(source)
    try:
        graphlib.TopologicalSorter(before).prepare()
    except graphlib.CycleError as error:
        raise WorkflowDefinitionError(
            f"{name}: the edges go in a circle: {' -> '.join(reversed(error.args[1]))}. Repeat nodes with an "
            "IterativeWorkflowNode."
        ) from error
    return tuple(GraphEdge(source, target) for source, target in edges)


def _check_known(name: str, node_id: str, ids: Sequence[str], where: str) -> None:
    if node_id not in ids:
        raise WorkflowDefinitionError(f"{name}: {where}: no node {node_id!r}. {suggestion(node_id, ids)}")


def _result_of(nodes: Sequence[BaseNode]) -> Any:
    ends = {node.node_id: node for node in nodes if isinstance(node, EndNode)}

    def result(pool: VariablePool, ran: Sequence[str]) -> dict[str, Any]:
        """All variables; those that the last end names, where it names some."""
        context: Mapping[str, Any] = pool.values.get(CONTEXT, {})
        reached = [ends[node_id] for node_id in ran if node_id in ends]
        if reached and reached[-1].output_variables is not None:
            return {name: context.get(name) for name in reached[-1].output_variables}
        return {key: value for key, value in context.items() if key != ITERATION_COUNT}

    return result


class StartNode(BaseNode):
    """Says which variables the workflow needs.

    A missing one is an error in a workflow, and a warning in the passes of an IterativeWorkflowNode, whose
    mapping may leave one out of the first pass on purpose.
    """

    node_type: ClassVar[str] = "start"

    def __init__(
        self, node_id: str, node_name: str, variables: Sequence[str] = (), next_node_id: str | None = None
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        self.variables = tuple(variables)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        missing = [name for name in self.variables if name not in context]
        if not missing:
            return context
        message = f"no value for {', '.join(missing)}"
        if ITERATION_COUNT not in context:
            raise InputError(f"{message}. {suggestion(missing[0], context) or 'No variable is given.'}")
        self.working_context().warn(message)
        return context

    @property
    def output_names(self) -> tuple[str, ...]:
        return ()


class EndNode(BaseNode):
    """Ends the workflow, wherever it is in the list.

    output_variables: what the result holds; default: all variables. One that has no value is None there.
    """

    node_type: ClassVar[str] = "end"

    def __init__(self, node_id: str, node_name: str, output_variables: Sequence[str] | None = None) -> None:
        super().__init__(node_id, node_name)
        self.output_variables = None if output_variables is None else tuple(output_variables)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        for name in self.output_variables or ():
            if name not in context:
                self.working_context().warn(f"output {name!r} has no value")
        return context

    @property
    def output_names(self) -> tuple[str, ...]:
        return ()
