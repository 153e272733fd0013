"""A workflow's file as a tree of nodes and edges: the short form and Dify's export come out alike.

Notes, positions and other matters of an editor are left out, and so are the start nodes inside of iterations
and loops: an inner graph starts where they lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoprompt.settings.yaml_file import YamlFile, open_yaml
from autoprompt.workflow.engine.definition import canonical_type, known_types
from autoprompt.workflow.file import apps
from autoprompt.workflow.file.faults import Faults, Where
from autoprompt.workflow.file.fields import empty_value, typed_value

CONTAINER_TYPES = frozenset({"iteration", "loop"})
_INNER_STARTS = frozenset({"iteration-start", "loop-start"})
_CHAT = "advanced-chat"
_GRAPH_MODES = ("workflow", _CHAT)
_PIPELINE = "rag-pipeline"
_NO_PIPELINE = (
    "a knowledge pipeline (mode 'rag-pipeline') fills a knowledge base in Dify and answers no input, so it "
    "does not run here. Export the app that asks the knowledge base."
)
OF_THE_RUN = "allow_private_hosts"  # a file that could set it would open this machine to itself
NOT_OF_A_FILE = f"{OF_THE_RUN} is a setting of the run. Remove it from the file, and give it to the run."
_NO_KNOWLEDGE = "the knowledge of this app stays in Dify. The agent works without it."
_NO_QUESTION = (
    "{{#query#}} in a message is text for Dify, which sends the question as a message of its own, the last "
    "one. Remove it."
)
_EXPECTED = "Give a workflow: a list under `nodes:`, or an export with `kind: app`."


@dataclass(frozen=True)
class FileNode:
    """One node as it is written. where: path of its `data` in the file. inner: what a container repeats.

    is_known: whether `type` is one of ours; `type` is as written where it is not.
    holds_turns: whether the file has a place for demonstrations as turns of a chat: in Dify's exports only
        the list of an llm's messages is one.
    """

    id: str
    type: str
    data: Mapping[str, Any]
    where: Where
    is_known: bool = True
    inner: FileGraph | None = None
    holds_turns: bool = True

    @property
    def data_where(self) -> Where:
        return (*self.where, "data")


@dataclass(frozen=True)
class FileEdge:
    source: str
    target: str
    handle: str
    where: Where


@dataclass(frozen=True)
class FileGraph:
    """edges: None where the file gives none, so that the nodes run in the order of the list.

    starts: ids of the nodes that the file says are first; empty: those that nothing leads to.
    """

    nodes: tuple[FileNode, ...]
    edges: tuple[FileEdge, ...] | None
    starts: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileVariable:
    """A variable of the environment or the conversation, with its first value."""

    name: str
    value: Any
    value_type: str
    where: Where

    @property
    def first_value(self) -> Any:
        """Its value at the start of a run.

        Raises:
            ValueError: The value is not of the variable's type.
        """
        kind = self.value_type.lower()
        if self.value is None:
            return empty_value(kind or "string")
        return typed_value(self.value, kind, f"variable {self.name!r}")


@dataclass(frozen=True)
class WorkflowFile:
    """One workflow as it is written.

    mode: "advanced-chat" if the export is a chat, which is asked with a query. is_export: of Dify.
    """

    name: str
    mode: str
    graph: FileGraph
    environment: tuple[FileVariable, ...] = ()
    conversation: tuple[FileVariable, ...] = ()
    mocks: Mapping[str, Any] = field(default_factory=dict)
    mocks_where: Where = ("mocks",)
    tools: Mapping[str, Any] = field(default_factory=dict)
    is_export: bool = False

    @property
    def is_chat(self) -> bool:
        return self.mode == _CHAT


def read_workflow(source: Path | Mapping[str, Any]) -> tuple[WorkflowFile, Faults]:
    """Read the workflow of a file, or of its content, and what is wrong with its outer form.

    Raises:
        ConfigError: The file is not YAML; the error names file and line.
    """
    if isinstance(source, Mapping):
        return _Reader(source, Faults()).workflow("workflow")
    file: YamlFile = open_yaml(source, _EXPECTED)
    return _Reader(file.data, Faults(file)).workflow(source.stem)


class _Reader:
    def __init__(self, data: Mapping[str, Any], faults: Faults) -> None:
        self._data, self._faults = data, faults
        self._is_app = False

    def workflow(self, name: str) -> tuple[WorkflowFile, Faults]:
        data, faults = self._data, self._faults
        app: Mapping[str, Any] = data["app"] if isinstance(data.get("app"), Mapping) else {}
        mode = str(app.get("mode") or data.get("mode") or "workflow")
        if mode in apps.MODES and isinstance(data.get(apps.CONFIG), Mapping):
            self._is_app = True
            return self._app(data[apps.CONFIG], mode, str(app.get("name") or name)), faults
        is_export = isinstance(data.get("workflow"), Mapping)
        base: Where = ("workflow",) if is_export else ()
        body: Mapping[str, Any] = data["workflow"] if is_export else data
        graph_where: Where = (*base, "graph") if isinstance(body.get("graph"), Mapping) else base
        graph = body["graph"] if isinstance(body.get("graph"), Mapping) else body
        if mode in apps.MODES and app:
            said = f"an app of mode {mode!r} without {apps.CONFIG}. Export the app from Dify again."
            faults.add(("app", "mode"), said)
        elif mode == _PIPELINE:
            faults.add(("app", "mode"), _NO_PIPELINE)
        elif mode not in _GRAPH_MODES and (app or is_export):
            known = ", ".join((*_GRAPH_MODES, *apps.MODES))
            faults.add(("app", "mode"), f"an app of mode {mode!r}, expected one of {known}. {_EXPECTED}")
        elif not isinstance(graph.get("nodes"), list) or not graph["nodes"]:
            faults.add((*graph_where, "nodes"), f"no nodes. {_EXPECTED}")
        if OF_THE_RUN in data:
            faults.add((OF_THE_RUN,), NOT_OF_A_FILE, is_key=True)
        file = WorkflowFile(
            name=str(app.get("name") or data.get("name") or name),
            mode=mode,
            graph=self._graph(graph, graph_where, is_export),
            environment=self._variables(body, base, "environment_variables"),
            conversation=self._variables(body, base, "conversation_variables"),
            mocks=self._mapping("mocks"),
            tools=self._mapping("tools"),
            is_export=is_export,
        )
        return file, faults

    def _app(self, config: Mapping[str, Any], mode: str, name: str) -> WorkflowFile:
        """Return an app without a graph. Its faults are those of its settings."""
        where: Where = (apps.CONFIG,)
        app = apps.App(config, mode)
        places = app.places
        self._faults.move({(*where, *path): (*where, *written) for path, written in places.items()})
        if app.is_agent and app.dataset_ids:
            self._faults.add(where, _NO_KNOWLEDGE, severity="warning")
        if app.has_unfilled_question:
            self._faults.add((*where, app.prompt_key), _NO_QUESTION, severity="warning")
        return WorkflowFile(
            name=name,
            mode=_CHAT if app.is_chat else "workflow",
            graph=self._graph(app.graph, where, True),
            mocks=self._mapping("mocks"),
            tools=self._mapping("tools"),
            is_export=True,
        )

    def _mapping(self, name: str) -> Mapping[str, Any]:
        value = self._data.get(name)
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._faults.add((name,), f"{name} is not a mapping. Write it as lines `NAME: VALUE`.")
        return {}

    def _variables(self, body: Mapping[str, Any], base: Where, name: str) -> tuple[FileVariable, ...]:
        value = body.get(name) or []
        where = (*base, name)
        if isinstance(value, Mapping):
            return tuple(FileVariable(str(k), v, "", (*where, str(k))) for k, v in value.items())
        if not isinstance(value, list):
            self._faults.add(
                where,
                f"{name} is not a list. Write entries with name, value_type and value.",
            )
            return ()
        found = []
        for place, entry in enumerate(value):
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
                self._faults.add((*where, place), f"a variable without a name in {name}. Give it one.")
                continue
            kind = str(entry.get("value_type") or "")
            found.append(FileVariable(entry["name"], entry.get("value"), kind, (*where, place)))
        return tuple(found)

    def _graph(self, graph: Mapping[str, Any], where: Where, is_export: bool) -> FileGraph:
        nodes: list[tuple[FileNode, str | None]] = []
        dropped: set[str] = set()  # notes, and inner starts
        starts: dict[str, list[str]] = {}
        listed = graph.get("nodes")
        if isinstance(listed, list):
            self._faults.count_nodes(len(listed), (*where, "nodes"))
        for place, entry in enumerate(listed if isinstance(listed, list) else []):
            node_where: Where = (*where, "nodes", place)
            node, parent = self._node(entry, node_where, is_export)
            if node is None:
                dropped.update(_id_of(entry))
                continue
            if is_export:
                has_messages = node.type == "llm" and isinstance(node.data.get("prompt_template"), list)
                node = replace(node, holds_turns=has_messages and not self._is_app)
            if canonical_type(node.type) in _INNER_STARTS:
                dropped.add(node.id)
                continue
            if parent is not None and node.data.get("isIterationStart") is True:
                starts.setdefault(parent, []).append(node.id)
            nodes.append((node, parent))
        edges = self._edges(graph.get("edges"), (*where, "edges"))
        for edge in edges or ():
            if edge.source in dropped and (parent := _parent_of(edge.target, nodes)) is not None:
                starts.setdefault(parent, []).append(edge.target)
        kept = None if edges is None else [edge for edge in edges if edge.source not in dropped]
        if is_export and kept is None:
            kept = []
        return self._nested(nodes, kept, starts)

    def _nested(
        self,
        nodes: Sequence[tuple[FileNode, str | None]],
        edges: Sequence[FileEdge] | None,
        starts: Mapping[str, Sequence[str]],
        parent: str | None = None,
        depth: int = 0,
    ) -> FileGraph:
        """Return the nodes of one container, with the containers among them filled."""
        own = [node for node, above in nodes if above == parent]
        ids = {node.id for node in own}
        containers = {above for _, above in nodes}
        filled = []
        for node in own:
            if node.inner is None and node.id in containers and depth < 20:
                node = replace(node, inner=self._nested(nodes, edges, starts, node.id, depth + 1))
            filled.append(node)
        inside = {node.id for node, above in nodes if above is not None and above != parent}
        mine = None
        if edges is not None:
            # An edge belongs to the graph of its source; one from nowhere to the outermost.
            mine = tuple(
                edge for edge in edges if edge.source in ids or (parent is None and edge.source not in inside)
            )
        return FileGraph(tuple(filled), mine, tuple(dict.fromkeys(starts.get(parent or "", ()))))

    def _node(self, entry: Any, where: Where, is_export: bool) -> tuple[FileNode | None, str | None]:
        if not isinstance(entry, Mapping):
            self._faults.add(where, "a node is not a mapping. Give it id, type and data.")
            return None, None
        data = entry.get("data")
        if data is not None and not isinstance(data, Mapping):
            self._faults.add((*where, "data"), f"data is {data!r}, expected a mapping.")
        data = data if isinstance(data, Mapping) else {}
        written = data.get("type") if data.get("type") is not None else entry.get("type")
        if entry.get("type") == "custom-note" or (written == "" and "text" in data):
            return None, None
        node_id = entry.get("id")
        if not isinstance(node_id, str | int) or isinstance(node_id, bool) or not str(node_id).strip():
            self._faults.add(where, f"a node without an id (type {written!r}). Give it one.")
            return None, None
        name = str(node_id)
        if not isinstance(written, str):
            self._faults.add(where, f"no type. Known types: {', '.join(known_types())}.", name)
            written = "unknown"
        kind = canonical_type(written)
        parent = entry.get("parentId") or data.get("iteration_id") or data.get("loop_id")
        if kind in CONTAINER_TYPES and isinstance(data.get("nodes"), list):
            inner = self._graph(data, (*where, "data"), False)
        else:
            inner = None
        is_known = kind in known_types() or is_export  # Dify writes no type that is none; it may be newer
        node = FileNode(name, kind if is_known else written, data, where, is_known, inner)
        return node, None if parent is None else str(parent)

    def _edges(self, value: Any, where: Where) -> list[FileEdge] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            self._faults.add(where, "edges is not a list. Write entries with source and target.")
            return []
        found = []
        for place, entry in enumerate(value):
            edge_where = (*where, place)
            if isinstance(entry, list | tuple) and len(entry) in (2, 3):
                entry = dict(zip(("source", "target", "sourceHandle"), entry, strict=False))
            if not isinstance(entry, Mapping) or not entry.get("source") or not entry.get("target"):
                self._faults.add(edge_where, "an edge without source and target. Give both.")
                continue
            handle = entry.get("sourceHandle", entry.get("source_handle"))
            if isinstance(handle, bool):
                handle = "true" if handle else "false"
            found.append(
                FileEdge(str(entry["source"]), str(entry["target"]), str(handle or "source"), edge_where)
            )
        return found


def _id_of(entry: Any) -> tuple[str, ...]:
    return (str(entry["id"]),) if isinstance(entry, Mapping) and entry.get("id") is not None else ()


def _parent_of(node_id: str, nodes: Sequence[tuple[FileNode, str | None]]) -> str | None:
    return next((parent for node, parent in nodes if node.id == node_id), None)
