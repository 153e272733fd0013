"""Tools of every kind as LangChain's agent calls them; what a tool raises is told to the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError

from autoprompt.workflow.engine.errors import FATAL
from autoprompt.workflow.engine.tools import FunctionTool, HttpTool, Tool, accepted_arguments, tool_named

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

OnCall = Callable[[str, Mapping[str, Any], str], None]
TakeTurn = Callable[[], AbstractContextManager[None]]


def agent_tools(
    names: Sequence[str],
    http_tools: Mapping[str, HttpTool],
    on_call: OnCall,
    turn: TakeTurn,
    allow_private_hosts: Sequence[str] = (),
    preset: Mapping[str, Mapping[str, Any]] = {},
) -> list[BaseTool]:
    """The tools of these names. on_call: told of each call: name, arguments, result or error.

    preset: tool -> arguments that the model does not choose; those that the tool does not take are left out.

    turn: held while a tool is at work, see `NodeContext.turn`. allow_private_hosts: see `RunSettings`.
    Raises WorkflowDefinitionError for a name that is no tool's.
    """
    found = [tool_named(name, http_tools, allow_private_hosts) for name in names]
    return [_wrapped(tool, on_call, turn, preset.get(tool.name, {})) for tool in found]


def _wrapped(tool: Tool, on_call: OnCall, turn: TakeTurn, preset: Mapping[str, Any]) -> BaseTool:
    from langchain_core.tools import StructuredTool

    accepted = accepted_arguments(tool)
    own = {name: value for name, value in preset.items() if accepted is None or name in accepted}
    schema, own = _without(_schema(tool), own)

    def call(**arguments: Any) -> str:
        arguments |= own
        try:
            with turn():
                returned = tool.invoke(arguments)
            result = _as_text(returned)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - the model is told, and decides what to do
            result = f"error: {type(error).__name__}: {error}"
        on_call(tool.name, arguments, result)
        return result

    return StructuredTool(
        name=tool.name, description=tool.description or tool.name, args_schema=schema, func=call
    )


def _without(schema: Any, preset: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The schema without the arguments that are preset, and these as the types that it names."""
    if isinstance(schema, Mapping):
        properties = {name: part for name, part in schema.get("properties", {}).items() if name not in preset}
        required = [name for name in schema.get("required", ()) if name not in preset]
        return {**schema, "properties": properties, "required": required}, dict(preset)
    fields = schema.model_fields
    kept: dict[str, Any] = {
        name: (field.annotation, field) for name, field in fields.items() if name not in preset
    }
    values = {name: _as_type(value, fields[name].annotation) for name, value in preset.items()}
    return create_model(schema.__name__, __doc__=schema.__doc__, **kept) if preset else schema, values


def _as_type(value: Any, kind: Any) -> Any:
    """A value as the argument's type; as it is if it is none, so that the tool says what is wrong."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except (ValueError, PydanticSchemaGenerationError):
        return value


def _schema(tool: Tool) -> Any:
    """What arguments the tool takes: a pydantic model, or a JSON schema."""
    from langchain_core.tools import StructuredTool

    if isinstance(tool, HttpTool):
        return tool.schema_of_arguments
    if isinstance(tool, FunctionTool):
        described = StructuredTool.from_function(
            tool.function, name=tool.name, description=tool.description or tool.name
        )
        return described.args_schema
    return getattr(tool, "args_schema", None) or {"type": "object", "properties": {}}


def _as_text(result: Any) -> str:
    content = getattr(result, "content", result)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
