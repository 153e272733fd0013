"""Nodes that work something out: tool, code, template-transform."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from autoprompt.text.names import counted
from autoprompt.workflow.engine.template import check_jinja
from autoprompt.workflow.engine.tools import HttpTool
from autoprompt.workflow.file.fields import Input, Mapped, NamedSelectors, NodeData, Record, Text

_MAX_CODE = 400_000  # characters; of short lines, Python parses so many in a second


class ToolData(NodeData):
    """tool_configurations: what the editor's form fixed; tool_parameters: what a run gives."""

    tool_name: str
    provider_id: Text = ""
    provider_name: Text = ""
    tool_label: Text = ""
    tool_parameters: dict[str, Input] = Field(default_factory=dict)
    tool_configurations: Mapped = Field(default_factory=dict)
    http_tools: dict[str, HttpTool] = Field(default_factory=dict)  # those that the file brings

    @property
    def tool_names(self) -> tuple[str, ...]:
        return (self.tool_name,)

    @field_validator("tool_parameters", mode="before")
    @classmethod
    def _given_ones(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value or {}
        return {
            str(name): given
            for name, given in value.items()
            if given is not None and not (isinstance(given, Mapping) and given.get("value", given) is None)
        }


class CodeOutput(Record):
    type: str
    children: dict[str, CodeOutput] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value


class CodeData(NodeData):
    code: str
    code_language: Literal["python3", "javascript"] = "python3"
    variables: NamedSelectors = ()
    outputs: Annotated[dict[str, CodeOutput], BeforeValidator(lambda value: value or {})] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        """Told when the file is checked: at run time the nodes before it would be paid for first."""
        if len(self.code) > _MAX_CODE:
            raise ValueError(
                f"code of {counted(len(self.code), 'character')}, expected at most {_MAX_CODE:,}"
            )
        if self.code_language == "python3":
            try:
                with warnings.catch_warnings(action="ignore"):
                    ast.parse(self.code)
            except SyntaxError as error:
                raise ValueError(f"code line {error.lineno} is no Python: {error.msg}") from error
            except (RecursionError, MemoryError) as error:  # what the parser calls its own stack
                raise ValueError("the code is nested too deeply") from error
        return self


class TemplateData(NodeData):
    template: Annotated[Text, AfterValidator(check_jinja)]
    variables: NamedSelectors = ()
