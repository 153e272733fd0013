"""`agent`: a model that calls tools until it has an answer, with LangChain's agent on LangGraph."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

from autoprompt.records import Message
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.model_call import ModelReply, build_context, usage_record
from autoprompt.workflow.engine.template import as_text, only_reference, render, render_in
from autoprompt.workflow.file.apps import filled
from autoprompt.workflow.file.fields import Input
from autoprompt.workflow.file.model_records import AgentData
from autoprompt.workflow.nodes.agent_tools import agent_tools

_ROOM = 10  # LangGraph's steps beyond two for each request


class Agent(NodeTypeBase):
    """Puts out `text`, `json` (the tools' calls with their results), `context`, `usage`, `files`.

    max_iterations: requests in which the model may call tools; one more asks for the answer.
    """

    data_model = AgentData

    def execute(self, data: AgentData, context: NodeContext) -> NodeResult:
        query = _text(data.query, context)
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
    """The last answer, and all replies as one with the usage of all."""
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage
    from langchain_core.runnables.config import var_child_runnable_config

    from autoprompt.workflow.nodes.agent_model import AgentModel

    allowed = context.run.allow_private_hosts
    preset = {
        name: {argument: _value(given, context) for argument, given in inputs.items()}
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
    # A graph of its own: as a part of the one around, it would write its steps into that one's checkpoints.
    own = copy_context()
    own.run(var_child_runnable_config.set, None)
    final = own.run(lambda: agent.invoke({"messages": [HumanMessage(query)]}, config))
    whole = model.replies[0]
    for reply in model.replies[1:]:
        whole = whole + reply
    return str(final["messages"][-1].content), whole


def _instruction(data: AgentData, context: NodeContext) -> str:
    if data.instruction.type == "variable":
        return as_text(context.pool.get(data.instruction.value))
    text = context.component("instruction", as_text(data.instruction.value))
    return filled(text, context.pool) if data.is_app else render(text, context.pool)


def _text(given: Input, context: NodeContext) -> str:
    return as_text(_value(given, context))


def _value(given: Input, context: NodeContext) -> Any:
    return context.pool.get(given.value) if given.type == "variable" else render_in(given.value, context.pool)


NODE_TYPE = Agent()
