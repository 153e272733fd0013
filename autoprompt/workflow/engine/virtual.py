"""Virtual nodes: complete nodes that run as a part of their parent, before it, in the order of their list."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from autoprompt.workflow.engine.attempt import (
    failure,
    keep_failure,
    make_context,
    perform,
    resolve_inputs,
    said,
    started,
    success,
    with_children,
)
from autoprompt.workflow.engine.context import ChildResult, NodeContext
from autoprompt.workflow.engine.definition import NodeResult, VirtualNode
from autoprompt.workflow.engine.errors import (
    FATAL,
    ExtractionError,
    LLMInvocationError,
    NodeError,
    as_node_error,
)
from autoprompt.workflow.engine.events import NodeRunRetry
from autoprompt.workflow.engine.variables import MISSING

_CHILD = "virtual"  # the part under which outputs and taken-up failures of a virtual node are kept


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
    return (found, 0) if isinstance(found, Mapping) else (found[0], found[1])  # outputs alone: an older run


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
            context.emit(
                context.event(
                    NodeRunRetry,
                    retry_index=context.attempt.failures,
                    error=said(error),
                    start_at=context.attempt.start_at,
                )
            )
            time.sleep(_interval_s(context))


def _retries(context: NodeContext, error: Exception) -> int:
    """How often the child may be tried again after this error: as it says itself, else as its parent says.

    The parent's word holds for failed requests only: it was said of the parent's own work.
    """
    if context.node.retry is not None:
        may_help = isinstance(error, LLMInvocationError) or not isinstance(error, ExtractionError)
        return context.node.retries if may_help else 0
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
