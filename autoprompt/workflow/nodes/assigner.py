"""`assigner`: gives variables of the conversation, or of the loop around it, new values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from autoprompt.workflow.engine.conditions import ComparisonError, as_bool, as_number
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import only_reference, render
from autoprompt.workflow.engine.variables import product
from autoprompt.workflow.file.records import WITHOUT_VALUE, AssignedItem, AssignerData


class Assigner(NodeTypeBase):
    """Items are done in order; each sees what those before it have assigned."""

    data_model = AssignerData

    def execute(self, data: AssignerData, context: NodeContext) -> NodeResult:
        assigned: dict[str, Any] = {}
        for item in data.items:
            name = ".".join(item.variable_selector)
            current = context.pool.get(item.variable_selector)
            try:
                given = _given(item, current, context)
                if given is _KEEP:
                    continue
                value = _OPERATIONS[item.operation](current, given)
                context.pool.set(item.variable_selector, value)
            except (ComparisonError, TypeError, ArithmeticError, ValueError, RecursionError) as error:
                raise ValueError(f"{name} {item.operation}: {error}") from error
            assigned[name] = value
        return NodeResult(process_data={"assigned": assigned})


_KEEP = object()  # a variable that is null assigns nothing, as in Dify


def _given(item: AssignedItem, current: Any, context: NodeContext) -> Any:
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
    """A constant of an editor's text field as the kind that the variable has."""
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
        raise ValueError(f"the variable is no list, it is {type(current).__name__}")
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

NODE_TYPE = Assigner()
