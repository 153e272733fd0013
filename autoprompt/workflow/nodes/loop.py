"""`loop` and `loop-end`: the same steps again and again, until a condition holds or no pass is left."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import Definition, NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import NodeError
from autoprompt.workflow.engine.events import LoopFailed, LoopNext, LoopStarted, LoopSucceeded
from autoprompt.workflow.engine.expression import parse_expression
from autoprompt.workflow.engine.inner import apply_writes, inner_answer, run_inner
from autoprompt.workflow.engine.variables import MISSING, VariablePool, joined, merge_values
from autoprompt.workflow.file.fields import NodeData, typed_value
from autoprompt.workflow.file.records import LoopData
from autoprompt.workflow.nodes.if_else import case_holds

_LOOP_END = "loop-end"


class Loop(NodeTypeBase):
    """Loop variables live from pass to pass, under the loop's id; an assigner inside gives them new values.

    The conditions to stop are asked before the first pass, where all that they read is there already, and
    after each. A node of type loop-end stops at once after its pass.
    """

    data_model = LoopData

    def execute(self, data: LoopData, context: NodeContext) -> NodeResult:
        inner = context.node.inner
        if inner is None:
            raise ValueError("there are no nodes inside of this loop")
        variables = _first_values(data, context)
        inputs = {"loop_count": data.loop_count, **copy.deepcopy(variables)}
        context.emit(
            context.event(
                LoopStarted,
                start_at=datetime.now(UTC),
                inputs=inputs,
                metadata={"loop_length": data.loop_count},
            )
        )
        rounds, reason, answers = 0, "loop_completed", []
        if _stops_before(data, context, variables):
            reason = "loop_break"
        try:
            while rounds < data.loop_count and reason != "loop_break":
                done = _pass(data, context, inner, variables, rounds)
                variables = done["variables"]
                apply_writes(context, done["writes"])
                answers.append(done["answer"])
                rounds += 1
                if done["stops"]:
                    reason = "loop_break"
        except NodeError as error:
            context.emit(context.event(LoopFailed, steps=rounds, error=str(error)))
            raise
        outputs = {**variables, "loop_round": rounds}
        if answer := joined(answers):
            outputs["answer"] = answer
        context.emit(context.event(LoopSucceeded, steps=rounds, outputs=outputs))
        return NodeResult(outputs, inputs=inputs, process_data={"completed_reason": reason})


def _first_values(data: LoopData, context: NodeContext) -> dict[str, Any]:
    found = {}
    for variable in data.loop_variables:
        if variable.value_selector is not None:
            found[variable.label] = copy.deepcopy(context.pool.get(variable.value_selector))
        else:
            found[variable.label] = typed_value(
                variable.value, variable.var_type, f"loop variable {variable.label!r}"
            )
    return found


def _pass(
    data: LoopData, context: NodeContext, inner: Definition, variables: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """One pass, as plain data: variables at its end, assignments outside, whether it is the last one."""
    kept = context.finished(f"pass/{number}")
    if kept is not MISSING:
        context.taken_up.append(kept["exceptions"])
        return dict(kept)
    context.emit(context.event(LoopNext, pass_index=number))
    own = {**variables, "index": number}
    try:
        run = run_inner(context, inner, {context.node_id: own}, number)
    except NodeError as error:
        message = f"pass {number + 1} failed: {error}"
        if data.error_handle_mode == "terminated":
            failed = NodeError(message, node_id=context.node_id)
            failed.exit_code = error.exit_code
            raise failed from error
        context.warn(message)
        # Kept too: passes behind it go on from what is there without it.
        done = {"variables": dict(variables), "writes": {}, "answer": "", "stops": False, "exceptions": 0}
    else:
        written = run.writes.get(context.node_id, {})
        done = {
            "variables": {name: written.get(name, value) for name, value in variables.items()},
            "writes": run.writes,
            "answer": inner_answer(run, inner),
            "stops": _has_ended(run.ran, inner) or _stops(data, run.pool),
            "exceptions": run.exceptions,
        }
    return dict(context.finish(f"pass/{number}", done))


def _has_ended(ran: Any, inner: Definition) -> bool:
    ends = {node.id for node in inner.nodes if node.type == _LOOP_END}
    return any(node_id in ends for node_id in ran)


def _stops(data: LoopData, pool: VariablePool) -> bool:
    if not data.break_conditions and not data.break_expression:
        return False
    return case_holds(data.break_conditions, data.logical_operator, data.break_expression, pool)


def _stops_before(data: LoopData, context: NodeContext, variables: Mapping[str, Any]) -> bool:
    """A condition on what only a pass can give is not asked before the first one."""
    values = merge_values(context.pool.values, {context.node_id: dict(variables)})
    pool = context.pool.with_values(values)
    asked = [condition.variable_selector for condition in data.break_conditions]
    if data.break_expression:
        asked = list(parse_expression(data.break_expression).selectors)
    return all(pool.has(selector) for selector in asked) and _stops(data, pool)


LOOP = Loop()


class LoopEnd(NodeTypeBase):
    """Stops the loop around it after this pass."""

    data_model = NodeData

    def execute(self, data: NodeData, context: NodeContext) -> NodeResult:
        return NodeResult()


LOOP_END = LoopEnd()
