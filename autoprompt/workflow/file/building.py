"""From a checked file to what the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprompt.errors import Problem
from autoprompt.workflow.engine.definition import (
    Definition,
    ExtractionSource,
    GraphEdge,
    GraphNode,
    NodeOutputs,
    VirtualNode,
)
from autoprompt.workflow.engine.errors import SourceNodeNotFoundError, WorkflowDefinitionError
from autoprompt.workflow.engine.extraction import Extracting, ExtractionSpec, extraction_title
from autoprompt.workflow.engine.registry import node_type
from autoprompt.workflow.engine.stand_ins import read_mocks
from autoprompt.workflow.engine.template import only_reference
from autoprompt.workflow.engine.tools import HttpTool
from autoprompt.workflow.engine.variables import VariablePool
from autoprompt.workflow.file.checking import check_workflow, read_tools
from autoprompt.workflow.file.checks import CheckedGraph, CheckedNode
from autoprompt.workflow.file.faults import MOST_SHOWN
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.inputs import first_values
from autoprompt.workflow.file.model_records import AgentData, LLMData
from autoprompt.workflow.file.records import ToolData


def load_definition(source: Path | str | Mapping[str, Any]) -> Definition:
    """The workflow of a file, or of its content, ready to run.

    A node without a model is no fault here: a run may bring one for all nodes.
    Raises WorkflowDefinitionError with file and line of all faults at once, a SourceNodeNotFoundError if one
    of them is an extraction from a node that is not there. Raises ConfigError for what is no YAML.
    """
    checked = check_workflow(source, needs_model=False)
    file, graph, errors = checked.file, checked.graph, checked.faults.errors
    if errors:
        problems = [fault.problem for fault in errors[:MOST_SHOWN]]
        if rest := len(errors) - len(problems):
            problems.append(Problem.plain(f"... and {rest} more"))
        missing = next((fault for fault in errors if fault.missing_source is not None), None)
        if missing is not None and missing.missing_source is not None:
            reader = missing.node_id
            raise SourceNodeNotFoundError(missing.missing_source, reader_node_id=reader, problems=problems)
        raise WorkflowDefinitionError(*problems)
    nodes, edges = Builder(read_tools(file), checked.outputs).graph(graph)
    return Definition(
        nodes,
        edges,
        name=file.name,
        start=first_values(file, graph, checked.outputs),
        result=_result_of(nodes),
        is_chat=file.is_chat,
        mocks=read_mocks(file.mocks),
    )


@dataclass(frozen=True)
class Builder:
    """Makes what the engine runs of checked nodes. tools: those of the file. outputs: by id of the node."""

    tools: Mapping[str, HttpTool]
    outputs: Mapping[str, NodeOutputs]

    def graph(self, graph: CheckedGraph) -> tuple[tuple[GraphNode, ...], tuple[GraphEdge, ...]]:
        """Nodes that can be reached, and the edges between them."""
        reached = graph.order.reached
        nodes = tuple(
            self.node(node, graph.inner.get(node_id))
            for node_id, node in graph.nodes.items()
            if node_id in reached
        )
        edges = tuple(
            GraphEdge(edge.source, edge.target, edge.handle)
            for edge in graph.edges
            if edge.source in reached and edge.target in reached
        )
        return nodes, edges

    def node(self, checked: CheckedNode, inner: CheckedGraph | None = None) -> GraphNode:
        """The node with its virtual nodes: its own ones, then its extractions. inner: what it repeats."""
        data, record = checked.data, checked.record
        if data is None or record is None:
            raise WorkflowDefinitionError(f"node {checked.id!r}: its data cannot be read, see its faults")
        if isinstance(record, ToolData | AgentData):
            record = record.model_copy(update={"http_tools": self.tools})
        extractions = {spec.local_id: spec for spec in checked.extracted}
        return GraphNode(
            id=checked.id,
            type=checked.file.type,
            title=data.title or checked.id,
            executor=node_type(checked.file.type, may_be_newer=True),
            data=record,
            retry=data.retry_config,
            error_strategy=data.error_strategy,
            default_values={default.key: default.value for default in data.default_value},
            inputs=data.inputs,
            children=tuple(
                self._extracting(child.id, extractions[name])
                if name in extractions
                else self._explicit(name, child)
                for name, child in checked.virtual.items()
            ),
            inner=None if inner is None else Definition(*self.graph(inner), name=checked.id),
            locked=data.locked,
            holds_turns=checked.file.holds_turns,
            outputs=self.outputs.get(checked.id, NodeOutputs()),
        )

    def _explicit(self, local_id: str, child: CheckedNode) -> VirtualNode:
        source = _conversation(child.data)
        if source is not None and child.data is not None and not child.data.title:
            data = child.data.model_copy(update={"title": extraction_title(source.prompt)})
            child = replace(child, data=data, record=data)
        return VirtualNode(local_id, self.node(child), source)

    def _extracting(self, node_id: str, spec: ExtractionSpec) -> VirtualNode:
        known = self.outputs.get(node_id, NodeOutputs())
        node = GraphNode(node_id, "llm", spec.title, executor=Extracting(), data=spec, outputs=known)
        failed = spec.default_value if spec.default_value is not None else ""
        return VirtualNode(spec.local_id, node, spec.source, failed)


def _conversation(data: NodeData | None) -> ExtractionSource | None:
    """The source of a written-out extraction: a conversation as one message, a question as the other."""
    if not isinstance(data, LLMData) or len(data.messages) != 2:
        return None
    conversation, question = (message.text for message in data.messages)
    selector = only_reference(conversation)
    return ExtractionSource(selector, question) if selector is not None and question.strip() else None


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
