"""`loop-end`: stops the loop that it stands in, after this pass."""

from __future__ import annotations

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.file.fields import NodeData


class LoopEnd(NodeTypeBase):
    data_model = NodeData

    def execute(self, data: NodeData, context: NodeContext) -> NodeResult:
        return NodeResult()


NODE_TYPE = LoopEnd()
