"""`start`, `end` and `answer`: the inputs of a workflow, its outputs, and what a chat says.

A variable of a branch that was not taken is null in an output. In an answer it is left out, as in the text
that Dify's users see.
"""

from __future__ import annotations

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import as_markdown, render
from autoprompt.workflow.file.records import AnswerData, EndData, StartData


class Start(NodeTypeBase):
    """Puts out the inputs of the workflow."""

    data_model = StartData

    def execute(self, data: StartData, context: NodeContext) -> NodeResult:
        # The run's first values hold the inputs, checked, under the id of this node.
        given = dict(context.pool.values.get(context.node_id, {}))
        return NodeResult(outputs=given, inputs=given)


START = Start()


class End(NodeTypeBase):
    """Puts out what the workflow returns."""

    data_model = EndData

    def execute(self, data: EndData, context: NodeContext) -> NodeResult:
        found = {
            output.variable: context.pool.find(output.value_selector) if output.value_selector else None
            for output in data.outputs
        }
        return NodeResult(outputs=found, inputs=found)


END = End()


class Answer(NodeTypeBase):
    """Adds a text to the chat's answer. Several are joined in the order in which they run."""

    data_model = AnswerData

    def execute(self, data: AnswerData, context: NodeContext) -> NodeResult:
        text = render(data.answer, context.pool, write=as_markdown, has_all=False)
        context.chunk(text, "answer")
        return NodeResult(outputs={"answer": text})


ANSWER = Answer()
