"""`variable-aggregator`: the first of several variables that has a value, for branches that meet again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import Selector
from autoprompt.workflow.file.records import AggregatorData


class VariableAggregator(NodeTypeBase):
    data_model = AggregatorData

    def execute(self, data: AggregatorData, context: NodeContext) -> NodeResult:
        """With groups, each is an output of its name: `{{#node.Group1.output#}}`."""
        if not data.groups:
            return NodeResult({"output": _first(data.variables, context)})
        return NodeResult(
            {group.group_name: {"output": _first(group.variables, context)} for group in data.groups}
        )


def _first(selectors: Iterable[Selector], context: NodeContext) -> Any:
    """Of a variable that is there and null, nothing is taken: another branch may have one."""
    found = (context.pool.find(selector) for selector in selectors)
    return next((value for value in found if value is not None), None)


NODE_TYPE = VariableAggregator()
