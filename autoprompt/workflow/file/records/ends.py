"""The ways in and out: start, end, answer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, field_validator, model_validator

from autoprompt.workflow.file.fields import Flag, NamedSelectors, NodeData, Record, Text


class StartVariable(Record):
    """One input of the workflow. type: text-input, paragraph, number, select, checkbox, json_object, ..."""

    variable: str
    label: Text = ""
    type: Text = "text-input"
    required: Flag = False
    default: Any = None
    options: Annotated[tuple[Text, ...], BeforeValidator(lambda value: value or ())] = ()
    max_length: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return {"variable": value, "required": True} if isinstance(value, str) else value

    @field_validator("max_length", mode="before")
    @classmethod
    def _none_where_unset(cls, value: Any) -> Any:
        return value or None


class StartData(NodeData):
    variables: Annotated[tuple[StartVariable, ...], BeforeValidator(lambda value: value or ())] = ()


class EndData(NodeData):
    outputs: NamedSelectors = ()


class AnswerData(NodeData):
    answer: Text = ""
