"""`agent`: a model that calls tools until it has an answer, with LangChain's agent on LangGraph.

What a tool raises is an answer to the model, which decides what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError

from autoprompt.records import Message
from autoprompt.workflow.engine.context import NodeContext, graph_context
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import FATAL
from autoprompt.workflow.engine.model_call import ModelReply, build_context, usage_record
from autoprompt.workflow.engine.template import as_text, only_reference, render
from autoprompt.workflow.engine.tools import FunctionTool, HttpTool, Tool, accepted_arguments, tool_named
from autoprompt.workflow.file.apps import filled
from autoprompt.workflow.file.model_records import AgentData

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_ROOM = 10  # LangGraph's steps beyond two for each request
OnCall = Callable[[str, Mapping[str, Any], str], None]
TakeTurn = Callable[[], AbstractContextManager[None]]


class Agent(NodeTypeBase):
    """Puts out `text`, `json` (the tools' calls with their results), `context`, `usage`, `files`.

    max_iterations: requests in which the model may call tools; one more asks for the answer.
    """

    data_model = AgentData

    def execute(self, data: AgentData, context: NodeContext) -> NodeResult:
        query = as_text(context.value_of(data.query))
        if not query.strip():
            raise ValueError("the query is empty")
        calls: list[dict[str, Any]] = []

        def on_call(name: str, arguments: Mapping[str, Any], result: str) -> None:
            calls.append({"tool": name, "arguments": dict(arguments), "result": result})

        text, reply = _answered(data, context, query, on_call)
        context.chunk(text)
        outputs: dict[str, Any] = {
            "text": text,
            "json": calls,
            "files": [],
            "usage": usage_record(reply.usage),
            "context": build_context([Message("user", query)], text),
        }
        process = {**reply.process_data, "tool_calls": calls, "iterations": reply.calls}
        return NodeResult(outputs, inputs={"query": query}, process_data=process, metadata=reply.metadata)

    def mocked(self, data: AgentData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        query = data.query.value
        if isinstance(query, str) and only_reference(query):
            query = as_text(context.pool.find(only_reference(query) or ()))
        text = str(outputs.get("text", ""))
        turns = build_context([Message("user", as_text(query))], text)
        return NodeResult({"text": text, "json": [], "files": [], "context": turns, **outputs})

    def component_texts(self, data: AgentData) -> Mapping[str, str]:
        text = data.instruction.value
        is_written = "instruction" in data.model_fields_set  # an empty one can be filled, none cannot
        is_text = isinstance(text, str) and is_written and only_reference(text) is None
        return {"instruction": text} if is_text else {}


def _answered(data: AgentData, context: NodeContext, query: str, on_call: Any) -> tuple[str, ModelReply]:
    """Return the last answer, and all replies as one with the usage of all."""
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage

    from autoprompt.workflow.nodes.agent_model import AgentModel

    allowed = context.run.allow_private_hosts
    preset = {
        name: {argument: context.value_of(given) for argument, given in inputs.items()}
        for name, inputs in data.preset.items()
    }
    tools = agent_tools(data.tool_names, data.http_tools, on_call, context.turn, allowed, preset)
    model = AgentModel(
        context=context,
        spec=data.model,
        max_calls=data.max_iterations,
        writes_calls=data.writes_calls,
    )
    agent: Any = create_agent(model, tools, system_prompt=_instruction(data, context) or None)
    config = {"recursion_limit": 2 * (data.max_iterations + 1) + _ROOM}
    final = graph_context().run(lambda: agent.invoke({"messages": [HumanMessage(query)]}, config))
    whole = model.replies[0]
    for reply in model.replies[1:]:
        whole = whole + reply
    return str(final["messages"][-1].content), whole


def _instruction(data: AgentData, context: NodeContext) -> str:
    if data.instruction.type == "variable":
        return as_text(context.pool.get(data.instruction.value))
    text = context.component("instruction", as_text(data.instruction.value))
    return filled(text, context.pool) if data.is_app else render(text, context.pool)


def agent_tools(
    names: Sequence[str],
    http_tools: Mapping[str, HttpTool],
    on_call: OnCall,
    turn: TakeTurn,
    allow_private_hosts: Sequence[str] = (),
    preset: Mapping[str, Mapping[str, Any]] = {},
) -> list[BaseTool]:
    """Return the tools of these names, as LangChain's agent calls them.

    Args:
        on_call: Called after each call with its name, arguments, and result or error.
        turn: Held while a tool is at work, see `NodeContext.turn`.
        allow_private_hosts: See `RunSettings`.
        preset: Tool -> arguments that the model does not choose. Arguments that the tool does not take are
            left out.

    Raises:
        UnknownToolError: No tool has this name.
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
        except Exception as error:  # noqa: BLE001 - the model reads it, and decides what to do
            result = f"error: {type(error).__name__}: {error}"
        on_call(tool.name, arguments, result)
        return result

    return StructuredTool(
        name=tool.name, description=tool.description or tool.name, args_schema=schema, func=call
    )


def _without(schema: Any, preset: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the schema without the arguments that are preset, and these as the types that it names."""
    if not preset:
        return schema, {}
    if isinstance(schema, Mapping):
        properties = {name: part for name, part in schema.get("properties", {}).items() if name not in preset}
        required = [name for name in schema.get("required", ()) if name not in preset]
        return {**schema, "properties": properties, "required": required}, dict(preset)
    fields = schema.model_fields
    kept: dict[str, Any] = {
        name: (field.annotation, field) for name, field in fields.items() if name not in preset
    }
    values = {name: _as_type(value, fields[name].annotation) for name, value in preset.items()}
    return create_model(schema.__name__, __doc__=schema.__doc__, **kept), values


def _as_type(value: Any, kind: Any) -> Any:
    """Return a value as the argument's type; as it is if it is none, so that the tool says what is wrong."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except (ValueError, PydanticSchemaGenerationError):
        return value


def _schema(tool: Tool) -> Any:
    """Return what arguments the tool takes: a pydantic model, or a JSON schema."""
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
