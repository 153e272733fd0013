"""A workflow as Python uses it: run, stream, resume, check, draw."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from autoprompt.errors import InputError
from autoprompt.runs import RunFolder, RunStore
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow.engine import runner
from autoprompt.workflow.engine.definition import (
    SOURCE,
    SUCCESS_BRANCH,
    Definition,
    GraphEdge,
    GraphNode,
    components,
    locked_components,
)
from autoprompt.workflow.engine.errors import WorkflowDefinitionError
from autoprompt.workflow.engine.events import (
    Event,
    GraphRunFailed,
    GraphRunPartialSucceeded,
    GraphRunSucceeded,
)
from autoprompt.workflow.engine.executions import plain
from autoprompt.workflow.engine.mocks import stand_ins
from autoprompt.workflow.engine.runner import RunSettings
from autoprompt.workflow.python.base import BaseNode, sequence_definition

if TYPE_CHECKING:
    from autoprompt.workflow.file.faults import Fault

DEFAULT_RUNS_DIR = Path("runs")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
OnEvent = Callable[[Event], None]


class Workflow:
    """Steps that run as one LangGraph graph.

    Args:
        nodes: In the order in which they run; a node may name the one that runs next (`next_node_id`).
        edges: (id, id) pairs instead of the order. Nodes without an edge between them run side by side, and a
            node with several before it waits for all of them.

    Raises:
        WorkflowDefinitionError: There are no nodes, two have one id, an unknown id is named, or the edges
            go in a circle. It is also a ValueError.
    """

    def __init__(
        self,
        nodes: Sequence[BaseNode],
        edges: Sequence[tuple[str, str]] | None = None,
        *,
        name: str = "workflow",
    ) -> None:
        self._definition = sequence_definition(nodes, edges, name=name)
        self._source: Path | None = None

    @classmethod
    def of(cls, definition: Definition, source: Path | None = None) -> Workflow:
        """Return the workflow of a definition, and of the file that it is from."""
        workflow = cls.__new__(cls)
        workflow._definition, workflow._source = definition, source
        return workflow

    @classmethod
    def load(cls, file: str | Path | Mapping[str, Any]) -> Workflow:
        """Load the workflow of a YAML file, or of its content: a Dify export, or the short form.

        Raises:
            WorkflowDefinitionError: The file has faults; the error lists them with file, line and node.
            ConfigError: The file is not YAML.
        """
        from autoprompt.workflow.file import load_definition

        if isinstance(file, Mapping):
            return cls.of(load_definition(file))
        return cls.of(load_definition(Path(file)), Path(file))

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def definition(self) -> Definition:
        return self._definition

    @property
    def components(self) -> dict[str, str]:
        """Every prompt text by name, `node.role`: what an optimizer may change."""
        return components(self._definition)

    @property
    def locked(self) -> tuple[str, ...]:
        """Names of the components that are to stay as they are."""
        return locked_components(self._definition)

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        runs_dir: str | Path | None = None,
        settings: RunSettings | None = None,
        on_event: OnEvent | None = None,
    ) -> dict[str, Any]:
        """Run it and return its result: the variables at its end, or what its end nodes put out.

        With a `run_id` or a `runs_dir` the run is kept in `runs_dir/run_id` and can be resumed. Its values
        must then be plain data.

        Args:
            run_id: Default: a new one.
            runs_dir: Default: "runs".

        Raises:
            NodeError: A node failed.
            AutopromptError: A model's key was refused, a limit was reached, or the run's files failed.
        """
        return _outcome(self.stream(inputs, run_id=run_id, runs_dir=runs_dir, settings=settings), on_event)

    def as_program(self, models: ModelSettings) -> Callable[..., dict[str, Any]]:
        """Return the workflow as a program to be optimized: its nodes ask the models of these settings."""
        own = {name: getattr(models, name) for name in ModelSettings.model_fields}
        own["transport"] = "langchain"  # a program's calls are caught where an SDK sends them
        settings = RunSettings(models=ModelSettings.model_construct(**own))

        def workflow(**inputs: Any) -> dict[str, Any]:
            return self.run(inputs, settings=settings)

        workflow.__name__ = self.name
        return workflow

    def stream(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        runs_dir: str | Path | None = None,
        settings: RunSettings | None = None,
    ) -> Iterator[Event]:
        """Yield the events of a run while it goes.

        A failure is the last event, GraphRunFailed, and not raised.
        """
        inputs = dict(inputs or {})
        settings = settings or RunSettings()
        folder = None
        if run_id is not None or runs_dir is not None:
            inputs = plain(inputs, "inputs", allow_nan=False)
            mocked = stand_ins(self._definition, settings.mocks, inputs)
            self._definition.start(inputs, mocked)  # refuses bad inputs before there is a folder
            folder = self._new_folder(inputs, run_id, Path(runs_dir or DEFAULT_RUNS_DIR))
        return runner.stream_run(self._definition, inputs, settings, folder)

    def resume(
        self,
        run_id: str,
        *,
        runs_dir: str | Path | None = None,
        settings: RunSettings | None = None,
        on_event: OnEvent | None = None,
    ) -> dict[str, Any]:
        """Resume a run that failed or was killed, and return its result. Finished nodes do not run again.

        Raises:
            StoreError: There is no such run, or it is not of this workflow.
            NodeError: A node failed again.
        """
        return _outcome(self.stream_resume(run_id, runs_dir=runs_dir, settings=settings), on_event)

    def stream_resume(
        self, run_id: str, *, runs_dir: str | Path | None = None, settings: RunSettings | None = None
    ) -> Iterator[Event]:
        """Yield the events of `resume`. Nodes of a file that were edited meanwhile give a warning."""
        folder = RunStore(Path(runs_dir or DEFAULT_RUNS_DIR)).open(run_id)
        runner.check_structure(self._definition, folder)
        settings = settings or RunSettings()
        inputs = runner.kept_inputs(folder)
        stand_ins(self._definition, settings.mocks, inputs)
        return runner.stream_run(self._definition, inputs, settings, folder, resumed=True)

    def validate(self, mocks: Mapping[str, Any] | None = None, *, given: Collection[str] = ()) -> list[Fault]:
        """Return the faults of its file, warnings too; none for a workflow made in Python.

        Args:
            mocks: Mocks of the run, besides the file's own.
            given: Ids of nodes that do not run, since the inputs give their outputs.
        """
        if self._source is None:
            return []
        from autoprompt.workflow.file.validation import validate

        return validate(self._source, mocks=mocks, given=given)

    def graph(self, format: Literal["mermaid", "ascii"] = "mermaid") -> str:
        """Return a drawing: virtual nodes inside their parents, what is repeated inside its container."""
        return mermaid_graph(self._definition) if format == "mermaid" else ascii_graph(self._definition)

    def _new_folder(self, inputs: Mapping[str, Any], run_id: str | None, runs_dir: Path) -> RunFolder:
        if run_id is not None and not _RUN_ID.fullmatch(run_id):
            raise InputError(f"{run_id!r} is not an id of a run: letters, digits, '.', '_' and '-' only")
        config = {
            "workflow": self._definition.name,
            "workflow_file": None if self._source is None else str(self._source.absolute()),
            "inputs": inputs,
            "structure": runner.structure(self._definition),
            "contents": runner.contents(self._definition),
        }
        name = self._definition.name
        folder = RunStore(runs_dir).create(config, kind=runner.KIND, name=name, run_id=run_id)
        runner.keep_inputs(folder, inputs)
        return folder


def _outcome(events: Iterator[Event], on_event: OnEvent | None) -> dict[str, Any]:
    """Return the result that a stream of events ends in, or the failure that it ends in, raised."""
    outputs: dict[str, Any] = {}
    failure: BaseException | None = None
    for event in events:
        if on_event is not None:
            on_event(event)
        if isinstance(event, GraphRunSucceeded | GraphRunPartialSucceeded):
            outputs = dict(event.outputs)
        elif isinstance(event, GraphRunFailed):
            failure = event.cause or WorkflowDefinitionError(event.error)
    if failure is not None:
        raise failure
    return outputs


def edges_of(definition: Definition) -> list[GraphEdge]:
    """Return the edges, or those of the list order if none are given, with jumps known beforehand."""
    if definition.edges is not None:
        return list(definition.edges)
    edges = []
    for node, following in zip(definition.nodes, (*definition.nodes[1:], None), strict=True):
        target = getattr(getattr(node.executor, "node", None), "next_node_id", None)
        if target is not None:
            edges.append(GraphEdge(node.id, target))
        elif following is not None and node.type != "end":
            edges.append(GraphEdge(node.id, following.id))
    return edges


def mermaid_graph(definition: Definition) -> str:
    """Return the workflow as a Mermaid flowchart, from top to bottom."""
    return "\n".join(["flowchart TD", *_mermaid(definition, "    ", "")]) + "\n"


def _mermaid(definition: Definition, indent: str, prefix: str) -> Iterator[str]:
    names = {node.id: f"{prefix}n{number}" for number, node in enumerate(definition.nodes)}
    for node in definition.nodes:
        yield from _mermaid_node(node, names[node.id], indent)
    for edge in edges_of(definition):
        label = "" if edge.handle in (SOURCE, SUCCESS_BRANCH) else f'|"{_quoted(edge.handle)}"|'
        yield f"{indent}{names[edge.source]} -->{label} {names[edge.target]}"


def _mermaid_node(node: GraphNode, name: str, indent: str) -> Iterator[str]:
    label = f'["{_quoted(_label(node))}"]'
    if not node.children and node.inner is None:
        yield f"{indent}{name}{label}"
        return
    yield f"{indent}subgraph {name}{label}"
    inside = indent + "    "
    previous = None
    for number, child in enumerate(node.children):
        child_name = f"{name}v{number}"
        yield from _mermaid_node(child.node, child_name, inside)
        if previous is not None:
            yield f"{inside}{previous} -.-> {child_name}"
        previous = child_name
    if node.inner is not None:
        yield from _mermaid(node.inner, inside, f"{name}i")
    yield f"{indent}end"


def _label(node: GraphNode) -> str:
    shown = node.id if node.title in ("", node.id) else f"{node.id}: {node.title}"
    return f"{shown} ({node.type})"


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;").replace("\n", " ")


def ascii_graph(definition: Definition) -> str:
    """Return the workflow as lines of text: each node with what follows it, what is inside below it."""
    return "\n".join(_lines(definition, "")) + "\n"


def _lines(definition: Definition, indent: str) -> Iterator[str]:
    edges = edges_of(definition)
    for node in definition.nodes:
        following = [
            edge.target if edge.handle in (SOURCE, SUCCESS_BRANCH) else f"{edge.target} [{edge.handle}]"
            for edge in edges
            if edge.source == node.id
        ]
        arrow = f" -> {', '.join(following)}" if following else ""
        yield f"{indent}{_label(node)}{arrow}"
        yield from _inside(node, indent + "    ")


def _inside(node: GraphNode, indent: str) -> Iterator[str]:
    for child in node.children:
        yield f"{indent}* {_label(child.node)}"
        yield from _inside(child.node, indent + "    ")
    if node.inner is not None:
        yield from _lines(node.inner, indent)
