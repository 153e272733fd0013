"""Everything about a workflow that is wrong without running it: types, edges, cycles, models, data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from autoprompt.errors import Problem
from autoprompt.workflow.engine import extraction
from autoprompt.workflow.engine.conditions import ExpressionError, parse_expression
from autoprompt.workflow.engine.definition import (
    FAIL_BRANCH,
    LLM_TYPES,
    SOURCE,
    SUCCESS_BRANCH,
    canonical_type,
    known_types,
    node_type,
)
from autoprompt.workflow.engine.errors import (
    ExtractionError,
    InvalidVariableTypeError,
    ModelConfigNotFoundError,
    SourceNodeNotFoundError,
    VariableNotFoundError,
    WorkflowDefinitionError,
)
from autoprompt.workflow.engine.extraction import ExtractionSpec
from autoprompt.workflow.engine.variables import SCOPES
from autoprompt.workflow.file import model_records, records
from autoprompt.workflow.file.faults import Faults, Where
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.order import Order, chained, order
from autoprompt.workflow.file.reading import CONTAINER_TYPES, FileEdge, FileGraph, FileNode, WorkflowFile
from autoprompt.workflow.file.variables import kind_of, outputs

_INPUT_OF_MESSAGES = " For an input that is given a list of messages, declare `type: json_object`."


@dataclass(frozen=True)
class CheckedNode:
    """A node whose data could be read (None where not), with its virtual nodes by local id.

    record: what its type is handed: `data`, but for types of one's own with a record of their own.
    """

    file: FileNode
    data: NodeData | None
    virtual: Mapping[str, CheckedNode] = field(default_factory=dict)
    extracted: tuple[ExtractionSpec, ...] = ()
    record: BaseModel | None = None

    @property
    def id(self) -> str:
        return self.file.id


@dataclass(frozen=True)
class CheckedGraph:
    """One graph with what is known of it. container: the node that repeats it."""

    nodes: Mapping[str, CheckedNode]
    edges: tuple[FileEdge, ...]
    order: Order
    inner: Mapping[str, CheckedGraph]
    container: str | None = None


class Checker:
    """Reads the nodes of a workflow into records; what is wrong goes to `faults`."""

    def __init__(
        self,
        file: WorkflowFile,
        faults: Faults,
        *,
        needs_model: bool = True,
        given: Collection[str] = (),
    ) -> None:
        self.file, self.faults = file, faults
        self.mocked = frozenset(file.mocks) | frozenset(given)  # ids of nodes that do not run
        self.needs_model = needs_model
        self.unused: list[str] = []  # ids of nodes that cannot run
        self._places: dict[str, int] = {}  # id of a node -> how often it was seen

    def graph(self, graph: FileGraph, container: FileNode | None = None) -> CheckedGraph:
        nodes: dict[str, CheckedNode] = {}
        for node in graph.nodes:
            checked = self._node(node)
            if node.id not in nodes:
                nodes[node.id] = checked
        handles = {name: handles_of(node.data) for name, node in nodes.items() if node.data is not None}
        edges = self._edges(graph, nodes, handles, container)
        shape = order(graph, edges, handles)
        self._cycles(shape, nodes, edges)
        unused = [node_id for node_id in nodes if node_id not in shape.reached]
        if shape.reached:  # where everything is one cycle, nothing is
            self.unused += unused
        inner = {
            node.id: self.graph(node.inner, node)
            for node in graph.nodes
            if node.inner is not None and node.type in CONTAINER_TYPES
        }
        self._check_containers(graph)
        return CheckedGraph(nodes, edges, shape, inner, None if container is None else container.id)

    def _node(self, node: FileNode) -> CheckedNode:
        self._unique(node.id, node.where, node.id)
        if not node.is_known:
            self._unknown_type(node.type, (*node.where, "type"), node.id, node.data)
            return CheckedNode(node, None)
        return self._read(node)

    def _read(self, node: FileNode) -> CheckedNode:
        """Return the node with its virtual nodes, which may have some of their own."""
        raw, extracted = self._desugared(node)
        self._doubled_inputs(node)
        data, record = self._data(node.type, raw, node.data_where, node.id)
        virtual: dict[str, CheckedNode] = {}
        for place, entry in enumerate(data.virtual_nodes if data is not None else ()):
            self._virtual(node, entry.id, entry.type, entry.data, place, virtual)
        for spec in extracted:
            self._extracted(node, spec, virtual)
        if data is not None and node.id not in self.mocked:
            self._model(data, node)
            self._expressions(data, node)
        return CheckedNode(node, data, virtual, extracted, record)

    def _doubled_inputs(self, node: FileNode) -> None:
        """Report inputs of one name: only the last of them would have it."""
        entries = node.data.get("inputs")
        seen: set[str] = set()
        for place, entry in enumerate(entries if isinstance(entries, list) else ()):
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if isinstance(name, str) and name in seen:
                said = f"two inputs are named {name!r}. Rename one of them."
                problem = Problem("workflow.doubled-input", said)
                self.faults.add((*node.data_where, "inputs", place), problem, node.id)
            seen.add(str(name))

    def _desugared(self, node: FileNode) -> tuple[Mapping[str, Any], tuple[ExtractionSpec, ...]]:
        """Return the node's data with its extractions replaced by references to virtual nodes, and these."""
        try:
            raw, extracted = extraction.desugar(node.id, node.data)
        except WorkflowDefinitionError as error:
            said = str(error).removeprefix(f"node {node.id!r}: ")
            problem = Problem("workflow.extraction", said)
            self.faults.add((*node.data_where, "inputs"), problem, node.id)
            return {**node.data, "inputs": []}, ()
        return raw, tuple(extracted)

    def _extracted(self, parent: FileNode, spec: ExtractionSpec, found: dict[str, CheckedNode]) -> None:
        """Add the virtual node that an extraction stands for."""
        name = f"{parent.id}.{spec.local_id}"
        where = extraction_where(parent, spec.input_name)
        self.faults.count_nodes(1, where)
        self._unique(name, where, name)
        message = model_records.PromptMessage(role="user", text=spec.extraction_prompt)
        data = model_records.LLMData(title=spec.title, model=None, prompt_template=(message,))
        found[spec.local_id] = CheckedNode(FileNode(name, "llm", {}, where), data)

    def _virtual(
        self,
        parent: FileNode,
        local: str,
        kind: str,
        data: Mapping[str, Any],
        place: int,
        found: dict[str, CheckedNode],
    ) -> None:
        where: Where = (*parent.data_where, "virtual_nodes", place)
        self.faults.count_nodes(1, where)
        name = f"{parent.id}.{local}"
        self._unique(name, where, name)
        canonical = canonical_type(kind)
        if canonical not in known_types() or canonical in ("start", "end", "answer", *CONTAINER_TYPES):
            self._unknown_type(kind, (*where, "type"), name, {})
            return
        found[local] = self._read(FileNode(name, canonical, data, where))

    def _unique(self, node_id: str, where: Where, name: str) -> None:
        line = self.faults.line(where)
        if node_id in self._places:
            first = self._places[node_id]
            at = f" on line {first}" if first else ""
            self.faults.add(where, f"this id is used{at} already. Give the node another one.", name)
        elif node_id in SCOPES:
            self.faults.add(
                where, f"this id is reserved ({', '.join(SCOPES)}). Give the node another one.", name
            )
        self._places.setdefault(node_id, line)

    def _unknown_type(self, kind: str, where: Where, node_id: str, data: Mapping[str, Any]) -> None:
        close = difflib.get_close_matches(kind, known_types(), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        at = (*where[:-1], "data", "type") if "type" in data else where
        self.faults.add(at, f"unknown type {kind!r}.{hint} Known types: {', '.join(known_types())}.", node_id)

    def _data(
        self, kind: str, raw: Mapping[str, Any], where: Where, node_id: str
    ) -> tuple[NodeData | None, BaseModel | None]:
        """Return what every node may say, and what the type is handed; for all of ours one record."""
        model = node_type(kind, may_be_newer=self.file.is_export).data_model
        try:
            record = model.model_validate(raw)
            return record if isinstance(record, NodeData) else NodeData.model_validate(raw), record
        except ValidationError as error:
            self.faults.add_invalid(where, error, model, node_id)
            return None, None

    def _model(self, data: NodeData, node: FileNode) -> None:
        if (
            not self.needs_model
            or not isinstance(data, model_records.ModelNodeData)
            or data.model is not None
        ):
            return
        self.faults.add(
            node.data_where,
            "no model. Add `model: {provider: ..., name: ...}`, give the run a model for all, or a mock.",
            node.id,
        )

    def _expressions(self, data: NodeData, node: FileNode) -> None:
        texts: list[tuple[str, Where]] = []
        if isinstance(data, records.IfElseData):
            texts = [(case.expression, ("cases", place)) for place, case in enumerate(data.cases)]
        elif isinstance(data, records.LoopData):
            texts = [(data.break_expression, ("break_expression",))]
        for text, where in texts:
            try:
                if text:
                    parse_expression(text)
            except ExpressionError as error:
                self.faults.add((*node.data_where, *where), str(error), node.id)

    def _edges(
        self,
        graph: FileGraph,
        nodes: Mapping[str, CheckedNode],
        handles: Mapping[str, Sequence[str]],
        container: FileNode | None,
    ) -> tuple[FileEdge, ...]:
        sound = []
        for edge in chained(graph, handles):
            missing = [end for end in (edge.source, edge.target) if end not in nodes]
            for end in missing:
                self._dangling(edge, end, nodes, container)
            if not missing:
                sound.append(edge)
                self._handle(edge, nodes[edge.source])
        return tuple(sound)

    def _dangling(
        self, edge: FileEdge, end: str, nodes: Mapping[str, CheckedNode], container: FileNode | None
    ) -> None:
        inside = "" if container is None else f" inside of {container.id!r}"
        close = difflib.get_close_matches(end, list(nodes), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        where = (*edge.where, "source" if end == edge.source else "target")
        known = ", ".join(nodes) if len(nodes) <= 20 else f"{len(nodes)} others"
        self.faults.add(
            where,
            f"edge {edge.source!r} -> {edge.target!r}: no node {end!r}{inside}.{hint} Known nodes: {known}.",
            edge.source if edge.source in nodes else None,
        )

    def _handle(self, edge: FileEdge, source: CheckedNode) -> None:
        if source.data is None:
            return
        allowed = handles_of(source.data)
        if allowed and edge.handle not in allowed:
            # Editors leave such edges behind when a case is taken out; they are never taken.
            self.faults.add(
                edge.where,
                f"edge to {edge.target!r} leaves by {edge.handle!r}, which this node does not have, so it is "
                f"never taken. Known handles: {', '.join(allowed)}.",
                source.id,
                severity="warning",
            )

    def _cycles(self, shape: Order, nodes: Mapping[str, CheckedNode], edges: Sequence[FileEdge]) -> None:
        for knot in shape.cycles:
            inside = set(knot)
            edge = next(edge for edge in edges if edge.source in inside and edge.target in inside)
            path = " -> ".join((*knot, knot[0]))
            line = self.faults.line(edge.where)  # 0 for a workflow that is in no file
            at = f" (one of its edges is on line {line})" if line else ""
            self.faults.add(
                nodes[knot[0]].file.where,
                f"a cycle: {path}{at}. Take an edge out, or repeat steps with a node of type loop or "
                "iteration.",
                knot[0],
            )

    def _check_containers(self, graph: FileGraph) -> None:
        for node in graph.nodes:
            if node.type in CONTAINER_TYPES and (node.inner is None or not node.inner.nodes):
                self.faults.add(
                    node.data_where,
                    f"no nodes inside of this {node.type}. List them under `nodes:` in its data, or give "
                    "them its id as `parentId`.",
                    node.id,
                )
            elif node.inner is not None and node.is_known and node.type not in CONTAINER_TYPES:
                self.faults.add(
                    node.where, f"a {node.type} node cannot hold other nodes; loop and iteration do.", node.id
                )


def handles_of(data: NodeData | None) -> tuple[str, ...]:
    """Return the ways out of a branch, or of a node that handles its failure; () for a node with one way."""
    if isinstance(data, records.IfElseData):
        return (*dict.fromkeys([case.case_id for case in data.cases]), "false")
    own: tuple[str, ...] = ()
    if isinstance(data, records.HumanInputData) and data.actions:
        own = (*data.actions, records.TIMEOUT)
    if isinstance(data, model_records.ClassifierData):
        own = tuple(dict.fromkeys(entry.id for entry in data.classes))
    if data is not None and data.error_strategy == FAIL_BRANCH:
        return (*(own or (SOURCE, SUCCESS_BRANCH)), FAIL_BRANCH)
    return own


def check_extractions(checker: Checker, nodes: Iterable[CheckedNode]) -> None:
    """Report extractions whose source is no node, no list of messages, or has no model to go by."""
    by_id = {node.id: node for node in nodes}
    raw = {node_id: node.file.data for node_id, node in by_id.items()}
    types = {node_id: node.file.type for node_id, node in by_id.items()}
    parents = {virtual.id: node for node in by_id.values() for virtual in node.virtual.values()}
    for checked in by_id.values():
        for spec in checked.extracted:
            name = f"{checked.id}.{spec.local_id}"
            if name in checker.mocked:
                continue
            source = _local(spec.source_node_id, checked, parents)
            own = spec if source is None else spec.model_copy(update={"source_node_id": source.id})
            error = extraction.check(own, raw, types)
            if error is None or isinstance(error, ModelConfigNotFoundError):
                error = _no_messages(own, by_id) or error
            if isinstance(error, ModelConfigNotFoundError) and not checker.needs_model:
                continue
            if error is not None:
                source_data = by_id[own.source_node_id].data if own.source_node_id in by_id else None
                is_input = isinstance(error, InvalidVariableTypeError) and isinstance(
                    source_data, records.StartData
                )
                said = error.reason + (_INPUT_OF_MESSAGES if is_input else "")
                missing = error.node_id if isinstance(error, SourceNodeNotFoundError) else None
                problem = Problem("workflow.extraction", said)
                if missing is not None:
                    problem = Problem("workflow.no-source-node", said)
                where = extraction_where(checked.file, spec.input_name)
                checker.faults.add(where, problem, name, missing_source=missing)
        known = {*by_id, *_local_ids(checked, parents)}
        for input_name, fault in extraction.malformed(checked.file.data, known):
            where = extraction_where(checked.file, input_name)
            checker.faults.add(where, Problem("workflow.extraction", f"{input_name}: {fault}"), checked.id)


def _local_ids(reader: CheckedNode, parents: Mapping[str, CheckedNode]) -> Iterator[str]:
    """Yield the ids by which a node may call virtual nodes of its own, or beside it."""
    around: CheckedNode | None = reader
    while around is not None:
        yield from around.virtual
        around = parents.get(around.id)


def _local(name: str, reader: CheckedNode, parents: Mapping[str, CheckedNode]) -> CheckedNode | None:
    """Return the virtual node that a node calls by its local id: its own one, or one beside it."""
    around: CheckedNode | None = reader
    while around is not None:
        if name in around.virtual:
            return around.virtual[name]
        around = parents.get(around.id)
    return None


def _no_messages(spec: ExtractionSpec, nodes: Mapping[str, CheckedNode]) -> ExtractionError | None:
    """Return a source whose variable is a list of messages in no run."""
    source = nodes[spec.source_node_id]
    given = (spec.source_node_id, spec.source_variable)
    if source.file.type in LLM_TYPES and spec.source_variable != "context":
        return InvalidVariableTypeError(given, str)
    if source.data is None:
        return None
    known = outputs(source.data)
    if known is not None and spec.source_variable not in known:
        return VariableNotFoundError(given, [f"{spec.source_node_id}.{name}" for name in sorted(known)])
    kind = kind_of(source.data, spec.source_variable)
    return None if kind is None else InvalidVariableTypeError(given, kind)


def extraction_where(node: FileNode, input_name: str) -> Where:
    """Return the place of the input that an extraction gives its value to, as near as the file tells."""
    for name in ("inputs", "variables"):
        entries = node.data.get(name)
        for place, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, Mapping) and input_name in (entry.get("name"), entry.get("variable")):
                return (*node.data_where, name, place)
    for name in ("inputs", "tool_parameters", "agent_parameters"):
        holder = node.data.get(name)
        if isinstance(holder, Mapping) and input_name in holder:
            return (*node.data_where, name, input_name)
    return node.data_where
