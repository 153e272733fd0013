"""Steps that call a function of one's own, or run code in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from autoprompt.workflow.engine.code import run_code
from autoprompt.workflow.engine.definition import NodeResult
from autoprompt.workflow.engine.errors import VariableNotFoundError, WorkflowDefinitionError
from autoprompt.workflow.engine.tools import as_tool
from autoprompt.workflow.python.base import BaseNode, WorkflowContext


class ToolNode(BaseNode):
    """Calls a tool and puts what it returns under `output_variable_name`.

    tool: a function, the name of a registered one (see `tool`), or a LangChain tool.
    inputs: the tool's parameters and the variables that they take; constants: fixed ones.
    """

    node_type: ClassVar[str] = "tool"

    def __init__(
        self,
        node_id: str,
        node_name: str,
        tool: str | Callable[..., Any],
        inputs: Mapping[str, str] | Sequence[str] = (),
        output_variable_name: str = "tool_output",
        next_node_id: str | None = None,
        *,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        self.tool = tool
        self.inputs = _by_parameter(inputs)
        self.constants = dict(constants or {})
        self.output_variable_name = output_variable_name

    @property
    def output_names(self) -> tuple[str, ...]:
        return (self.output_variable_name,)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        arguments = {**self.constants, **_taken(self.inputs, context)}
        at_work = self.working_context()
        at_work.noted = NodeResult(inputs=arguments)
        called = as_tool(self.tool)
        with at_work.turn():
            result = called.invoke(arguments)
        return {**context, self.output_variable_name: result}


class CodeNode(BaseNode):
    """Runs Python in the sandbox: `def main(...) -> dict`, whose keys become variables.

    inputs: the parameters of `main` and the variables that they take; equal names can be listed.
    outputs: the keys that it has to return, no more and no less; default: whatever it returns.
    """

    node_type: ClassVar[str] = "code"

    def __init__(
        self,
        node_id: str,
        node_name: str,
        code: str,
        inputs: Mapping[str, str] | Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        next_node_id: str | None = None,
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        if not code.strip():
            raise WorkflowDefinitionError(f"CodeNode {node_id!r} has no code")
        self.code = code
        self.inputs = _by_parameter(inputs)
        self.outputs = None if outputs is None else tuple(outputs)

    @property
    def output_names(self) -> tuple[str, ...] | None:
        return self.outputs

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        at_work = self.working_context()
        arguments = _taken(self.inputs, context)
        at_work.noted = NodeResult(inputs=arguments)
        with at_work.turn():
            outputs = run_code(self.code, arguments, at_work)
        if self.outputs is not None and set(outputs) != set(self.outputs):
            raise ValueError(
                f"main returned {', '.join(outputs) or 'nothing'}; expected {', '.join(self.outputs)}"
            )
        return {**context, **outputs}


def _by_parameter(inputs: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    return dict(inputs) if isinstance(inputs, Mapping) else {name: name for name in inputs}


def _taken(inputs: Mapping[str, str], context: WorkflowContext) -> dict[str, Any]:
    for variable in inputs.values():
        if variable not in context:
            raise VariableNotFoundError((variable,), context)
    return {parameter: context[variable] for parameter, variable in inputs.items()}
