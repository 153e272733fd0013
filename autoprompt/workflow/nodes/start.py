"""`start`: the inputs of the workflow."""

from __future__ import annotations

from autoprompt.workflow.context import NodeContext
from autoprompt.workflow.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.spec.records import StartData


class Start(NodeTypeBase):
    data_model = StartData

    def execute(self, data: StartData, context: NodeContext) -> NodeResult:
        # The run's first values hold the inputs, checked, under the id of this node.
        given = dict(context.pool.values.get(context.node_id, {}))
        return NodeResult(outputs=given, inputs=given)


NODE_TYPE = Start()
