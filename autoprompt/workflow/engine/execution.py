"""Run one node: its virtual nodes first, then its type's work, with events, mocks, retries, error strategy.

Attempts are made here, since LangGraph does not know virtual nodes: they are complete nodes that run as parts
of their parents.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from autoprompt.workflow.engine.context import Attempt, ChildResult, Emit, NodeContext, RunContext, tell_all
from autoprompt.workflow.engine.definition import (
    FAIL_BRANCH,
    LLM_TYPES,
    GraphNode,
    Mock,
    NodeResult,
    VirtualNode,
)
from autoprompt.workflow.engine.errors import (
    FATAL,
    ExtractionError,
    LLMInvocationError,
    NodeError,
    as_node_error,
)
from autoprompt.workflow.engine.events import (
    Event,
    NodeRunException,
    NodeRunFailed,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunSucceeded,
)
from autoprompt.workflow.engine.mocks import MockError
from autoprompt.workflow.engine.model_call import llm_usage
from autoprompt.workflow.engine.variables import ERROR_MESSAGE, ERROR_TYPE, MISSING, VariablePool, check_size

_CHILD = "virtual"  # the part under which outputs and taken-up failures of a virtual node are kept
FAILURES = "failures"
"""The part that counts the failed attempts of a node that has failed for good."""


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
    run: RunContext,
    node: GraphNode,
    values: Mapping[str, Mapping[str, Any]],
    path: str,
    emit: Emit,
    predecessor_node_id: str | None = None,
) -> Outcome:
    """Run a node to its end, with all its attempts.

    Raises:
        NodeError: The last attempt failed, and the node has no error strategy.
        Interrupted: The run is being stopped.
    """
    run.stopping.check()
    pool = VariablePool(values, node.local_ids, node_ids=run.nodes)
    context = make_context(run, node, pool, path, emit, predecessor_node_id=predecessor_node_id)
    try:
        exceptions = run_children(context)
    except NodeError as error:
        _start(context)
        return _failed(context, error, 0)
    _start(context)
    result = _attempts(context)
    if isinstance(result, Exception):
        return _failed(context, result, exceptions)
    result = with_children(context, result)
    context.emit(success(context, result))
    return Outcome(result, _writes(context, result.outputs), exceptions + sum(context.taken_up))


def _attempts(context: NodeContext) -> NodeResult | Exception:
    """Do the node's work, as often as it may be tried. Return its result, or the error of the last attempt.

    Raises:
        AutopromptError: An attempt failed with one of the errors in FATAL, which end the run.
    """
    stopping, before = context.run.stopping, context.pool
    while True:
        context.begin(before.copy())
        try:
            context.take({given.name: context.value_of(given) for given in context.node.inputs})
            result = perform(context)
            _check_sizes(context, result)
            return result
        except FATAL as error:
            context.emit(failure(context, error))
            raise
        except Exception as error:  # noqa: BLE001  tried again, or returned as the node's failure
            if stopping.has_failed:  # beside another one: no further attempt, but told, and asked anew
                keep_failure(context)
                context.emit(failure(context, error))
            stopping.check(error)  # it may have failed for that
            if context.attempt.failures >= _retries(context, error):
                return error
            context.attempt.failures += 1
            context.emit(_retry(context, error))
            stopping.wait(_interval_s(context))
            stopping.check(error)


def _check_sizes(context: NodeContext, result: NodeResult) -> None:
    """Refuse values of a file's node that would fill the memory. Nodes of Python's may do that.

    A virtual node's outputs count as its parent's.

    Raises:
        TooLargeError: A value is over the limit, or the outputs of the graph together are.
    """
    if context.node.scope is None and context.parent is None:
        check_size(result.inputs)
        check_size(result.process_data)
        context.run.frame.room.take(check_size(_writes(context, result.outputs)))


def _start(context: NodeContext) -> None:
    """Tell that the node begins."""
    context.attempt.start_at = datetime.now(UTC)
    context.emit(started(context))


def _may_try_again(error: Exception) -> bool:
    """Return whether another attempt may help: a missing value will not be there then either."""
    return isinstance(error, LLMInvocationError) or not isinstance(error, ExtractionError)


def _retry(context: NodeContext, error: Exception) -> NodeRunRetry:
    return context.event(
        NodeRunRetry,
        retry_index=context.attempt.failures,
        error=reason_of(error),
        start_at=context.attempt.start_at,
    )


def _failed(context: NodeContext, error: Exception, exceptions: int) -> Outcome:
    """Return what the strategy makes of a failed last attempt, or raise the error of the run."""
    node = context.node
    if node.error_strategy is None:
        raise _lost(context, error)
    outputs = {ERROR_MESSAGE: reason_of(error), ERROR_TYPE: type(error).__name__}
    if node.error_strategy == "default-value":
        outputs = {**node.default_values, **outputs}
        result = NodeResult(outputs=outputs)
    else:
        result = NodeResult(outputs=outputs, edge_handle=FAIL_BRANCH)
    more = {"error_strategy": node.error_strategy, "outputs": outputs}
    context.emit(failure(context, error, NodeRunException, **more))
    return Outcome(result, _writes(context, outputs), exceptions + 1)


def _lost(context: NodeContext, error: Exception) -> NodeError:
    """Tell that the node has failed for good, and return its error."""
    keep_failure(context)
    context.emit(failure(context, error))
    return as_node_error(error, context.node.id)


def _writes(context: NodeContext, outputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {**context.pool.writes, context.node.scope or context.node.id: dict(outputs)}


def run_children(context: NodeContext) -> int:
    """Run the virtual nodes and put their outputs into the pool.

    A virtual node that an earlier process of the run has finished is not run again. If one fails and the
    parent has the strategy `default-value`, its `text` is the extraction's default, or "".

    Returns:
        How many failures error strategies took up, in the children and in earlier processes too.

    Raises:
        NodeError: A child failed, and the parent's strategy is another one.
    """
    taken_up = 0
    for child in context.node.children:
        part = f"{_CHILD}/{child.local_id}"
        kept = context.finished(part)
        if kept is MISSING:
            try:
                found = _run_child(context, child)
            except NodeError:
                if context.node.error_strategy != "default-value":
                    raise
                found = {**child.node.default_values, "text": child.failed_value}, 1
            kept = context.finish(part, [dict(found[0]), found[1]])
        outputs, failures = kept
        taken_up += failures
        context.pool.writes[child.node.id] = dict(outputs)
    return taken_up


def _run_child(parent: NodeContext, child: VirtualNode) -> ChildResult:
    context = make_context(
        parent.run,
        child.node,
        parent.pool.with_local_ids(child.node.local_ids),
        f"{parent.path}/{child.local_id}",
        parent.stream,
        parent=parent.node,
        virtual=child,
    )
    failures = run_children(context)
    _start(context)
    result = _attempts(context)
    if isinstance(result, Exception):
        raise _lost(context, result)
    result = with_children(context, _described(child, result))
    context.emit(success(context, result))
    return result.outputs, failures + sum(context.taken_up)


def _retries(context: NodeContext, error: Exception) -> int:
    """Return how often the node may be tried again after this error, by itself or by its parent."""
    if context.node.retry is not None:
        return context.node.retries if _may_try_again(error) else 0
    if context.parent is None or not isinstance(error, LLMInvocationError):
        return 0
    return context.parent.retries


def _interval_s(context: NodeContext) -> float:
    retry = context.node.retry or (context.parent.retry if context.parent is not None else None)
    return retry.interval_s if retry is not None else 0.0


def _described(child: VirtualNode, result: NodeResult) -> NodeResult:
    """Return the result with what a reader of the records wants to know of an extraction."""
    if child.source is None or "context_source" in result.inputs:
        return result
    named = {"context_source": child.source.name, "extraction_prompt": child.source.prompt}
    process = {"source": child.source.name, "prompt": child.source.prompt}
    return NodeResult(
        outputs=result.outputs,
        inputs={**result.inputs, **named},
        process_data={**process, **result.process_data},
        metadata=result.metadata,
        edge_handle=result.edge_handle,
    )


def make_context(
    run: RunContext, node: GraphNode, pool: VariablePool, path: str, emit: Emit, **more: Any
) -> NodeContext:
    """Return the context of a node's attempt.

    `emit` tells the stream; what is kept of a run is written first.
    """
    attempt = Attempt(earlier=_earlier_failures(run, path))
    sinks = [run.executions.record, emit] if run.executions is not None else [emit]
    return NodeContext(run, node, pool, path=path, attempt=attempt, emit=tell_all(sinks), stream=emit, **more)


def perform(context: NodeContext) -> NodeResult:
    """Do what the node's type does, or its mock."""
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
        error=reason_of(error),
        error_type=type(error).__name__,
        start_at=context.attempt.start_at,
        finished_at=datetime.now(UTC),
        inputs=dict(context.inputs),
        process_data=dict(context.answered),
        llm_usage=llm_usage(context.usage),
        predecessor_node_id=context.predecessor_node_id,
        **more,
    )


def reason_of(error: Exception) -> str:
    """Return the error in words, without the node where the event names it anyway."""
    if isinstance(error, NodeError):
        return error.reason
    return str(error) or type(error).__name__


def _earlier_failures(run: RunContext, path: str) -> int:
    if run.executions is None:
        return 0
    found = run.executions.part(f"{path}/{FAILURES}")
    return 0 if found is MISSING else int(found)


def keep_failure(context: NodeContext) -> None:
    """Count the failed attempts, so that a resumed run asks anew: the old answers have made the node fail."""
    context.finish(FAILURES, context.tries + 1)


def with_children(context: NodeContext, result: NodeResult) -> NodeResult:
    """Return the result with the ids of the node's virtual nodes beside it."""
    if not context.node.children:
        return result
    ids = [child.node.id for child in context.node.children]
    return replace(result, process_data={**result.process_data, "extraction_nodes": ids})
