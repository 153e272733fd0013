"""Where a workflow begins and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from autoprompt.errors import InputError
from autoprompt.workflow.engine.errors import suggestion
from autoprompt.workflow.python.base import ITERATION_COUNT, BaseNode, WorkflowContext


class StartNode(BaseNode):
    """Says which variables the workflow needs.

    A missing one is an error in a workflow, and a warning in the passes of an IterativeWorkflowNode, whose
    mapping may leave one out of the first pass on purpose.
    """

    node_type: ClassVar[str] = "start"

    def __init__(
        self, node_id: str, node_name: str, variables: Sequence[str] = (), next_node_id: str | None = None
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        self.variables = tuple(variables)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        missing = [name for name in self.variables if name not in context]
        if not missing:
            return context
        message = f"no value for {', '.join(missing)}"
        if ITERATION_COUNT not in context:
            raise InputError(f"{message}. {suggestion(missing[0], context) or 'No variable is given.'}")
        self.working_context().warn(message)
        return context

    @property
    def output_names(self) -> tuple[str, ...]:
        return ()


class EndNode(BaseNode):
    """Ends the workflow, wherever it stands in the list.

    output_variables: what the result holds; default: all variables. One that has no value is None there.
    """

    node_type: ClassVar[str] = "end"

    def __init__(self, node_id: str, node_name: str, output_variables: Sequence[str] | None = None) -> None:
        super().__init__(node_id, node_name)
        self.output_variables = None if output_variables is None else tuple(output_variables)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        for name in self.output_variables or ():
            if name not in context:
                self.working_context().warn(f"output {name!r} has no value")
        return context

    @property
    def output_names(self) -> tuple[str, ...]:
        return ()
