"""One node at work, around what its type does: children first, events, mocks, retries, error strategy.

LangGraph calls `run_node` again for every attempt (its retry policy waits in between); what must not happen
twice, such as a virtual node that has succeeded, is remembered in `RunContext.progress`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from autoprompt.workflow.context import Emit, NodeContext, RunContext, tell_all
from autoprompt.workflow.definition import FAIL_BRANCH, LLM_TYPES, GraphNode, NodeResult
from autoprompt.workflow.errors import FATAL, ExtractionError, LLMInvocationError, NodeError, as_node_error
from autoprompt.workflow.events import (
    Event,
    NodeRunException,
    NodeRunFailed,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunSucceeded,
)
from autoprompt.workflow.mocks import Mock, MockError
from autoprompt.workflow.variables import MISSING, VariablePool

_FAILURES = "failures"  # the part that counts the failed attempts of a node that has failed for good


class TryAgain(Exception):
    """Tells LangGraph's retry policy that the node is to be called once more."""


@dataclass(frozen=True)
class Outcome:
    """What a node has done to the run.

    writes: values for the pool, the node's outputs and those of its virtual nodes included.
    exceptions: failures that an error strategy has taken up.
    """

    result: NodeResult
    writes: dict[str, dict[str, Any]]
    exceptions: int = 0


def run_node(
    run: RunContext, node: GraphNode, values: Mapping[str, Mapping[str, Any]], path: str, emit: Emit
) -> Outcome:
    """One attempt of a node. Raises TryAgain if there will be another, NodeError if it is the last.

    Raises Interrupted where no further node is to begin.
    """
    run.stopping.check()
    pool = VariablePool(values)
    context = make_context(run, node, pool, path, emit)
    context.pool = pool.with_local_ids(node.local_ids)
    exceptions = 0
    try:
        from autoprompt.workflow.virtual import resolve_inputs, run_children

        try:
            exceptions = run_children(context)
        except NodeError as error:
            _start(context)
            return _failed(context, error, exceptions)
        _start(context)
        try:
            context.take(resolve_inputs(context))
            result = perform(context)
        except FATAL as error:
            context.emit(_failure(context, error, NodeRunFailed))
            raise
        except Exception as error:
            if run.stopping.has_failed:  # beside another one: no further attempt, but told, and asked anew
                keep_failure(context)
                context.emit(_failure(context, error, NodeRunFailed))
            run.stopping.check(error)  # it may have failed for that
            if context.attempt.failures < node.retries and _may_try_again(error):
                context.attempt.failures += 1
                context.emit(_retry(context, error))
                raise TryAgain from error
            return _failed(context, error, exceptions)
        result = with_children(context, result)
        _end(context)
        context.emit(success(context, result))
        return Outcome(result, _writes(context, result.outputs), exceptions + sum(context.taken_up))
    except TryAgain:
        raise
    except BaseException:
        run.progress.end(path)
        raise


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


def success(context: NodeContext, result: NodeResult) -> NodeRunSucceeded:
    return context.event(
        NodeRunSucceeded,
        start_at=context.attempt.start_at,
        finished_at=datetime.now(UTC),
        inputs=dict(result.inputs),
        process_data=dict(result.process_data),
        outputs=dict(result.outputs),
        metadata=dict(result.metadata),
    )


def _start(context: NodeContext) -> None:
    """Tell that the node begins, at its first attempt only."""
    attempt = context.attempt
    if attempt.has_started:
        return
    attempt.has_started, attempt.start_at = True, datetime.now(UTC)
    context.emit(started(context))


def started(context: NodeContext) -> NodeRunStarted:
    source = context.virtual.source if context.virtual is not None else None
    return context.event(
        NodeRunStarted,
        start_at=context.attempt.start_at,
        extraction_source=source.name if source is not None else None,
        extraction_prompt=source.prompt if source is not None else None,
    )


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
    return context.node.executor.mocked(context.data, context, mock.outputs)


def _may_try_again(error: Exception) -> bool:
    """A value that is not there will not be there at the next attempt."""
    return isinstance(error, LLMInvocationError) or not isinstance(error, ExtractionError)


def _retry(context: NodeContext, error: Exception) -> NodeRunRetry:
    return context.event(
        NodeRunRetry,
        retry_index=context.attempt.failures,
        error=said(error),
        start_at=context.attempt.start_at,
    )


def _failed(context: NodeContext, error: Exception, exceptions: int) -> Outcome:
    """The last attempt has failed: what the strategy makes of it, or the error of the run."""
    node, failed = context.node, as_node_error(error, context.node.id)
    if node.error_strategy is None:
        keep_failure(context)
        context.emit(_failure(context, error, NodeRunFailed))
        context.run.progress.end(context.path)
        raise failed
    outputs = {"error_message": said(error), "error_type": type(error).__name__}
    if node.error_strategy == "default-value":
        outputs = {**node.default_values, **outputs}
        result = NodeResult(outputs=outputs)
    else:
        result = NodeResult(outputs=outputs, edge_handle=FAIL_BRANCH)
    more = {"error_strategy": node.error_strategy, "outputs": outputs}
    context.emit(_failure(context, error, NodeRunException, **more))
    _end(context)
    return Outcome(result, _writes(context, outputs), exceptions + 1)


def _failure(context: NodeContext, error: Exception, kind: type[NodeRunFailed], **more: Any) -> Event:
    return context.event(
        kind,
        error=said(error),
        error_type=type(error).__name__,
        start_at=context.attempt.start_at,
        finished_at=datetime.now(UTC),
        inputs=dict(context.inputs),
        **more,
    )


def failure(context: NodeContext, error: Exception) -> Event:
    """The event of a node that has failed for good."""
    return _failure(context, error, NodeRunFailed)


def said(error: Exception) -> str:
    """The error in words, without the node where the event names it anyway."""
    if isinstance(error, NodeError):
        return error.reason
    return str(error) or type(error).__name__


def _earlier_failures(run: RunContext, path: str) -> int:
    if run.executions is None:
        return 0
    found = run.executions.part(f"{path}/{_FAILURES}")
    return 0 if found is MISSING else int(found)


def keep_failure(context: NodeContext) -> None:
    """A resumed run asks anew what this node was answered: the old answers have made it fail."""
    context.finish(_FAILURES, context.tries + 1)


def _end(context: NodeContext) -> None:
    """The node is done. Its parts stay to the end of the run: LangGraph has no result of it yet."""
    context.run.progress.end(context.path)


def with_children(context: NodeContext, result: NodeResult) -> NodeResult:
    """The result with the ids of the node's virtual nodes beside it."""
    if not context.node.children:
        return result
    ids = [child.node.id for child in context.node.children]
    return replace(result, process_data={**result.process_data, "extraction_nodes": ids})


def _writes(context: NodeContext, outputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {**context.pool.writes, context.node.scope or context.node.id: dict(outputs)}
