"""From a checked file to what the engine runs, and from a run's inputs to its first values."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprompt.dataset.conversations import as_conversation
from autoprompt.errors import InputError, Problem
from autoprompt.records import transcript
from autoprompt.text.names import counted, cut_to
from autoprompt.workflow.engine.conditions import ComparisonError, as_number
from autoprompt.workflow.engine.definition import (
    Definition,
    ExtractionSource,
    GraphEdge,
    GraphNode,
    NodeOutputs,
    VirtualNode,
    node_type,
)
from autoprompt.workflow.engine.errors import SourceNodeNotFoundError, WorkflowDefinitionError
from autoprompt.workflow.engine.extraction import Extracting, ExtractionSpec, extraction_title
from autoprompt.workflow.engine.mocks import read_mocks
from autoprompt.workflow.engine.template import as_json_text, only_reference
from autoprompt.workflow.engine.tools import HttpTool
from autoprompt.workflow.engine.variables import VariablePool
from autoprompt.workflow.file import records
from autoprompt.workflow.file.checker import CheckedGraph, CheckedNode
from autoprompt.workflow.file.faults import MOST_SHOWN
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.model_records import AgentData, LLMData
from autoprompt.workflow.file.reading import WorkflowFile
from autoprompt.workflow.file.records import TEXT_TYPES, ToolData
from autoprompt.workflow.file.validation import check_workflow, read_tools


def load_definition(source: Path | str | Mapping[str, Any]) -> Definition:
    """Load the workflow of a file, or of its content, ready to run.

    A node without a model is no fault here: a run may bring one for all nodes.

    Raises:
        WorkflowDefinitionError: The file has faults; the error lists them with file and line. It is a
            SourceNodeNotFoundError if an extraction names a node that is not there.
        ConfigError: The file is not YAML.
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
        """Return the nodes that can be reached, and the edges between them."""
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
        """Return the node with its virtual nodes: its own ones, then its extractions.

        Args:
            inner: The graph that the node repeats.
        """
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
    """Return the source of a written-out extraction.

    A conversation is one message, a question the other.
    """
    if not isinstance(data, LLMData) or len(data.messages) != 2:
        return None
    conversation, question = (message.text for message in data.messages)
    selector = only_reference(conversation)
    return ExtractionSource(selector, question) if selector is not None and question.strip() else None


def _result_of(nodes: Sequence[GraphNode]) -> Callable[[VariablePool, Sequence[str]], dict[str, Any]]:
    """Return a run's result: the outputs of its end nodes, its answers joined, or its last node's outputs."""
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


Values = dict[str, dict[str, Any]]

_LISTS = ("array", "file-list")
_FILES = ("file", "file-list")
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off", "")


def first_values(
    file: WorkflowFile, graph: CheckedGraph, outputs: Mapping[str, NodeOutputs]
) -> Callable[[Mapping[str, Any], Collection[str]], Values]:
    """Return what makes the first values of the pool out of the inputs of a run.

    A required file may be missing if all nodes that read it are mocked: its text is given instead. An input
    is also a variable of `sys`; `env.NAME` and `conversation.NAME` replace the file's values.

    Raises:
        ValueError: A variable in the file is not of its type. The check of the file reports that first.
    """
    starts = {node.id: node.data for node in graph.nodes.values() if isinstance(node.data, records.StartData)}
    environment = {variable.name: variable.first_value for variable in file.environment}
    conversation = {variable.name: variable.first_value for variable in file.conversation}
    is_chat = file.is_chat

    def start(inputs: Mapping[str, Any], mocked: Collection[str] = ()) -> Values:
        if is_chat and "query" not in inputs and "sys.query" not in inputs:
            said, fix = "this workflow is a chat and needs a query", "Give the query: {inputs}."
            raise InputError(
                Problem("workflow.no-query", said, fix=fix, settings={"inputs": {"query": "..."}})
            )
        values: Values = {
            "sys": {**_system(inputs), **_scoped(inputs, "sys")},
            "env": {**environment, **_scoped(inputs, "env")},
            "conversation": {**copy.deepcopy(conversation), **_scoped(inputs, "conversation")},
        }
        for node_id, data in starts.items():
            readers = outputs[node_id].read
            unread = {name for name, by in readers.items() if all(one in mocked for one in by)}
            values[node_id] = _start_values(data, inputs, unread)
            if file.is_export:  # older exports read `sys.query` as a variable of the start node
                values[node_id] |= {f"sys.{name}": values["sys"].get(name) for name in ("query", "files")}
        return values

    return start


def _system(inputs: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in inputs.items() if "." not in name}
    defaults = {"query": "", "files": [], "conversation_id": "", "user_id": "", "dialogue_count": 1}
    return {**defaults, "app_id": "", "workflow_id": "", **plain}


def _scoped(inputs: Mapping[str, Any], scope: str) -> dict[str, Any]:
    start = f"{scope}."
    return {name[len(start) :]: value for name, value in inputs.items() if name.startswith(start)}


def _start_values(
    data: records.StartData, inputs: Mapping[str, Any], unread: Collection[str]
) -> dict[str, Any]:
    found = {}
    missing = []
    for variable in data.variables:
        value = inputs.get(variable.variable)
        if value is None or value == "":
            value = variable.default if variable.default not in (None, "") else value
        if value is None or (value == "" and variable.required):
            if variable.required and not (variable.variable in unread and variable.type in _FILES):
                missing.append(variable.variable)
                continue
            value = _nothing(variable.type)
        found[variable.variable] = _checked(variable, value)
    if missing:
        given = ", ".join(inputs) or "none"
        said = f"no value for the input {', '.join(missing)} (given: {given})"
        settings = {"inputs": dict.fromkeys(missing, "...")}
        raise InputError(Problem("workflow.no-input", said, fix="Add {inputs}.", settings=settings))
    return found


def _nothing(kind: str) -> Any:
    if kind.startswith(_LISTS):
        return []
    return {"number": None, "checkbox": False, "file": None, "json_object": None}.get(kind, "")


def _checked(variable: records.StartVariable, value: Any) -> Any:
    """Return a value as the type of its input needs it.

    Raises:
        InputError: If it does not fit.
    """
    name, kind = variable.variable, variable.type
    if value is None:
        return value
    if kind == "number" and not isinstance(value, bool):  # a tick counts as 1 to whom it is handed
        value = None if isinstance(value, str) and not value.strip() else _number(name, value)
    elif kind in ("checkbox", "boolean"):
        said = as_json_text(value).strip().lower()
        if said not in _TRUE + _FALSE:
            raise InputError(f"input {name} is {value!r}, expected true or false")
        value = said in _TRUE
    elif kind in ("json_object", "json", "object", "file-list") or kind.startswith("array"):
        value = _json(name, value)
        if kind.startswith(_LISTS) and not isinstance(value, list | tuple):
            raise InputError(f'input {name} is {_shown(value)}, expected a list, such as ["a", "b"]')
    elif kind in (*TEXT_TYPES, "select"):
        value = _text(variable, value)
    if kind == "select" and variable.options and value != "" and value not in variable.options:
        raise InputError(f"input {name} is {value!r}, expected one of: {', '.join(variable.options)}")
    longest = variable.max_length
    if kind in TEXT_TYPES and isinstance(value, str) and longest is not None and len(value) > longest:
        raise InputError(
            f"input {name} has {counted(len(value), 'character')}, at most {longest} are allowed"
        )
    return value


def _shown(value: Any) -> str:
    return cut_to(60, json.dumps(value, ensure_ascii=False, default=str))


def _text(variable: records.StartVariable, value: Any) -> Any:
    """Numbers, true and false as texts, and a conversation as the text of its turns.

    A list or a dict stays as it is if the file names no type. If the file names one for texts, it is an
    InputError.
    """
    if isinstance(value, int | float):
        return as_json_text(value)
    if not isinstance(value, list | tuple | dict) or "type" not in variable.model_fields_set:
        return value
    if (chat := as_conversation(value)) is not None:
        return transcript(chat.all_turns)
    kind = "json_object" if isinstance(value, dict) else "array[object]"
    raise InputError(
        f"input {variable.variable} is {_shown(value)}, expected a text. Give a text or a conversation, or "
        f"declare the variable as {kind}"
    )


def _number(name: str, value: Any) -> int | float:
    try:
        return as_number(value)
    except ComparisonError as error:
        shown = repr(value) if isinstance(value, str) else _shown(value)
        raise InputError(f"input {name} is {shown}, expected a number") from error


def _json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"input {name} is {value[:60]!r}, expected JSON ({error})") from error
