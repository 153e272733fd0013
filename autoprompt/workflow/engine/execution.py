"""Run one node: its virtual nodes first, then its type's work, with events, mocks, retries, error strategy.

LangGraph calls `run_node` again for every attempt, and its retry policy waits in between. What must not
happen twice, such as a virtual node that has succeeded, is remembered in `RunContext.progress`. A virtual
node is a complete node that runs as a part of its parent. LangGraph does not know it, so it is retried here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from autoprompt.workflow.engine.context import ChildResult, Emit, NodeContext, RunContext, tell_all
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
from autoprompt.workflow.engine.template import render_in
from autoprompt.workflow.engine.variables import ERROR_MESSAGE, ERROR_TYPE, MISSING, VariablePool, check_size

_CHILD = "virtual"  # the part under which outputs and taken-up failures of a virtual node are kept
FAILURES = "failures"
"""The part that counts the failed attempts of a node that has failed for good."""


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
    run: RunContext,
    node: GraphNode,
    values: Mapping[str, Mapping[str, Any]],
    path: str,
    emit: Emit,
    predecessor_node_id: str | None = None,
) -> Outcome:
    """One attempt of a node. Raises TryAgain if there will be another, NodeError if it is the last.

    Raises Interrupted where no further node is to begin.
    """
    run.stopping.check()
    pool = VariablePool(values, node_ids=run.nodes)
    context = make_context(run, node, pool, path, emit, predecessor_node_id=predecessor_node_id)
    context.pool = pool.with_local_ids(node.local_ids)
    exceptions = 0
    try:
        try:
            exceptions = run_children(context)
        except NodeError as error:
            _start(context)
            return _failed(context, error, exceptions)
        _start(context)
        try:
            context.take(resolve_inputs(context))
            result = perform(context)
            _check_sizes(context, result)
        except FATAL as error:
            context.emit(failure(context, error))
            raise
        except Exception as error:
            if run.stopping.has_failed:  # beside another one: no further attempt, but told, and asked anew
                keep_failure(context)
                context.emit(failure(context, error))
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


def _check_sizes(context: NodeContext, result: NodeResult) -> None:
    """Raise TooLargeError for a node of a file whose values fill the memory; Python code may do that."""
    if context.node.scope is None:
        check_size(result.inputs)
        check_size(result.process_data)
        context.run.frame.room.take(check_size(_writes(context, result.outputs)))


def _start(context: NodeContext) -> None:
    """Tell that the node begins, at its first attempt only."""
    attempt = context.attempt
    if attempt.has_started:
        return
    attempt.has_started, attempt.start_at = True, datetime.now(UTC)
    context.emit(started(context))


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
        context.emit(failure(context, error))
        context.run.progress.end(context.path)
        raise failed
    outputs = {ERROR_MESSAGE: said(error), ERROR_TYPE: type(error).__name__}
    if node.error_strategy == "default-value":
        outputs = {**node.default_values, **outputs}
        result = NodeResult(outputs=outputs)
    else:
        result = NodeResult(outputs=outputs, edge_handle=FAIL_BRANCH)
    more = {"error_strategy": node.error_strategy, "outputs": outputs}
    context.emit(failure(context, error, NodeRunException, **more))
    _end(context)
    return Outcome(result, _writes(context, outputs), exceptions + 1)


def _end(context: NodeContext) -> None:
    """The node is done. Its parts stay to the end of the run: LangGraph has no result of it yet."""
    context.run.progress.end(context.path)


def _writes(context: NodeContext, outputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {**context.pool.writes, context.node.scope or context.node.id: dict(outputs)}


def run_children(context: NodeContext) -> int:
    """Run the virtual nodes that have not succeeded yet; their outputs go into the pool.

    Returns how many failures were taken up, those of earlier attempts and processes too: by the parent's
    strategy `default-value`, whose children have the extraction's default, or "", as their `text`, or inside
    of a child. Raises NodeError of a child that failed for good otherwise.
    """
    taken_up = 0
    for child in context.node.children:
        kept = _kept(context, child)
        if kept is None:
            try:
                kept = _run_child(context, child)
            except NodeError:
                if context.node.error_strategy != "default-value":
                    raise
                kept = {**child.node.default_values, "text": child.failed_value}, 1
            kept = _keep(context, child, kept)
        outputs, failures = kept
        taken_up += failures
        context.pool.writes[child.node.id] = dict(outputs)
    return taken_up


def _path(context: NodeContext, child: VirtualNode) -> str:
    return f"{context.path}/{child.local_id}"


def _kept(context: NodeContext, child: VirtualNode) -> ChildResult | None:
    """What an earlier attempt of the parent has left, or a process that was killed in it."""
    kept = context.run.progress.child_result(_path(context, child))
    if kept is not None:
        return kept
    found = context.finished(f"{_CHILD}/{child.local_id}")
    if found is MISSING:
        return None
    return found[0], found[1]


def _keep(context: NodeContext, child: VirtualNode, result: ChildResult) -> ChildResult:
    outputs, failures = context.finish(f"{_CHILD}/{child.local_id}", [dict(result[0]), result[1]])
    context.run.progress.keep_child(_path(context, child), (outputs, failures))
    return outputs, failures


def _run_child(parent: NodeContext, child: VirtualNode) -> ChildResult:
    context = make_context(
        parent.run,
        child.node,
        parent.pool.with_local_ids(child.node.local_ids),
        _path(parent, child),
        parent.stream,
        parent=parent.node,
        virtual=child,
    )
    try:
        failures = run_children(context)
        context.attempt.start_at = datetime.now(UTC)
        context.emit(started(context))
        result = with_children(context, _described(child, _attempts(context)))
        context.emit(success(context, result))
        return result.outputs, failures + sum(context.taken_up)
    finally:
        parent.run.progress.end(context.path)


def _attempts(context: NodeContext) -> NodeResult:
    """The child's attempts. Its retries are made here: to LangGraph it is no node."""
    while True:
        try:
            context.take(resolve_inputs(context))
            return perform(context)
        except FATAL as error:
            context.emit(failure(context, error))
            raise
        except Exception as error:  # noqa: BLE001  tried again, or raised as the node's failure
            if context.run.stopping.has_failed:
                keep_failure(context)
                context.emit(failure(context, error))
            context.run.stopping.check(error)
            if context.attempt.failures >= _retries(context, error):
                keep_failure(context)
                context.emit(failure(context, error))
                failed = as_node_error(error, context.node.id)
                raise failed from failed.__cause__
            context.attempt.failures += 1
            context.emit(_retry(context, error))
            time.sleep(_interval_s(context))


def _retries(context: NodeContext, error: Exception) -> int:
    """How often the child may be tried again after this error: as it says itself, else as its parent says.

    The parent's `retry` counts for failed requests only: it is meant for the parent's own work.
    """
    if context.node.retry is not None:
        return context.node.retries if _may_try_again(error) else 0
    if context.parent is None or not isinstance(error, LLMInvocationError):
        return 0
    return context.parent.retries


def _interval_s(context: NodeContext) -> float:
    retry = context.node.retry or (context.parent.retry if context.parent is not None else None)
    return retry.interval_s if retry is not None else 0.0


def _described(child: VirtualNode, result: NodeResult) -> NodeResult:
    """The result with what a reader of the records wants to know of an extraction."""
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
