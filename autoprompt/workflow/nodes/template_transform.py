"""`template-transform`: a text made with Jinja2, in its sandbox. A branch that was not taken gives None."""

from __future__ import annotations

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import render_jinja
from autoprompt.workflow.file.records import TemplateData


class TemplateTransform(NodeTypeBase):
    data_model = TemplateData

    def execute(self, data: TemplateData, context: NodeContext) -> NodeResult:
        given = {
            variable.variable: context.pool.get_if_ran(variable.value_selector)
            for variable in data.variables
            if variable.value_selector is not None
        }
        values = {**given, **context.inputs}
        return NodeResult({"output": render_jinja(data.template, values)}, inputs=values)


NODE_TYPE = TemplateTransform()
