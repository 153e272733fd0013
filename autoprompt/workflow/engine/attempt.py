"""One attempt of a node: its context, its inputs, what its type does, and the events that tell of it."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from autoprompt.workflow.engine.context import Emit, NodeContext, RunContext, tell_all
from autoprompt.workflow.engine.definition import LLM_TYPES, GraphNode, NodeResult
from autoprompt.workflow.engine.errors import LLMInvocationError, NodeError
from autoprompt.workflow.engine.events import Event, NodeRunFailed, NodeRunStarted, NodeRunSucceeded
from autoprompt.workflow.engine.mocks import Mock, MockError
from autoprompt.workflow.engine.model_call import llm_usage
from autoprompt.workflow.engine.template import render_in
from autoprompt.workflow.engine.variables import MISSING, VariablePool

FAILURES = "failures"
"""The part that counts the failed attempts of a node that has failed for good."""


def make_context(
    run: RunContext, node: GraphNode, pool: VariablePool, path: str, emit: Emit, **more: Any
) -> NodeContext:
    """The context of a node's attempt. `emit` tells the stream; what is kept of a run is written first."""
    attempt = run.progress.attempt(path, lambda: _earlier_failures(run, path))
    sinks = [run.executions.record, emit] if run.executions is not None else [emit]
    return NodeContext(run, node, pool, path=path, attempt=attempt, emit=tell_all(sinks), stream=emit, **more)


def perform(context: NodeContext) -> NodeResult:
    """What the node's type does, or its mock."""
    mock = context.run.mocks.get(context.node.id)
    if mock is None:
        return context.node.executor.execute(context.data, context)
    return _mocked(context, mock)


def _mocked(context: NodeContext, mock: Mock) -> NodeResult:
    if mock.delay_s:
        time.sleep(mock.delay_s)
    if context.attempt.failures < len(mock.errors):
        error = MockError(mock.errors[context.attempt.failures])
        asks_model = context.node.type in LLM_TYPES
        raise LLMInvocationError(error) if asks_model else error
    text = mock.outputs.get("text")
    if isinstance(text, str):
        context.chunk(text)
    executor = context.node.executor
    return executor.mocked(context.data, context, executor.read_given(context.data, mock.outputs))


def success(context: NodeContext, result: NodeResult) -> NodeRunSucceeded:
    return context.event(
        NodeRunSucceeded,
        start_at=context.attempt.start_at,
        finished_at=datetime.now(UTC),
        inputs=dict(result.inputs),
        process_data=dict(result.process_data),
        outputs=dict(result.outputs),
        metadata=dict(result.metadata),
        llm_usage=result.llm_usage,
        predecessor_node_id=context.predecessor_node_id,
    )


def started(context: NodeContext) -> NodeRunStarted:
    source = context.virtual.source if context.virtual is not None else None
    return context.event(
        NodeRunStarted,
        start_at=context.attempt.start_at,
        predecessor_node_id=context.predecessor_node_id,
        extraction_source=source.name if source is not None else None,
        extraction_prompt=source.prompt if source is not None else None,
    )


def failure(
    context: NodeContext, error: Exception, kind: type[NodeRunFailed] = NodeRunFailed, **more: Any
) -> Event:
    """Return the event of a node that has failed."""
    return context.event(
        kind,
        error=said(error),
        error_type=type(error).__name__,
        start_at=context.attempt.start_at,
        finished_at=datetime.now(UTC),
        inputs=dict(context.inputs),
        llm_usage=llm_usage(context.usage),
        predecessor_node_id=context.predecessor_node_id,
        **more,
    )


def said(error: Exception) -> str:
    """The error in words, without the node where the event names it anyway."""
    if isinstance(error, NodeError):
        return error.reason
    return str(error) or type(error).__name__


def _earlier_failures(run: RunContext, path: str) -> int:
    if run.executions is None:
        return 0
    found = run.executions.part(f"{path}/{FAILURES}")
    return 0 if found is MISSING else int(found)


def keep_failure(context: NodeContext) -> None:
    """A resumed run asks anew what this node was answered: the old answers have made it fail."""
    context.finish(FAILURES, context.tries + 1)


def with_children(context: NodeContext, result: NodeResult) -> NodeResult:
    """The result with the ids of the node's virtual nodes beside it."""
    if not context.node.children:
        return result
    ids = [child.node.id for child in context.node.children]
    return replace(result, process_data={**result.process_data, "extraction_nodes": ids})


def resolve_inputs(context: NodeContext) -> dict[str, Any]:
    """The values of the node's `inputs` by name: of a variable, or what is given with its references filled.

    Raises VariableNotFoundError for a variable that is not there.
    """
    pool = context.pool
    return {
        given.name: pool.get(given.value or ()) if given.type == "variable" else render_in(given.value, pool)
        for given in context.node.inputs
    }
