"""`list-operator`: filters, orders and shortens a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoprompt.workflow.engine.conditions import compare
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import render_in
from autoprompt.workflow.file.records import ListOperatorData


class ListOperator(NodeTypeBase):
    """Puts out `result`, `first_record` and `last_record`, null where the list is empty."""

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
    """The item of a number, from 1."""
    if not 1 <= serial <= len(items):
        raise ValueError(f"there is no item {serial}, the list has {len(items)}")
    return [items[serial - 1]]


NODE_TYPE = ListOperator()
