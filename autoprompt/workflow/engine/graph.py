"""A definition compiled to a LangGraph `StateGraph`.

Every edge of a workflow has a flag: taken or not. A node waits for all nodes before it (LangGraph's barrier
edges), runs if one of its flags is up, and else passes its turn on with its own flags down. So a join waits
for the branches that were taken and for no other, and LangGraph's scheduler does all of the scheduling.
Without edges, nodes follow each other in list order, and a node may name the one that runs next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from autoprompt.workflow.engine.context import Emit, Frame, NodeContext, RunContext, Stop, graph_context
from autoprompt.workflow.engine.definition import SOURCE, SUCCESS_BRANCH, Definition, GraphEdge, GraphNode
from autoprompt.workflow.engine.errors import NodeError, WorkflowDefinitionError, suggestion
from autoprompt.workflow.engine.events import (
    IterationFailed,
    IterationNext,
    IterationStarted,
    IterationSucceeded,
    LoopFailed,
    LoopNext,
    LoopStarted,
    LoopSucceeded,
)
from autoprompt.workflow.engine.execution import Outcome, run_node
from autoprompt.workflow.engine.executions import plain
from autoprompt.workflow.engine.variables import MISSING, Values, VariablePool, merge_values

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


_ROOM = 5  # steps beyond one for each node
_OWN_THREADS = 2  # LangGraph's: one waits for events, one writes checkpoints
_REMOVED = "\0removed"  # names that a node of Python's has taken out of the context; NUL is in no name


def _merge_pool(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    merged = merge_values(old, new)
    for values in merged.values():
        for name in values.pop(_REMOVED, ()):
            values.pop(name, None)
    return merged


def _merge_flags(old: dict[str, bool], new: dict[str, bool]) -> dict[str, bool]:
    return old | new


def _append(old: list[str], new: list[str]) -> list[str]:
    return old + new


def _add(old: int, new: int) -> int:
    return old + new


class FlowState(TypedDict, total=False):
    """Plain data only. The names begin with `_` because node ids share a name space with them.

    The reducers are functions of Python: LangGraph reads the signature of `operator.add` by `ast.parse`,
    which fails at times where several threads do so (see `text/python_source.py`).
    """

    _pool: Annotated[dict[str, dict[str, Any]], _merge_pool]
    _edges: Annotated[dict[str, bool], _merge_flags]
    _ran: Annotated[list[str], _append]
    _exceptions: Annotated[int, _add]


def compile_graph(
    definition: Definition, checkpointer: BaseCheckpointSaver[Any] | Literal[False]
) -> CompiledStateGraph[FlowState, RunContext, FlowState, FlowState]:
    """Compile the graph. Run it with a `RunContext` as its context; its stream "custom" holds the events.

    Args:
        checkpointer: Keeps the state after each node. False for a graph that keeps none, not even by the
            checkpointer of a graph around it.
    """
    graph = StateGraph(FlowState, context_schema=RunContext)
    if definition.edges is None:
        _add_sequence(graph, definition)
    else:
        _add_edges(graph, definition, definition.edges)
    return graph.compile(checkpointer=checkpointer)


@lru_cache(maxsize=128)
def graph_without_checkpoints(definition: Definition) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph that keeps no state: compiled once for all rows, and for all passes of an iteration."""
    return compile_graph(definition, checkpointer=False)


def run_single(node: GraphNode, run: RunContext) -> FlowState:
    """Return the state after a graph of this node alone, without LangGraph's share of it.

    LangGraph takes about 1.3 ms for a run, as long as all else that a pass of an iteration does.
    """
    update = _waiting_step(node, {}, ())(first_state({}), Runtime(context=run))
    return FlowState(
        _pool=_merge_pool({}, update["_pool"]),
        _edges={},
        _ran=update["_ran"],
        _exceptions=update["_exceptions"],
    )


def first_state(pool: Mapping[str, Mapping[str, Any]]) -> FlowState:
    values = {node_id: dict(names) for node_id, names in pool.items()}
    return FlowState(_pool=values, _edges={}, _ran=[], _exceptions=0)


def recursion_limit(definition: Definition, max_steps: int) -> int:
    """Return the steps that the longest run takes; with jumps it is for the caller to say."""
    return max_steps if definition.edges is None else len(definition.nodes) + _ROOM


def threads(definition: Definition) -> int:
    """Return LangGraph's `max_concurrency` where the run has a bound of its own.

    Its threads are not what is to be bounded: with one alone, which waits for events, no node ever begins,
    and with two, a second node begins while no event is waited for. So each node may have a thread, and those
    at work wait for their turn (`NodeContext.turn`).
    """
    return len(definition.nodes) + _OWN_THREADS


def _add_sequence(graph: Any, definition: Definition) -> None:
    ids = [node.id for node in definition.nodes]
    for number, node in enumerate(definition.nodes):
        following = ids[number + 1] if number + 1 < len(ids) else None
        graph.add_node(_name(node.id), _jumping_step(node, following, ids))
    graph.add_edge(START, _name(ids[0]))


def _add_edges(graph: Any, definition: Definition, edges: Sequence[GraphEdge]) -> None:
    incoming: dict[str, dict[str, str]] = {node.id: {} for node in definition.nodes}
    outgoing: dict[str, list[tuple[str, GraphEdge]]] = {node.id: [] for node in definition.nodes}
    sources: dict[str, list[str]] = {node.id: [] for node in definition.nodes}
    for number, edge in enumerate(edges):
        incoming[edge.target][str(number)] = edge.source
        outgoing[edge.source].append((str(number), edge))
        if edge.source not in sources[edge.target]:
            sources[edge.target].append(edge.source)
    for node in definition.nodes:
        step = _waiting_step(node, incoming[node.id], outgoing[node.id])
        graph.add_node(_name(node.id), step)
    for node in definition.nodes:
        before = [_name(source) for source in sources[node.id]]
        graph.add_edge(START if not before else before if len(before) > 1 else before[0], _name(node.id))


def _name(node_id: str) -> str:
    """Return the node's name in LangGraph, which reserves two characters and its own keys' names."""
    safe = node_id.replace("%", "%25").replace(":", "%3A").replace("|", "%7C")
    return f"_{safe}" if safe.startswith("_") else safe


def _waiting_step(
    node: GraphNode, incoming: Mapping[str, str], outgoing: Sequence[tuple[str, GraphEdge]]
) -> Callable[..., Any]:
    """incoming: number of each edge that leads here, and its source."""

    def step(state: FlowState, runtime: Runtime[RunContext]) -> Any:
        flags = state["_edges"]
        came_from = [source for number, source in incoming.items() if flags.get(number)]
        if incoming and not came_from:
            return {"_edges": {number: False for number, _ in outgoing}}
        outcome = _run(node, state, runtime, came_from[:1])
        handle = outcome.result.edge_handle
        taken = {number: is_taken(edge, handle) for number, edge in outgoing}
        goto = outcome.result.goto
        if goto is not None:
            if goto != END:  # which no edge leads to
                _check_goto(node, goto, [edge.target for _, edge in outgoing])
            taken = {number: edge.target == goto for number, edge in outgoing}
        return {**_update(node, outcome), "_edges": taken}

    return step


def _jumping_step(node: GraphNode, following: str | None, ids: Sequence[str]) -> Callable[..., Any]:
    def step(state: FlowState, runtime: Runtime[RunContext]) -> Any:
        outcome = _run(node, state, runtime, state["_ran"][-1:])
        goto = outcome.result.goto
        if goto is not None and goto != END:
            _check_goto(node, goto, ids)
        target = goto or following or END
        return Command(update=_update(node, outcome), goto=target if target == END else _name(target))

    return step


def is_taken(edge: GraphEdge, handle: str) -> bool:
    """Return whether an edge is on the way out `handle`. The way of success has two names in files."""
    if handle in (SOURCE, SUCCESS_BRANCH):
        return edge.handle in (SOURCE, SUCCESS_BRANCH)
    return edge.handle == handle


def _check_goto(node: GraphNode, goto: str, known: Sequence[str]) -> None:
    if goto not in known:
        raise WorkflowDefinitionError(
            f"node {node.id!r} jumps to {goto!r}, but there is no later node with that id. "
            f"{suggestion(goto, known)}"
        )


def _run(
    node: GraphNode, state: FlowState, runtime: Runtime[RunContext], came_from: Sequence[str]
) -> Outcome:
    run = runtime.context
    frame = run.frame
    values = merge_values(frame.values, state["_pool"]) if frame.values else state["_pool"]
    visits = state["_ran"].count(node.id)
    path = f"{frame.path}/{node.id}" if frame.path else node.id
    if visits:
        path += f"#{visits + 1}"
    emit: Emit = frame.emit or runtime.stream_writer
    try:
        outcome = run_node(run, node, values, path, emit, *came_from)
        return outcome if run.executions is None else _plain(node, outcome)
    except BaseException as error:
        # LangGraph waits for the nodes beside this one: an iteration would go on to its last item.
        run.stopping.set(error)
        raise


def _update(node: GraphNode, outcome: Outcome) -> dict[str, Any]:
    writes = outcome.writes
    if outcome.result.removed:
        (scope,) = writes
        writes = {scope: {**writes[scope], _REMOVED: list(outcome.result.removed)}}
    return {"_pool": writes, "_ran": [node.id], "_exceptions": outcome.exceptions}


def _plain(node: GraphNode, outcome: Outcome) -> Outcome:
    """Return the outcome with its values as a resumed run would have them."""
    writes = {
        scope: {
            name: plain(value, f"node {node.id!r}: its output {name!r}") for name, value in values.items()
        }
        for scope, values in outcome.writes.items()
    }
    return replace(outcome, writes=writes)


# --- a graph inside a node: a pass of an iteration or a loop, an item of a list ---
#
# A pass that is done is written down, so that a run that was killed inside the node does not do it again.

_MAX_STEPS = 1000  # of one pass, where nodes may jump back
_USUAL_OUTPUTS = ("text", "output", "result")


@dataclass(frozen=True)
class _PassEvents:
    """The kinds of events of one kind of container."""

    started: type[IterationStarted]
    next: type[IterationNext]
    succeeded: type[IterationSucceeded]
    failed: type[IterationFailed]


_ITERATION_EVENTS = _PassEvents(IterationStarted, IterationNext, IterationSucceeded, IterationFailed)
LOOP_EVENTS = _PassEvents(LoopStarted, LoopNext, LoopSucceeded, LoopFailed)


@dataclass(frozen=True)
class _InnerRun:
    """What one pass has left.

    pool: all values at its end, those around it included. ran: ids of the nodes that ran, in order.
    writes: what it has set outside of its own nodes: variables of the conversation, of the container.
    exceptions: failures that an error strategy has taken up.
    """

    pool: VariablePool
    ran: Sequence[str]
    writes: dict[str, dict[str, Any]]
    exceptions: int = 0


class Passes:
    """The passes, or items, of one execution of a container.

    Attributes:
        count: How many are finished.
        results: What they contributed, for the event of a failure; None tells nothing.
    """

    def __init__(self, context: NodeContext, events: _PassEvents = _ITERATION_EVENTS) -> None:
        self.context, self._events = context, events
        self.count = 0
        self.results: list[Any] | None = None

    @contextmanager
    def reporting(self, inputs: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Tell of the beginning and the end of all passes. Yields the dict that takes the outputs."""
        context, outputs = self.context, dict[str, Any]()
        at = datetime.now(UTC)
        context.emit(context.event(self._events.started, start_at=at, inputs=inputs, metadata=metadata))
        try:
            yield outputs
        except NodeError as error:
            more = {} if self.results is None else {"outputs": {"results": list(self.results)}}
            context.emit(context.event(self._events.failed, steps=self.count, error=str(error), **more))
            raise
        context.emit(context.event(self._events.succeeded, steps=self.count, outputs=outputs))

    def kept(self, part: str) -> dict[str, Any] | None:
        """Return what an earlier process has left of a pass; None if it was not finished."""
        found = self.context.finished(part)
        if found is MISSING:
            return None
        self.context.taken_up.append(found["exceptions"])
        return dict(found)

    def begin(self, number: int) -> None:
        """Tell that pass `number`, from 0, begins."""
        self.context.emit(self.context.event(self._events.next, pass_index=number))

    def continue_after(self, error: NodeError, message: str, mode: str) -> None:
        """Warn of a pass that failed, or fail with it.

        Raises:
            NodeError: The mode is "terminated".
        """
        if mode == "terminated":
            failed = NodeError(message, node_id=self.context.node_id)
            failed.exit_code = error.exit_code
            raise failed from error
        self.context.warn(message)


def run_inner(
    context: NodeContext,
    inner: Definition,
    values: Values,
    index: int,
    *,
    path: str | None = None,
    sees_outer: bool = True,
    stop: Stop | None = None,
) -> _InnerRun:
    """Run `inner` once, as pass or item `index` (from 0) of the container that `context` is the node of.

    Safe to call from several threads at once. To keep what the pass has done, call `NodeContext.finish`.

    Args:
        values: The pass's own values, such as {"iteration1": {"item": ..., "index": 0}}.
        path: Where in the run the container is; default: the place of `context`.
        sees_outer: Whether the nodes inside also see the values around the container.
        stop: Stops this pass together with those beside it; default: the one of the graph around.

    Raises:
        NodeError: A node inside failed, and no error strategy took that up.
    """
    around = merge_values(context.pool.values, values) if sees_outer else values
    frame = Frame(
        path=f"{path or context.path}[{index}]",
        index=(*context.index, index),
        in_node_id=context.node_id,
        values=around,
        emit=context.stream,
    )
    # A failure in here is for the container to take up.
    state = _invoke(context, inner, frame, Stop(stop or context.run.stopping))
    own = {node.id for node in inner.all_nodes()}
    written: dict[str, dict[str, Any]] = state["_pool"]
    context.taken_up.append(state["_exceptions"])
    return _InnerRun(
        context.pool.with_values(merge_values(around, written)),
        state["_ran"],
        {scope: dict(names) for scope, names in written.items() if scope not in own},
        state["_exceptions"],
    )


def _invoke(context: NodeContext, inner: Definition, frame: Frame, stopping: Stop) -> Mapping[str, Any]:
    from langchain_core.runnables import RunnableConfig

    around, own = copy_context(), graph_context()
    if len(inner.nodes) == 1 and inner.edges is not None:
        # LangGraph's stream of events is found through the context around.
        frame = replace(frame, emit=lambda event: around.copy().run(context.stream, event))
        return own.run(run_single, inner.nodes[0], replace(context.run, frame=frame, stopping=stopping))
    run = replace(context.run, frame=frame, stopping=stopping)
    config = RunnableConfig(recursion_limit=recursion_limit(inner, _MAX_STEPS))
    if context.run.max_concurrency is not None:
        config["max_concurrency"] = threads(inner)
    graph = graph_without_checkpoints(inner)
    with stopping.telling_cause():
        state: Mapping[str, Any] = own.run(lambda: graph.invoke(first_state({}), config, context=run))
    return state


def inner_output(run: _InnerRun, selector: Sequence[str] | None) -> Any:
    """Return the value that a pass puts out: the selected one, or None if its node did not run.

    Without a selector: of the last node that ran, its `text`, `output` or `result`, else all of its outputs.
    """
    if selector is not None:
        return run.pool.find(selector)
    if not run.ran:
        return None
    outputs = run.pool.values.get(run.ran[-1], {})
    name = next((name for name in _USUAL_OUTPUTS if name in outputs), None)
    return dict(outputs) if name is None else outputs[name]


def inner_answer(run: _InnerRun, inner: Definition) -> str:
    """Return what the answer nodes of a pass have said, joined."""
    speaking = {node.id for node in inner.nodes if node.type in ("answer", "iteration", "loop")}
    values = run.pool.values
    said = [values.get(node_id, {}).get("answer") for node_id in run.ran if node_id in speaking]
    return "".join(str(text) for text in said if text)


def apply_writes(context: NodeContext, writes: Mapping[str, Mapping[str, Any]]) -> None:
    """Make what a pass has assigned, to the conversation or a loop around, an assignment of the container.

    The container's own variables (item, index, loop variables) stay inside.
    """
    for scope, names in writes.items():
        if scope == context.node_id:
            continue
        for name, value in names.items():
            context.pool.set((scope, name), value)
