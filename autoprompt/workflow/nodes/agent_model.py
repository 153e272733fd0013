"""Our client as the chat model of LangChain's agent: tool calls as endpoints know them, or as JSON in a text.

The request describes the tools to the model. If the endpoint takes none, the transport describes them in
words. So does a node whose strategy is ReAct: the model then writes its calls as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from pydantic import ConfigDict, Field

from autoprompt.llm.client import ToolSchema
from autoprompt.llm.transport.wire import with_tools_told
from autoprompt.records import Message, Role, ToolCall
from autoprompt.text.answers.texts import visible
from autoprompt.text.answers.wrapping import read_json
from autoprompt.text.files import json_value
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.model_call import ModelReply, call_model
from autoprompt.workflow.engine.models import ModelSpec

_WRITTEN = "written_"  # ids of calls that the model wrote as text
_HERMES = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


class AgentModel(BaseChatModel):
    """Asks the node's model. After `max_calls` requests it offers no tool any more, so that there is an end.

    writes_calls: whether tools are described to the model in words alone.
    replies: what came back, in order.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    context: NodeContext
    spec: ModelSpec | None
    max_calls: int
    writes_calls: bool = False
    tools: tuple[ToolSchema, ...] = ()
    replies: list[ModelReply] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "autoprompt"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> AgentModel:
        schemas = tuple(tool_schema(tool) for tool in tools if isinstance(tool, BaseTool))
        # The list of replies is shared: the agent works on this copy.
        bound = self.model_copy(update={"tools": schemas})
        bound.replies = self.replies
        return bound

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        tools = self.tools if len(self.replies) < self.max_calls else ()
        turns = [_message(message) for message in messages]
        if self.tools and not tools:
            turns.append(Message("user", "Answer now, without calling a tool."))
        if self.writes_calls and tools:
            turns = with_tools_told(turns, tools)
        sent = () if self.writes_calls else tools
        reply = call_model(self.context, turns, self.spec, chunk_name=None, tools=sent)
        self.replies.append(reply)
        calls = reply.tool_calls or (written_calls(reply.text, tools, len(self.replies)) if tools else ())
        asked = [{"name": call.name, "args": _arguments(call), "id": call.id} for call in calls]
        answer = AIMessage(content=reply.text, tool_calls=asked if tools else [])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def tool_schema(tool: BaseTool) -> ToolSchema:
    """Return the schema of a LangChain tool, as requests describe it."""
    from langchain_core.utils.function_calling import convert_to_openai_function

    described = convert_to_openai_function(tool)
    parameters = described.get("parameters") or {"type": "object", "properties": {}}
    return ToolSchema(
        tool.name, str(described.get("description", "")), json.dumps(parameters, ensure_ascii=False)
    )


def written_calls(text: str, tools: Sequence[ToolSchema], number: int) -> tuple[ToolCall, ...]:
    """Return the calls of known tools that an answer holds as JSON, in ours or in other models' spelling."""
    known = {tool.name for tool in tools}
    found = [call for match in _HERMES.findall(visible(text)) if (call := json_value(match)) is not None]
    if not found:
        read = read_json(text)
        found = read if isinstance(read, list) else [read]
    calls = []
    for place, entry in enumerate(found):
        name, arguments = _named_call(entry) if isinstance(entry, Mapping) else (None, {})
        if isinstance(name, str) and name in known:
            text_of = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            calls.append(ToolCall(f"{_WRITTEN}{number}_{place}", name, text_of))
    return tuple(calls)


def _named_call(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what stands where models write a tool's name, and its arguments.

    OpenAI has both under `function`.
    """
    function = entry.get("function")
    if isinstance(function, Mapping):
        entry, function = function, None
    name = entry.get("tool") or entry.get("name") or function
    return name, entry.get("arguments", entry.get("parameters", {}))


def _arguments(call: ToolCall) -> dict[str, Any]:
    read = json_value(call.arguments)
    return read if isinstance(read, dict) else {}


def _message(message: BaseMessage) -> Message:
    """Return a turn of the agent as our clients take it.

    A call that was written as text goes back as text.
    """
    text = message.content if isinstance(message.content, str) else message.text
    if isinstance(message, ToolMessage):
        if message.tool_call_id.startswith(_WRITTEN):
            return Message("user", f"Result of {message.name}: {text}")
        return Message("tool", text, tool_call_id=message.tool_call_id)
    if isinstance(message, AIMessage):
        native = [call for call in message.tool_calls if not str(call["id"]).startswith(_WRITTEN)]
        calls = tuple(
            ToolCall(str(call["id"]), call["name"], json.dumps(call["args"], ensure_ascii=False))
            for call in native
        )
        return Message("assistant", text, calls)
    role: Role = "system" if isinstance(message, SystemMessage) else "user"
    return Message(role, text)
