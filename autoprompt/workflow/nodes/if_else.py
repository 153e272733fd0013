"""`if-else`: the way out of the first case that holds, else "false"; and when conditions of a file hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.workflow.engine.conditions import (
    UNARY_OPERATORS,
    ComparisonError,
    LogicalOperator,
    combine,
    compare,
)
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.expression import parse_expression
from autoprompt.workflow.engine.template import only_reference, render_in
from autoprompt.workflow.engine.variables import VariablePool
from autoprompt.workflow.file.fields import Condition
from autoprompt.workflow.file.records import IfElseData

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
        """`selected_case_id` chooses the way; else `result`: the first case, or "false"."""
        first = data.cases[0].case_id
        taken = outputs.get("selected_case_id", first if outputs.get("result") else _ELSE)
        return NodeResult({"result": taken != _ELSE, **outputs}, edge_handle=str(taken))


NODE_TYPE = IfElse()


def case_holds(
    conditions: Sequence[Condition], operator: LogicalOperator, expression: str, pool: VariablePool
) -> bool:
    """Whether a list of comparisons, or a condition in one line, holds.

    A variable that is not there is null. Comparisons after the one that decides are not made.
    Raises ComparisonError or ExpressionError for values that cannot be compared.
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
    """Whether one comparison holds. Raises ComparisonError."""
    actual = pool.find(condition.variable_selector)
    try:
        if condition.sub_variable_condition is not None and isinstance(actual, list):
            return _any_item(condition, actual)
        return compare(condition.comparison_operator, actual, _expected(condition, pool))
    except ComparisonError as error:
        name = ".".join(condition.variable_selector)
        raise ComparisonError(f"condition on {name}: {error}") from error


def _expected(condition: Condition, pool: VariablePool) -> Any:
    """The value to compare with; one that is nothing but a reference keeps its kind."""
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
