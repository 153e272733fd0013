"""A graph inside a node: one pass of an iteration or a loop, one item of a list; and all passes of a node.

A pass that is done is written down, so that a run that was killed inside the node does not do it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autoprompt.workflow.engine.context import Frame, NodeContext, Stop
from autoprompt.workflow.engine.definition import Definition
from autoprompt.workflow.engine.errors import NodeError
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
from autoprompt.workflow.engine.variables import MISSING, Values, VariablePool, merge_values

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

MAX_STEPS = 1000  # of one pass, where nodes may jump back
_USUAL_OUTPUTS = ("text", "output", "result")


@dataclass(frozen=True)
class PassEvents:
    """The kinds of events of one kind of container."""

    started: type[IterationStarted]
    next: type[IterationNext]
    succeeded: type[IterationSucceeded]
    failed: type[IterationFailed]


ITERATION_EVENTS = PassEvents(IterationStarted, IterationNext, IterationSucceeded, IterationFailed)
LOOP_EVENTS = PassEvents(LoopStarted, LoopNext, LoopSucceeded, LoopFailed)


@dataclass(frozen=True)
class InnerRun:
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

    def __init__(self, context: NodeContext, events: PassEvents = ITERATION_EVENTS) -> None:
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
) -> InnerRun:
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
    return InnerRun(
        context.pool.with_values(merge_values(around, written)),
        state["_ran"],
        {scope: dict(names) for scope, names in written.items() if scope not in own},
        state["_exceptions"],
    )


def _invoke(context: NodeContext, inner: Definition, frame: Frame, stopping: Stop) -> Mapping[str, Any]:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.runnables.config import var_child_runnable_config

    from autoprompt.workflow.engine.graph import first_state, recursion_limit, run_single, threads

    # A graph of its own: as a subgraph of the one around, it would write checkpoints of every pass.
    around, own = copy_context(), copy_context()
    own.run(var_child_runnable_config.set, None)
    if len(inner.nodes) == 1 and inner.edges is not None:
        # LangGraph's stream of events is found through the context around.
        frame = replace(frame, emit=lambda event: around.copy().run(context.stream, event))
        return own.run(run_single, inner.nodes[0], replace(context.run, frame=frame, stopping=stopping))
    run = replace(context.run, frame=frame, stopping=stopping)
    config = RunnableConfig(recursion_limit=recursion_limit(inner, MAX_STEPS))
    if context.run.max_concurrency is not None:
        config["max_concurrency"] = threads(inner)
    graph = _compiled(inner)
    with stopping.telling_cause():
        state: Mapping[str, Any] = own.run(lambda: graph.invoke(first_state({}), config, context=run))
    return state


@lru_cache(maxsize=128)
def _compiled(inner: Definition) -> CompiledStateGraph[Any, Any, Any, Any]:
    from autoprompt.workflow.engine.graph import compile_graph

    return compile_graph(inner, checkpointer=False)


def inner_output(run: InnerRun, selector: Sequence[str] | None) -> Any:
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


def inner_answer(run: InnerRun, inner: Definition) -> str:
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
