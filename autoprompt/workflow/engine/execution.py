"""One node at work, around what its type does: children first, events, mocks, retries, error strategy.

LangGraph calls `run_node` again for every attempt (its retry policy waits in between); what must not happen
twice, such as a virtual node that has succeeded, is remembered in `RunContext.progress`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

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
from autoprompt.workflow.engine.context import Emit, NodeContext, RunContext
from autoprompt.workflow.engine.definition import FAIL_BRANCH, GraphNode, NodeResult
from autoprompt.workflow.engine.errors import (
    FATAL,
    ExtractionError,
    LLMInvocationError,
    NodeError,
    as_node_error,
)
from autoprompt.workflow.engine.events import NodeRunException, NodeRunRetry
from autoprompt.workflow.engine.sizes import check_size
from autoprompt.workflow.engine.variables import ERROR_MESSAGE, ERROR_TYPE, VariablePool
from autoprompt.workflow.engine.virtual import run_children


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
