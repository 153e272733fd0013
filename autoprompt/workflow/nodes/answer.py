"""`answer`: a piece of what a chat says. Several of them are joined in the order in which they run.

A variable of a branch that was not taken is left out, as in the text that Dify's users are shown.
"""

from __future__ import annotations

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import as_markdown, render
from autoprompt.workflow.file.records import AnswerData


class Answer(NodeTypeBase):
    data_model = AnswerData

    def execute(self, data: AnswerData, context: NodeContext) -> NodeResult:
        text = render(data.answer, context.pool, write=as_markdown, has_all=False)
        context.chunk(text, "answer")
        return NodeResult(outputs={"answer": text})


NODE_TYPE = Answer()
