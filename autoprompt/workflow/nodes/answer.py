"""`answer`: a piece of what a chat says. Several of them are joined in the order in which they run."""

from __future__ import annotations

from autoprompt.workflow.context import NodeContext
from autoprompt.workflow.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.spec.records import AnswerData
from autoprompt.workflow.template import render


class Answer(NodeTypeBase):
    data_model = AnswerData

    def execute(self, data: AnswerData, context: NodeContext) -> NodeResult:
        text = render(data.answer, context.pool)
        context.chunk(text, "answer")
        return NodeResult(outputs={"answer": text})


NODE_TYPE = Answer()
