"""Nodes that only hand on or compute values.

`start`, `end`, `answer`, `template-transform`, `variable-aggregator`, `list-operator`, `assigner`.

A variable of a branch that was not taken is null in an output. In an answer it is left out, as in the text
that Dify's users see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autoprompt.workflow.engine.conditions import ComparisonError, as_bool, as_number, compare
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import (
    Selector,
    as_markdown,
    only_reference,
    render,
    render_in,
    render_jinja,
)
from autoprompt.workflow.engine.variables import product
from autoprompt.workflow.file.records import (
    WITHOUT_VALUE,
    AggregatorData,
    AnswerData,
    AssignedItem,
    AssignerData,
    EndData,
    ListOperatorData,
    StartData,
    TemplateData,
)


class Start(NodeTypeBase):
    """Puts out the inputs of the workflow."""

    data_model = StartData

    def execute(self, data: StartData, context: NodeContext) -> NodeResult:
        # The run's first values hold the inputs, checked, under the id of this node.
        given = dict(context.pool.values.get(context.node_id, {}))
        return NodeResult(outputs=given, inputs=given)


class End(NodeTypeBase):
    """Puts out what the workflow returns."""

    data_model = EndData

    def execute(self, data: EndData, context: NodeContext) -> NodeResult:
        found = {
            output.variable: context.pool.find(output.value_selector) if output.value_selector else None
            for output in data.outputs
        }
        return NodeResult(outputs=found, inputs=found)


class Answer(NodeTypeBase):
    """Adds a text to the chat's answer. Several are joined in the order in which they run."""

    data_model = AnswerData

    def execute(self, data: AnswerData, context: NodeContext) -> NodeResult:
        text = render(data.answer, context.pool, write=as_markdown, has_all=False)
        context.chunk(text, "answer")
        return NodeResult(outputs={"answer": text})


_KEEP = object()  # a variable that is null assigns nothing, as in Dify


class TemplateTransform(NodeTypeBase):
    """Fills a Jinja2 template in the sandbox. A variable of a branch that was not taken is None."""

    data_model = TemplateData

    def execute(self, data: TemplateData, context: NodeContext) -> NodeResult:
        given = {
            variable.variable: context.pool.get_if_ran(variable.value_selector)
            for variable in data.variables
            if variable.value_selector is not None
        }
        values = {**given, **context.inputs}
        return NodeResult({"output": render_jinja(data.template, values)}, inputs=values)


class VariableAggregator(NodeTypeBase):
    """Puts out the first of several variables that has a value, where branches meet again."""

    data_model = AggregatorData

    def execute(self, data: AggregatorData, context: NodeContext) -> NodeResult:
        """Put out the first value. With groups, each is an output of its name: `{{#node.Group1.output#}}`."""
        if not data.groups:
            return NodeResult({"output": _first(data.variables, context)})
        return NodeResult(
            {group.group_name: {"output": _first(group.variables, context)} for group in data.groups}
        )


def _first(selectors: Iterable[Selector], context: NodeContext) -> Any:
    """Of a variable that is there and null, nothing is taken: another branch may have one."""
    found = (context.pool.find(selector) for selector in selectors)
    return next((value for value in found if value is not None), None)


class ListOperator(NodeTypeBase):
    """Filters, sorts and shortens a list.

    Puts out `result`, `first_record` and `last_record`, null if the list is empty.
    """

    data_model = ListOperatorData

    def execute(self, data: ListOperatorData, context: NodeContext) -> NodeResult:
        value = context.pool.get(data.variable)
        items = list(value) if isinstance(value, list | tuple) else [] if value is None else None
        if items is None:
            raise ValueError(f"{'.'.join(data.variable)} is {type(value).__name__}, expected a list")
        for condition in data.filter_by.conditions if data.filter_by.enabled else ():
            operator = str(condition.get("comparison_operator", "contains"))
            wanted = render_in(condition.get("value"), context.pool)
            key = str(condition.get("key") or "")
            items = [item for item in items if compare(operator, _field(item, key), wanted)]
        if data.extract_by.enabled:
            items = _extracted(items, int(render_in(data.extract_by.serial, context.pool)))
        if data.order_by.enabled:
            key = data.order_by.key
            items.sort(key=lambda item: _field(item, key), reverse=data.order_by.value == "desc")
        if data.limit.enabled and data.limit.size >= 0:
            items = items[: data.limit.size]
        return NodeResult(
            {
                "result": items,
                "first_record": items[0] if items else None,
                "last_record": items[-1] if items else None,
            },
            inputs={"variable": value},
        )


def _field(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, Mapping) else item


def _extracted(items: list[Any], serial: int) -> list[Any]:
    """Return the item of a number, from 1."""
    if not 1 <= serial <= len(items):
        raise ValueError(f"there is no item {serial}, the list has {len(items)}")
    return [items[serial - 1]]


class Assigner(NodeTypeBase):
    """Assigns new values to variables of the conversation, or of the loop around it.

    Items are done in order; each sees what those before it have assigned.
    """

    data_model = AssignerData

    def execute(self, data: AssignerData, context: NodeContext) -> NodeResult:
        assigned: dict[str, Any] = {}
        for item in data.items:
            name = ".".join(item.variable_selector)
            current = context.pool.get(item.variable_selector)
            try:
                given = _assigned_value(item, current, context)
                if given is _KEEP:
                    continue
                value = _OPERATIONS[item.operation](current, given)
                context.pool.set(item.variable_selector, value)
            except (ComparisonError, TypeError, ArithmeticError, ValueError, RecursionError) as error:
                raise ValueError(f"{name} {item.operation}: {error}") from error
            assigned[name] = value
        return NodeResult(process_data={"assigned": assigned})


def _assigned_value(item: AssignedItem, current: Any, context: NodeContext) -> Any:
    if item.operation in WITHOUT_VALUE:
        return None
    if item.input_type == "variable":
        if item.value_selector is None:
            raise ValueError("names no variable to take the value from")
        value = context.pool.get(item.value_selector)
        return _KEEP if value is None else value
    value = item.value
    if isinstance(value, str):
        selector = only_reference(value)
        value = render(value, context.pool) if selector is None else context.pool.get(selector)
    return value if item.operation in ("append", "extend") else _like(current, value)


def _like(current: Any, value: Any) -> Any:
    """Return a constant of an editor's text field as the kind that the variable has."""
    if not isinstance(value, str) or isinstance(current, str):
        return value
    if isinstance(current, bool):
        return as_bool(value)
    if isinstance(current, int | float):
        return as_number(value)
    if isinstance(current, list | dict):
        read = json.loads(value)
        if not isinstance(read, type(current)):
            raise ValueError(f"{value!r} is no {'list' if isinstance(current, list) else 'object'}")
        return read
    return value


def _clear(current: Any, _: Any) -> Any:
    return type(current)() if current is not None else None


def _list(current: Any) -> list[Any]:
    if not isinstance(current, list):
        raise ValueError(f"the variable is not a list, it is {type(current).__name__}")
    return current


def _extend(current: Any, given: Any) -> Any:
    if not isinstance(given, list):
        raise ValueError(f"a list is asked for, found {type(given).__name__}")
    return [*_list(current), *given]


def _number(operation: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    return lambda current, given: operation(as_number(current), as_number(given))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "over-write": lambda _, given: given,
    "set": lambda _, given: given,
    "clear": _clear,
    "append": lambda current, given: [*_list(current), given],
    "extend": _extend,
    "remove-first": lambda current, _: _list(current)[1:],
    "remove-last": lambda current, _: _list(current)[:-1],
    "+=": _number(lambda current, given: current + given),
    "-=": _number(lambda current, given: current - given),
    "*=": _number(product),
    "/=": _number(lambda current, given: current / given),
}
