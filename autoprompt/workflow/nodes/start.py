"""`start`: the inputs of the workflow."""

from __future__ import annotations

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.file.records import StartData


class Start(NodeTypeBase):
    data_model = StartData

    def execute(self, data: StartData, context: NodeContext) -> NodeResult:
        # The run's first values hold the inputs, checked, under the id of this node.
        given = dict(context.pool.values.get(context.node_id, {}))
        return NodeResult(outputs=given, inputs=given)


NODE_TYPE = Start()
