"""`end`: what the workflow hands back. A variable of a branch that was not taken is null."""

from __future__ import annotations

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.file.records import EndData


class End(NodeTypeBase):
    data_model = EndData

    def execute(self, data: EndData, context: NodeContext) -> NodeResult:
        found = {
            output.variable: context.pool.find(output.value_selector) if output.value_selector else None
            for output in data.outputs
        }
        return NodeResult(outputs=found, inputs=found)


NODE_TYPE = End()
