"""A workflow as the engine sees it, from YAML or from Python: nodes, their types, edges, prompt texts."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from autoprompt.workflow.engine.errors import UnknownNodeTypeError
from autoprompt.workflow.engine.variables import VariablePool

SOURCE = "source"  # the handle of an edge that leaves a node by its only way out
LLM_TYPES = ("llm", "agent", "question-classifier", "parameter-extractor")  # ask a model, put out a `context`
FAIL_BRANCH, SUCCESS_BRANCH = "fail-branch", "success-branch"


ErrorStrategy = Literal["fail-branch", "default-value"]


class RetryConfig(BaseModel):
    """How often a failed node is tried again. retry_interval: milliseconds between attempts."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    max_retries: int = Field(default=0, ge=0)
    retry_interval: float = Field(default=0, ge=0)
    retry_enabled: bool = True

    @property
    def retries(self) -> int:
        return self.max_retries if self.retry_enabled else 0

    @property
    def interval_s(self) -> float:
        return self.retry_interval / 1000


class Mock(BaseModel):
    """outputs: what the node puts out. errors: raised first, one an attempt. delay_s: before each attempt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outputs: dict[str, Any] = Field(default_factory=dict)
    errors: tuple[str, ...] = ()
    delay_s: Annotated[float, Field(ge=0)] = 0.0


class AnyData(BaseModel):
    """The data of a node type that names no record of its own: all of it, as it is written."""

    model_config = ConfigDict(extra="allow")

    title: str = ""
    desc: str | None = None
    inputs: Any = None


@dataclass(frozen=True)
class NodeResult:
    """What a node hands back.

    edge_handle: the way out that it takes. metadata: total_tokens, total_price, currency.
    goto, removed: of Python classes: the node that runs next; names taken out of the context.
    """

    outputs: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    process_data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    edge_handle: str = SOURCE
    goto: str | None = None
    removed: tuple[str, ...] = ()

    @property
    def llm_usage(self) -> dict[str, Any] | None:
        """Tokens and price of the node's requests; None for a node that sent none."""
        usage = self.process_data.get("usage")
        if not isinstance(usage, Mapping):
            return None
        return {**usage, **{name: self.metadata.get(name) for name in ("total_price", "currency")}}


@dataclass(frozen=True, eq=False)
class NodeOutputs:
    """What a node gives to others, as far as its file tells.

    known: names of its outputs; None if only a run can tell. aliases: further names that a mock may give.
    read: output -> ids of the nodes that read it.
    """

    known: frozenset[str] | None = None
    aliases: frozenset[str] = frozenset()
    read: Mapping[str, Collection[str]] = field(default_factory=dict)

    def lacking(self, given: Collection[str], mocked: Collection[str]) -> dict[str, str]:
        """Return each output that is read and not given, with the id of a node that reads it.

        Args:
            mocked: Ids of nodes that do not run.
        """
        readers = {name: [one for one in by if one not in mocked] for name, by in self.read.items()}
        return {name: by[0] for name, by in readers.items() if by and name not in given}

    def is_unknown(self, name: str) -> bool:
        """Return whether the node has no output of this name in any run, as far as its file tells."""
        return self.known is not None and name not in self.known | self.aliases


class NodeType(Protocol):
    """What nodes of one type do. One object serves all nodes; safe to call from several threads at once.

    context: the `NodeContext` of one run of a node. It holds a `GraphNode`, so its type is not named here.
    """

    @property
    def takes_outputs(self) -> bool:
        """Whether inputs named `NODE.OUTPUT` stand in for a node, as a mock does."""
        ...

    @property
    def data_model(self) -> type[BaseModel]:
        """What its data is read into, besides what every node may say (`spec.fields.NodeData`)."""
        ...

    def execute(self, data: Any, context: Any) -> NodeResult:
        """Do the node's work once. Any exception fails this attempt; retries are the engine's."""
        ...

    def read_given(self, data: Any, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs of a mock or a row as the node puts them out.

        Raises:
            ValueError: A value does not fit its output.
        """
        ...

    def mocked(self, data: Any, context: Any, outputs: Mapping[str, Any]) -> NodeResult:
        """Return the result with `outputs` given instead of made, as `read_given` has read them."""
        ...

    def component_texts(self, data: Any) -> Mapping[str, str]:
        """Return the prompt texts of a node by role, such as `system`; empty for nodes without prompts."""
        ...


class NodeTypeBase:
    """What most node types share."""

    data_model: type[BaseModel] = AnyData
    takes_outputs = False

    def read_given(self, data: Any, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return outputs

    def mocked(self, data: Any, context: Any, outputs: Mapping[str, Any]) -> NodeResult:
        return NodeResult(outputs=dict(outputs))

    def component_texts(self, data: Any) -> Mapping[str, str]:
        return {}


class GivenInput(Protocol):
    """A value that a node is given.

    type: "variable" if `value` is a selector; otherwise `value` is filled in where it has references.
    """

    @property
    def type(self) -> str: ...

    @property
    def value(self) -> Any: ...


class NamedInput(GivenInput, Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, eq=False)
class ExtractionSource:
    """Where a virtual node takes its conversation from, for events and records."""

    selector: tuple[str, ...]
    prompt: str

    @property
    def name(self) -> str:
        return ".".join(self.selector)


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One node, ready to run.

    id: unique in its workflow; `parent.local` for a virtual one. retry: None if the file does not name it.
    default_values: outputs under the strategy `default-value`. inputs: further values by name, resolved
    before each run. children: its virtual nodes, in order.
    inner: what a container repeats. scope: where its outputs go in the pool; default: under its id.
    outputs: what it gives to others.
    holds_turns: whether demonstrations of it can be written as turns in the file that it is from.
    """

    id: str
    type: str
    title: str
    executor: NodeType
    data: Any
    retry: RetryConfig | None = None
    error_strategy: ErrorStrategy | None = None
    default_values: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[NamedInput, ...] = ()
    children: tuple[VirtualNode, ...] = ()
    inner: Definition | None = None
    locked: bool = False
    scope: str | None = None
    holds_turns: bool = True
    outputs: NodeOutputs = NodeOutputs()

    @property
    def local_ids(self) -> dict[str, str]:
        return {child.local_id: child.node.id for child in self.children}

    @property
    def retries(self) -> int:
        return self.retry.retries if self.retry is not None else 0


@dataclass(frozen=True, eq=False)
class VirtualNode:
    """A node that runs as a part of its parent.

    failed_value: what the parent sees of it when it has failed and the parent's strategy is `default-value`.
    """

    local_id: str
    node: GraphNode
    source: ExtractionSource | None = None
    failed_value: Any = ""


@dataclass(frozen=True)
class GraphEdge:
    """handle: the way out of the source that leads here; see `NodeResult.edge_handle`."""

    source: str
    target: str
    handle: str = SOURCE


def _inputs_as_start(inputs: Mapping[str, Any], _mocked: Collection[str]) -> dict[str, dict[str, Any]]:
    return {"start": dict(inputs)}


def _last_outputs(pool: VariablePool, ran: Sequence[str]) -> dict[str, Any]:
    return dict(pool.values.get(ran[-1], {})) if ran else {}


@dataclass(frozen=True, eq=False)
class Definition:
    """nodes: those that can be reached, the first to run first. edges: None for list order with jumps.

    start: the first values of the pool, from the inputs of a run and the ids of nodes that are mocked, whose
        inputs may be missing; raises InputError.
    result: the result, from the pool and the ids of the nodes that ran, in order.
    is_chat: whether a run is a question of a chat, `query`.
    mocks: those that the file itself brings.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...] | None = None
    name: str = "workflow"
    start: Callable[[Mapping[str, Any], Collection[str]], dict[str, dict[str, Any]]] = _inputs_as_start
    result: Callable[[VariablePool, Sequence[str]], dict[str, Any]] = _last_outputs
    is_chat: bool = False
    mocks: Mapping[str, Mock] = field(default_factory=dict)

    def all_nodes(self) -> Iterator[GraphNode]:
        """Yield every node, virtual and inner ones too: children before their parent, inner ones after it."""
        for node in self.nodes:
            for child in node.children:
                yield from Definition((child.node,)).all_nodes()
            yield node
            if node.inner is not None:
                yield from node.inner.all_nodes()


def components(definition: Definition) -> dict[str, str]:
    """Return every prompt text of a workflow, virtual and inner nodes included, by name."""
    return {
        component_name(node.id, role): text
        for node in definition.all_nodes()
        for role, text in node.executor.component_texts(node.data).items()
    }


def locked_components(definition: Definition) -> tuple[str, ...]:
    """Return the names of the texts that must stay as they are, as their nodes say."""
    return tuple(
        component_name(node.id, role)
        for node in definition.all_nodes()
        for role in node.executor.component_texts(node.data)
        if node.locked
    )


def role_names(roles: Iterable[str]) -> list[str]:
    """Return one name for each role: ["system", "user", "user"] -> ["system", "user", "user2"]."""
    seen: Counter[str] = Counter()
    names = []
    for role in roles:
        seen[role] += 1
        names.append(role if seen[role] == 1 else f"{role}{seen[role]}")
    return names


def component_name(node_id: str, role: str) -> str:
    return f"{node_id}.{role}"


# Type -> the module of the package `nodes` that holds it, and its class. By name: each is imported when it is
# used.
_PACKAGE = "autoprompt.workflow.nodes"
_HOMES = {
    "start": "values:Start",
    "end": "values:End",
    "answer": "values:Answer",
    "llm": "llm:LLM",
    "tool": "calls:ToolNode",
    "code": "calls:Code",
    "template-transform": "values:TemplateTransform",
    "question-classifier": "llm:QuestionClassifier",
    "parameter-extractor": "llm:ParameterExtractor",
    "agent": "agent:Agent",
    "if-else": "control:IfElse",
    "variable-aggregator": "values:VariableAggregator",
    "assigner": "values:Assigner",
    "iteration": "control:Iteration",
    "loop": "control:Loop",
    "loop-end": "control:LoopEnd",
    "http-request": "calls:HttpRequestNode",
    "list-operator": "values:ListOperator",
    "knowledge-retrieval": "dify_only:KnowledgeRetrieval",
    "document-extractor": "dify_only:DocumentExtractor",
    "human-input": "dify_only:HumanInput",
    "external-data-tool": "dify_only:ExternalData",
    "datasource": "dify_only:DifyOnly",
    "datasource-empty": "dify_only:DifyOnly",
    "knowledge-index": "dify_only:DifyOnly",
    "trigger-webhook": "dify_only:DifyOnly",
    "trigger-schedule": "dify_only:DifyOnly",
    "trigger-plugin": "dify_only:DifyOnly",
}
_NEWER = "dify_only:DifyOnly"  # what a type of an export that is newer than this program is taken for
_OLDER_NAMES = {"variable-assigner": "variable-aggregator", "http": "http-request"}
_own: dict[str, NodeType] = {}


def canonical_type(name: str) -> str:
    """Return the one name of a type: `If_Else` and `if-else` are one, and so are older names and today's."""
    plain = name.strip().lower().replace("_", "-")
    return _OLDER_NAMES.get(plain, plain)


def known_types() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_HOMES, *_own)))


def register_node_type(name: str, node_type: NodeType) -> None:
    """Add a node type of one's own, or replace one. See `NodeType` for what it must do."""
    _own[canonical_type(name)] = node_type


def node_type(name: str, *, may_be_newer: bool = False) -> NodeType:
    """Return the node type of a name.

    Args:
        may_be_newer: Take an unknown name for a type of a newer Dify, as in a file that Dify has exported.

    Raises:
        UnknownNodeTypeError: No type has this name.
    """
    name = canonical_type(name)
    if name in _own:
        return _own[name]
    if name not in _HOMES and not may_be_newer:
        raise UnknownNodeTypeError(name, known_types())
    return _imported_type(_HOMES.get(name, _NEWER))


@cache
def _imported_type(home: str) -> NodeType:
    module, _, name = home.partition(":")
    found: NodeType = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)()
    return found
