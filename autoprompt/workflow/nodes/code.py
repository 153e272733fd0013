"""`code`: Python in the sandbox. A variable of a branch that was not taken is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoprompt.workflow.engine.code import run_code
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.mocks import MissingMockError
from autoprompt.workflow.engine.variables import check_size
from autoprompt.workflow.file.fields import is_of_type, typed_value
from autoprompt.workflow.file.outputs import needed_outputs
from autoprompt.workflow.file.records import CodeData, CodeOutput


class Code(NodeTypeBase):
    """`def main(...) -> dict`. Declared outputs have to be there and of their type; others are dropped."""

    data_model = CodeData
    takes_outputs = True

    def execute(self, data: CodeData, context: NodeContext) -> NodeResult:
        if data.code_language != "python3":
            kind = f"code in {data.code_language}"
            needed = needed_outputs(data, context.node.outputs.read)
            raise MissingMockError(kind, context.node.id, needed)
        given = {
            variable.variable: context.pool.get_if_ran(variable.value_selector)
            for variable in data.variables
            if variable.value_selector is not None
        }
        inputs = {**given, **context.inputs}
        check_size(inputs)
        with context.turn():
            found = run_code(data.code, inputs, context)
        return NodeResult(_declared(data.outputs, found, ""), inputs=inputs)

    def read_given(self, data: CodeData, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """A text, such as one of a table's cell, is read as what the output is declared as."""
        kinds = {name: output.type for name, output in data.outputs.items()}
        read = {name: typed_value(value, kinds.get(name, ""), name) for name, value in outputs.items()}
        for name, value in read.items():
            if name in kinds and value is not None and not is_of_type(value, kinds[name]):
                raise ValueError(f"{name} is {_shown(value)}, expected type {kinds[name]}")
        return read


def _declared(declared: dict[str, CodeOutput], found: dict[str, Any], path: str) -> dict[str, Any]:
    """The outputs that are declared. Raises ValueError for one that is not there or of another type."""
    if not declared:
        return found
    checked = {}
    for name, output in declared.items():
        where = f"{path}{name}"
        if name not in found:
            got = ", ".join(found) or "nothing"
            raise ValueError(f"main did not return the output {where!r}; it returned {got}")
        value = found[name]
        if value is not None and not is_of_type(value, output.type):
            raise ValueError(f"output {where!r} is {_shown(value)}, expected type {output.type}")
        if output.children and isinstance(value, dict):
            value = _declared(output.children, value, f"{where}.")
        checked[name] = value
    return checked


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({type(value).__name__})"


NODE_TYPE = Code()
