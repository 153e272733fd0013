"""Nodes that decide what runs: `if-else`, `iteration` over a list, `loop` with its `loop-end`."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from autoprompt.measure.rows import in_threads
from autoprompt.text.names import counted
from autoprompt.workflow.engine.conditions import (
    UNARY_OPERATORS,
    ComparisonError,
    LogicalOperator,
    combine,
    compare,
    parse_expression,
)
from autoprompt.workflow.engine.context import NodeContext, Stop
from autoprompt.workflow.engine.definition import Definition, NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import NodeError
from autoprompt.workflow.engine.graph import (
    LOOP_EVENTS,
    Passes,
    apply_writes,
    inner_answer,
    inner_output,
    run_inner,
)
from autoprompt.workflow.engine.template import only_reference, render_in
from autoprompt.workflow.engine.variables import Room, VariablePool, check_size, joined, merge_values
from autoprompt.workflow.file.fields import Condition, NodeData, typed_value
from autoprompt.workflow.file.records import IfElseData, IterationData, LoopData

_ELSE = "false"


class IfElse(NodeTypeBase):
    data_model = IfElseData

    def execute(self, data: IfElseData, context: NodeContext) -> NodeResult:
        tried: list[dict[str, Any]] = []
        taken = _ELSE
        for case in data.cases:
            holds = case_holds(case.conditions, case.logical_operator, case.expression, context.pool)
            tried.append({"case_id": case.case_id, "holds": holds})
            if holds:
                taken = case.case_id
                break
        outputs = {"result": bool(tried and tried[-1]["holds"]), "selected_case_id": taken}
        return NodeResult(outputs, process_data={"cases": tried}, edge_handle=taken)

    def mocked(self, data: IfElseData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        """Return the way that `selected_case_id` chooses; else `result`: the first case, or "false"."""
        first = data.cases[0].case_id
        taken = outputs.get("selected_case_id", first if outputs.get("result") else _ELSE)
        return NodeResult({"result": taken != _ELSE, **outputs}, edge_handle=str(taken))


def case_holds(
    conditions: Sequence[Condition], operator: LogicalOperator, expression: str, pool: VariablePool
) -> bool:
    """Return whether a list of comparisons, or a condition in one line, holds.

    A variable without a value is null. Comparisons after the one that decides are not made.

    Raises:
        ComparisonError: A comparison's values are of kinds that cannot be compared.
        ExpressionError: The condition in one line cannot be computed from these values.
    """
    if expression:
        return bool(parse_expression(expression).evaluate(pool.find))
    results = []
    for condition in conditions:
        results.append(condition_holds(condition, pool))
        if results[-1] == (operator == "or"):
            break
    return combine(results, operator)


def condition_holds(condition: Condition, pool: VariablePool) -> bool:
    """Return whether one comparison holds.

    Raises:
        ComparisonError: The values are of kinds that cannot be compared.
    """
    actual = pool.find(condition.variable_selector)
    try:
        if condition.sub_variable_condition is not None and isinstance(actual, list):
            return _any_item(condition, actual)
        return compare(condition.comparison_operator, actual, _expected(condition, pool))
    except ComparisonError as error:
        name = ".".join(condition.variable_selector)
        raise ComparisonError(f"condition on {name}: {error}") from error


def _expected(condition: Condition, pool: VariablePool) -> Any:
    """Return the value to compare with; one that is nothing but a reference keeps its kind."""
    if condition.comparison_operator in UNARY_OPERATORS:
        return None
    if isinstance(condition.value, str) and (selector := only_reference(condition.value)) is not None:
        return pool.find(selector)
    return render_in(condition.value, pool)


def _any_item(condition: Condition, items: list[Any]) -> bool:
    """Conditions on the fields of list items, such as files: `contains` asks for one, `all of` for all."""
    asked = condition.sub_variable_condition
    if asked is None:
        return False

    def holds(item: Any) -> bool:
        fields = item if isinstance(item, dict) else {}
        results = [
            compare(sub.comparison_operator, fields.get(sub.key), sub.value) for sub in asked.conditions
        ]
        return combine(results, asked.logical_operator)

    if condition.comparison_operator == "not contains":
        return not any(holds(item) for item in items)
    if condition.comparison_operator == "all of":
        return bool(items) and all(holds(item) for item in items)
    return any(holds(item) for item in items)


@dataclass(frozen=True)
class _Done:
    """What one item has left. error: why it has not, where the node goes on over failures.

    exceptions: failures inside of it that error strategies have taken up.
    """

    output: Any = None
    answer: str = ""
    writes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    error: str | None = None
    exceptions: int = 0


class Iteration(NodeTypeBase):
    """Inside, `{{#node.item#}}` and `{{#node.index#}}` are the item and its place.

    Results are in the order of the items, whatever came first. An item that is done is written down, so that
    a run that was killed does not do it again. One that failed among several at once is tried again by a
    resumed run; where they come one after the other it stays failed.
    """

    data_model = IterationData

    def execute(self, data: IterationData, context: NodeContext) -> NodeResult:
        items = _items(data, context)
        inner = context.node.inner
        if inner is None:
            raise ValueError("there are no nodes inside of this iteration")
        inputs = {"iterator_selector": items}
        passes, done, room = Passes(context), [_Done()] * len(items), Room()
        at_once = _at_once(data, context)
        with passes.reporting(inputs, {"iteration_length": len(items), "parallel": at_once}) as outputs:
            with closing(_each(data, passes, inner, items, min(at_once, len(items)))) as each:
                for number, item in each:
                    room.take(check_size([item.output, item.answer]))
                    done[number] = item
                    passes.count += 1
            if min(at_once, len(items)) > 1:
                _warn_of_lost(context, done)
            for item in done:
                apply_writes(context, item.writes)
            outputs |= _outputs(data, done)
            failed = [{"index": n, "error": one.error} for n, one in enumerate(done) if one.error is not None]
            if failed:
                context.warn(f"{len(failed)} of {counted(len(items), 'item')} failed")
        return NodeResult(outputs, inputs=inputs, process_data={"failed_items": failed} if failed else {})


def _items(data: IterationData, context: NodeContext) -> Sequence[Any]:
    value = context.pool.get(data.iterator_selector)
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        name = ".".join(data.iterator_selector)
        raise ValueError(f"{name} is {type(value).__name__}, expected a list to go through")
    return value


def _at_once(data: IterationData, context: NodeContext) -> int:
    if not data.is_parallel:
        return 1
    limit = context.run.max_concurrency
    return data.parallel_nums if limit is None else min(data.parallel_nums, limit)


def _each(
    data: IterationData, passes: Passes, inner: Definition, items: Sequence[Any], concurrency: int
) -> Generator[tuple[int, _Done]]:
    """(place, result) of each item, as they come."""
    around = copy_context()  # LangGraph's stream of events is found through it
    stop = Stop(passes.context.run.stopping)

    def work(number: int) -> _Done:
        try:
            return around.copy().run(_run_item, data, passes, inner, items, number, stop)
        except BaseException as error:
            stop.set(error)  # the items beside it end, too
            raise

    if concurrency > 1:
        with stop.telling_cause():
            yield from in_threads(range(len(items)), work, concurrency)
        return
    for number in range(len(items)):
        done = _run_item(data, passes, inner, items, number)
        # One after the other, an item sees what those before it have assigned.
        apply_writes(passes.context, done.writes)
        yield number, done


def _run_item(
    data: IterationData,
    passes: Passes,
    inner: Definition,
    items: Sequence[Any],
    number: int,
    stop: Stop | None = None,
) -> _Done:
    """stop: of the items beside it; None where they come one after the other."""
    context, part = passes.context, f"item/{number}"
    if (kept := passes.kept(part)) is not None:
        return _Done(**kept)
    passes.begin(number)
    values = {context.node_id: {"item": items[number], "index": number}}
    try:
        run = run_inner(context, inner, values, number, stop=stop)
    except NodeError as error:
        message = f"item {number + 1} of {len(items)} (index {number}) failed: {error}"
        passes.continue_after(error, message, data.error_handle_mode)
        done = _Done(error=str(error))
        if stop is not None:
            return done
        # Items behind it go on from what is there without it, and are not done again by a resumed run.
    else:
        output = inner_output(run, data.output_selector)
        done = _Done(output, inner_answer(run, inner), run.writes, exceptions=run.exceptions)
    return _Done(**context.finish(part, vars(done)))


def _warn_of_lost(context: NodeContext, done: Sequence[_Done]) -> None:
    """Items at work at once begin with the values before the iteration: of a sum, say, one is left."""
    assigned = Counter(
        f"{scope}.{name}"
        for item in done
        for scope, names in item.writes.items()
        for name in names
        if scope != context.node_id
    )
    lost = [name for name, times in assigned.items() if times > 1]
    if lost:
        context.warn(
            f"several items assigned {', '.join(lost)} at once, each to the value before the iteration: the "
            "last item's stays. To let each continue from the one before it, remove is_parallel."
        )


def _outputs(data: IterationData, done: Sequence[_Done]) -> dict[str, Any]:
    if data.error_handle_mode == "remove-abnormal-output":
        kept = [item.output for item in done if item.error is None and item.output is not None]
    else:
        kept = [item.output for item in done]
    outputs: dict[str, Any] = {"output": flattened(kept) if data.flatten_output else kept}
    answer = "".join(item.answer for item in done)
    return {**outputs, "answer": answer} if answer else outputs


def flattened(values: list[Any]) -> list[Any]:
    """Return one list of a list of lists, without its nulls; anything else as it is."""
    lists = [value for value in values if value is not None]
    if not lists or not all(isinstance(value, list) for value in lists):
        return values
    return [part for value in lists for part in value]


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
        passes, reason, answers = Passes(context, LOOP_EVENTS), "loop_completed", []
        with passes.reporting(inputs, {"loop_length": data.loop_count}) as outputs:
            if _stops_before(data, context, variables):
                reason = "loop_break"
            while passes.count < data.loop_count and reason != "loop_break":
                done = _pass(data, passes, inner, variables)
                variables = done["variables"]
                apply_writes(context, done["writes"])
                answers.append(done["answer"])
                passes.count += 1
                if done["stops"]:
                    reason = "loop_break"
            outputs |= {**variables, "loop_round": passes.count}
            if answer := joined(answers):
                outputs["answer"] = answer
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


def _pass(data: LoopData, passes: Passes, inner: Definition, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Run one pass; return its variables, the assignments outside, and whether it is the last one."""
    context, number, part = passes.context, passes.count, f"pass/{passes.count}"
    if (kept := passes.kept(part)) is not None:
        return kept
    passes.begin(number)
    try:
        run = run_inner(context, inner, {context.node_id: {**variables, "index": number}}, number)
    except NodeError as error:
        passes.continue_after(error, f"pass {number + 1} failed: {error}", data.error_handle_mode)
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
    return dict(context.finish(part, done))


def _has_ended(ran: Any, inner: Definition) -> bool:
    ends = {node.id for node in inner.nodes if node.type == _LOOP_END}
    return any(node_id in ends for node_id in ran)


def _stops(data: LoopData, pool: VariablePool) -> bool:
    if not data.break_conditions and not data.break_expression:
        return False
    return case_holds(data.break_conditions, data.logical_operator, data.break_expression, pool)


def _stops_before(data: LoopData, context: NodeContext, variables: Mapping[str, Any]) -> bool:
    """Return whether to stop at once; a condition on what only a pass gives is not asked before the first."""
    values = merge_values(context.pool.values, {context.node_id: dict(variables)})
    pool = context.pool.with_values(values)
    asked = [condition.variable_selector for condition in data.break_conditions]
    if data.break_expression:
        asked = list(parse_expression(data.break_expression).selectors)
    return all(pool.has(selector) for selector in asked) and _stops(data, pool)


class LoopEnd(NodeTypeBase):
    """Stops the loop around it after this pass."""

    data_model = NodeData

    def execute(self, data: NodeData, context: NodeContext) -> NodeResult:
        return NodeResult()
