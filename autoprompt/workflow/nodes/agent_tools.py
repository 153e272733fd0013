"""Tools of every kind as LangChain's agent calls them; what a tool raises is told to the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from autoprompt.workflow.engine.errors import FATAL
from autoprompt.workflow.engine.http_tools import HttpTool, tool_named
from autoprompt.workflow.engine.tools import FunctionTool, Tool

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
) -> list[BaseTool]:
    """The tools of these names. on_call: told of each call: name, arguments, result or error.

    turn: held while a tool is at work, see `NodeContext.turn`. allow_private_hosts: see `RunSettings`.
    Raises WorkflowDefinitionError for a name that is no tool's.
    """
    return [_wrapped(tool_named(name, http_tools, allow_private_hosts), on_call, turn) for name in names]


def _wrapped(tool: Tool, on_call: OnCall, turn: TakeTurn) -> BaseTool:
    from langchain_core.tools import StructuredTool

    def call(**arguments: Any) -> str:
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
        name=tool.name, description=tool.description or tool.name, args_schema=_schema(tool), func=call
    )


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
