"""Ways that part and meet, and variables that are set: if-else, variable-aggregator, assigner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from autoprompt.workflow.engine.conditions import LogicalOperator
from autoprompt.workflow.file.fields import (
    Condition,
    Flag,
    Identifier,
    NodeData,
    PathSelector,
    Record,
    Text,
    listed_selector,
)


class Case(Record):
    """One way out of a branch. expression: a condition in one line instead of a list of comparisons."""

    case_id: Identifier = Field(validation_alias=AliasChoices("case_id", "id"))
    logical_operator: LogicalOperator = "and"
    conditions: tuple[Condition, ...] = ()
    expression: Text = Field(default="", validation_alias=AliasChoices("expression", "condition", "if"))


class IfElseData(NodeData):
    """A case that holds leaves by the handle of its id; none: by "false". Older exports have one case."""

    cases: tuple[Case, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _one_case(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("cases"):
            return value
        names = ("conditions", "expression", "condition", "if")
        given = {name: value[name] for name in names if value.get(name)}
        if not given:
            return value
        operator = value.get("logical_operator") or "and"
        return {**value, "cases": [{"case_id": "true", "logical_operator": operator, **given}]}


class AggregatorGroup(Record):
    group_name: str
    output_type: Text = ""
    variables: tuple[PathSelector, ...] = ()


class AggregatorSettings(Record):
    group_enabled: Flag = False
    groups: tuple[AggregatorGroup, ...] = ()


class AggregatorData(NodeData):
    output_type: Text = ""
    variables: tuple[PathSelector, ...] = ()
    advanced_settings: AggregatorSettings | None = None

    @property
    def groups(self) -> tuple[AggregatorGroup, ...]:
        settings = self.advanced_settings
        return settings.groups if settings is not None and settings.group_enabled else ()


Operation = Literal[
    "over-write",
    "clear",
    "append",
    "extend",
    "set",
    "+=",
    "-=",
    "*=",
    "/=",
    "remove-first",
    "remove-last",
]

WITHOUT_VALUE = ("clear", "remove-first", "remove-last")  # editors leave there what an earlier choice needed


class AssignedItem(Record):
    variable_selector: PathSelector
    operation: Operation = "over-write"
    input_type: Literal["variable", "constant"] = "constant"
    value: Any = None

    @property
    def value_selector(self) -> tuple[str, ...] | None:
        """Where the value comes from, for an operation that takes one from a variable."""
        is_taken = self.input_type == "variable" and self.operation not in WITHOUT_VALUE
        return listed_selector(self.value) if is_taken else None


class AssignerData(NodeData):
    """The first version of the node, with one assignment, is read as a list of one."""

    items: tuple[AssignedItem, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _of_first_version(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("items") or "assigned_variable_selector" not in value:
            return value
        item = {
            "variable_selector": value["assigned_variable_selector"],
            "operation": value.get("write_mode") or "over-write",
            "input_type": "variable",
            "value": value.get("input_variable_selector"),
        }
        return {**value, "items": [item]}
