"""Nodes as Python classes: they take the variables and give them back; a list of them is a workflow."""

from __future__ import annotations

import graphlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from autoprompt.errors import InputError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.text.scripts import NAME
from autoprompt.workflow.engine.context import (
    Attempt,
    NodeContext,
    RunContext,
    current_node,
    log_event,
    working,
)
from autoprompt.workflow.engine.definition import (
    Definition,
    ErrorStrategy,
    GraphEdge,
    GraphNode,
    NodeResult,
    NodeTypeBase,
    RetryConfig,
)
from autoprompt.workflow.engine.errors import WorkflowDefinitionError, suggestion
from autoprompt.workflow.engine.models import OneModel
from autoprompt.workflow.engine.variables import VariablePool

WorkflowContext = dict[str, Any]
"""The variables of a workflow by name."""

CONTEXT = "$context"  # where the variables lie among the values of a run; no id of a node
NEXT = "next_node_id"  # a name that is a word to the engine: the node that runs next
ITERATION_COUNT = "_iteration_count"

_PLACEHOLDER = re.compile(rf"\{{({NAME})\}}")


class BaseNode:
    """A step of a workflow. Make your own by a subclass that overrides `execute`.

    next_node_id: the node that runs next; default: the next of the list. `execute` may also return it, under
    the name "next_node_id" in the context.
    retry_config, error_strategy, default_values: as in YAML; set them on the object or in the subclass.
    """

    node_type: ClassVar[str] = "custom"
    retry_config: RetryConfig | None = None
    error_strategy: ErrorStrategy | None = None
    default_values: Mapping[str, Any] = {}

    def __init__(self, node_id: str, node_name: str, next_node_id: str | None = None) -> None:
        if not isinstance(node_id, str) or not node_id.strip():
            raise WorkflowDefinitionError(f"a node needs an id, a text; found {node_id!r}")
        self.node_id = node_id
        self.node_name = node_name
        self.next_node_id = next_node_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node_id!r})"

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        """Do the work: the variables in, the variables out. The context is the node's own to change."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(context)")

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """Names of the variables that it writes; None where that is not known beforehand."""
        return None

    @property
    def component_texts(self) -> Mapping[str, str]:
        """Its prompt texts by role, which an optimizer may change."""
        return {}

    @property
    def inner(self) -> Definition | None:
        """The graph inside the node, of a node that repeats one."""
        return None

    def working_context(self) -> NodeContext:
        """Return what the engine offers a node at work; outside of a workflow, one that keeps nothing."""
        return current_node() or _standalone(self)


@dataclass(frozen=True, eq=False)
class PythonNode(NodeTypeBase):
    """Shows a node of Python's to the engine."""

    node: BaseNode

    def execute(self, data: Any, context: NodeContext) -> NodeResult:
        before = dict(context.pool.values.get(CONTEXT, {}))
        with working(context):
            after = self.node.execute({name: _own_copy(value) for name, value in before.items()})
        if not isinstance(after, Mapping):
            raise TypeError(f"execute has to return the context, a dict; it returned {type(after).__name__}")
        return self._result(context, before, dict(after))

    def mocked(self, data: Any, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        before = dict(context.pool.values.get(CONTEXT, {}))
        return self._result(context, before, {**before, **outputs})

    def component_texts(self, data: Any) -> Mapping[str, str]:
        return self.node.component_texts

    def _result(self, context: NodeContext, before: Mapping[str, Any], after: dict[str, Any]) -> NodeResult:
        goto = after.pop(NEXT, None) or self.node.next_node_id
        changed = {
            name: value
            for name, value in after.items()
            if name not in before or not _same(before[name], value)
        }
        noted = context.noted
        return NodeResult(
            outputs=changed,
            inputs=noted.inputs,
            process_data=noted.process_data,
            metadata=noted.metadata,
            goto=goto or self.ending,
            removed=tuple(name for name in before if name not in after),
        )

    @property
    def ending(self) -> str | None:
        """LangGraph's name of the end for a node that ends the workflow."""
        return "__end__" if self.node.node_type == "end" else None


def as_graph_node(node: BaseNode) -> GraphNode:
    return GraphNode(
        id=node.node_id,
        type=node.node_type,
        title=node.node_name,
        executor=PythonNode(node),
        data=None,
        retry=node.retry_config,
        error_strategy=node.error_strategy,
        default_values=node.default_values,
        inner=node.inner,
        scope=CONTEXT,
    )


def fill(template: str, variables: Mapping[str, Any], context: NodeContext) -> str:
    """Return the template with `{identifier}` replaced if there is such a variable; all else stays.

    A text goes in as it is, other values as JSON. An identifier that is no variable gives a warning.
    """

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in variables:
            context.warn(f"{{{match[1]}}} in the prompt is not a variable and stays as it is")
            return match[0]
        return as_text(variables[match[1]])

    return _PLACEHOLDER.sub(value_of, template)


def as_text(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _own_copy(value: Any) -> Any:
    """Return a copy of lists and dicts all the way down, so that a change in them shows.

    Other objects stay.
    """
    if type(value) is dict:
        return {key: _own_copy(part) for key, part in value.items()}
    if type(value) is list:
        return [_own_copy(part) for part in value]
    return value


def _same(old: Any, new: Any) -> bool:
    if type(old) is dict and type(new) is dict:
        return old.keys() == new.keys() and all(_same(old[key], new[key]) for key in old)
    if type(old) is list and type(new) is list:
        return len(old) == len(new) and all(map(_same, old, new))
    plain = (str, int, float, bool)
    return old is new or (type(old) is type(new) and isinstance(old, plain) and old == new)


def _standalone(node: BaseNode) -> NodeContext:
    run = RunContext(models=OneModel(ScriptedClient([])))  # never asked: see `LLMNode`
    return NodeContext(
        run,
        as_graph_node(node),
        VariablePool({}),
        path=node.node_id,
        attempt=Attempt(),
        emit=log_event,
        stream=log_event,
    )


def sequence_definition(
    nodes: Sequence[BaseNode], edges: Sequence[tuple[str, str]] | None = None, *, name: str
) -> Definition:
    """Return a workflow of these nodes: in list order, in which each may name the next, or joined by edges.

    Raises:
        WorkflowDefinitionError: There are no nodes, something is not a node, two nodes have one id, an
            unknown id is named, or the edges go in a circle.
    """
    if not nodes:
        raise WorkflowDefinitionError(f"{name}: a workflow needs at least one node")
    for node in nodes:
        if not isinstance(node, BaseNode):
            raise WorkflowDefinitionError(f"{name}: {node!r} is not a node. Derive it from BaseNode")
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
        """Return all variables; those that the last end names, where it names some."""
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
