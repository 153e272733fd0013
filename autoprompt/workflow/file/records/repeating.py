"""Containers: iteration, loop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from autoprompt.workflow.engine.conditions import LogicalOperator
from autoprompt.workflow.file.fields import (
    Condition,
    Flag,
    MaybeSelector,
    NodeData,
    PathSelector,
    Record,
    Text,
    listed_selector,
)


class IterationData(NodeData):
    """parallel_nums: items at once. flatten_output: lists in a list become one list."""

    iterator_selector: PathSelector
    output_selector: MaybeSelector = None
    is_parallel: Flag = False
    parallel_nums: int = Field(default=10, ge=1)
    error_handle_mode: Literal["terminated", "continue-on-error", "remove-abnormal-output"] = "terminated"
    flatten_output: bool = True


class LoopVariable(Record):
    label: str
    var_type: Text = ""
    value_type: Literal["constant", "variable"] = "constant"
    value: Any = None

    @property
    def value_selector(self) -> tuple[str, ...] | None:
        """Where the value comes from, for one that is a variable."""
        return listed_selector(self.value) if self.value_type == "variable" else None


class LoopData(NodeData):
    """break_expression: a condition in one line instead of `break_conditions`."""

    loop_count: int = Field(ge=1)
    break_conditions: Annotated[tuple[Condition, ...], BeforeValidator(lambda value: value or ())] = ()
    logical_operator: LogicalOperator = "and"
    loop_variables: Annotated[tuple[LoopVariable, ...], BeforeValidator(lambda value: value or ())] = ()
    break_expression: Text = ""
    error_handle_mode: Literal["terminated", "continue-on-error", "remove-abnormal-output"] = "terminated"
