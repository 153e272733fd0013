"""LangChain's own door: chat models that do not speak HTTP through a known client, and tools.

A model of a package in `_HTTP` is caught where its requests leave, so that its own retries count too.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from autoprompt.programs.dialects import LANGCHAIN
from autoprompt.programs.places import place_of_call, place_of_code, site_name
from autoprompt.programs.scope import Call, RowScope, Sent, UsedTool, current_row, is_inside
from autoprompt.programs.winner import winner

_HTTP = (
    *("langchain_openai", "langchain_anthropic", "langchain_mistralai", "langchain_groq", "langchain_xai"),
    *("langchain_deepseek", "langchain_openrouter", "langchain_together", "langchain_perplexity"),
)
_PLAIN = (str, int, float, bool, type(None))


def is_caught_as_http(model: object) -> bool:
    """Return whether a chat model sends its requests through a hooked client, in a known form."""
    return any(kind.__module__.partition(".")[0] in _HTTP for kind in type(model).__mro__)


def generate(note_unattributed: Callable[[], None], original: Any) -> Any:
    """Return `BaseChatModel._generate_with_cache` that asks the row first."""

    def caught(model: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        row = current_row.get()
        is_http = is_caught_as_http(model)
        if row is None and not is_http:
            note_unattributed()
            messages, options = _with_winner(model, messages, stop, options)
        if row is None or is_inside.get() or is_http:
            return original(model, messages, stop=stop, run_manager=run_manager, **options)

        def send(content: bytes) -> Sent:
            asked, more = _unpacked(json.loads(content), options)
            result = original(model, asked, stop=stop, run_manager=run_manager, **more)
            return 200, {}, _packed_result(result)

        return _result(row.ask(_call(model, messages, stop, options, send)).body)

    return caught


def agenerate(note_unattributed: Callable[[], None], original: Any) -> Any:
    """Return `BaseChatModel._agenerate_with_cache` that asks the row first."""

    async def caught(
        model: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Any:
        row = current_row.get()
        is_http = is_caught_as_http(model)
        if row is None and not is_http:
            note_unattributed()
            messages, options = _with_winner(model, messages, stop, options)
        if row is None or is_inside.get() or is_http:
            return await original(model, messages, stop=stop, run_manager=run_manager, **options)

        async def send(content: bytes) -> Sent:
            asked, more = _unpacked(json.loads(content), options)
            result = await original(model, asked, stop=stop, run_manager=run_manager, **more)
            return 200, {}, _packed_result(result)

        call_of = functools.partial(_call, model, messages, stop, options)
        return _result((await row.ask_from_loop(call_of, send)).body)

    return caught


def should_stream(original: Any) -> Any:
    """Return `BaseChatModel._should_stream` that says no where the answer comes from the row, whole."""

    def caught(model: Any, **options: Any) -> bool:
        is_asked = current_row.get() is not None or winner() is not None
        if is_asked and not is_inside.get() and not is_caught_as_http(model):
            return False
        return bool(original(model, **options))

    return caught


def _with_winner(model: Any, messages: Any, stop: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Messages and tools with the texts of the winner that is at work, if one is."""
    chosen = winner()
    if chosen is None or is_inside.get():
        return messages, options
    body = _call(model, messages, stop, options, None).body
    changed = chosen.put_into(LANGCHAIN, site_name(), body)
    return (messages, options) if changed is body else _unpacked(changed, options)


def _call(model: Any, messages: Any, stop: Any, options: Mapping[str, Any], send: Any) -> Call:
    from langchain_core.messages import messages_to_dict

    settings = {name: value for name, value in options.items() if isinstance(value, _PLAIN)}
    body = {
        "model": str(
            getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
        ),
        "messages": [message["data"] | {"role": message["type"]} for message in messages_to_dict(messages)],
        "tools": [tool for tool in options.get("tools") or () if isinstance(tool, Mapping)],
        "stop": stop,
        "settings": settings,
    }
    for message in body["messages"]:
        message.pop("id", None)  # another one each time
    address = f"langchain:{type(model).__module__}.{type(model).__name__}"
    return Call(LANGCHAIN, address, body, site_name(), send, place_of_call(), runs_stubs=True)


def _unpacked(body: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    from langchain_core.messages import messages_from_dict

    dicts = [{"type": message["role"], "data": message} for message in body["messages"]]
    more = dict(options)
    if body["tools"] and len(body["tools"]) == len(options.get("tools") or ()):
        more["tools"] = body["tools"]
    return messages_from_dict(dicts), more


def _packed_result(result: Any) -> bytes:
    from langchain_core.messages import message_to_dict

    message = result.generations[0].message
    counted = getattr(message, "usage_metadata", None)
    data = {
        "message": message_to_dict(message),
        "usage": counted,
        "info": result.generations[0].generation_info,
    }
    return json.dumps(data, default=str, ensure_ascii=False).encode()


def _result(body: str) -> Any:
    from langchain_core.messages import messages_from_dict
    from langchain_core.outputs import ChatGeneration, ChatResult

    data = json.loads(body)
    if "message" not in data:
        raise RuntimeError(data["error"]["message"])
    message = messages_from_dict([data["message"]])[0]
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=data.get("info"))])


# --- tools ---


def run_tool(original: Any) -> Any:
    """Return `BaseTool.run` whose result is kept for the row, and taken from there if it is."""

    def caught(tool: Any, tool_input: Any, *rest: Any, **options: Any) -> Any:
        row = current_row.get()
        if row is None:
            return original(tool, tool_input, *rest, **options)
        key = row.tool_key(_used(tool), tool_input)
        while isinstance(found := row.tools.begin(key, options.get("tool_call_id")), Future):
            found.result()
        if found is not None:
            return found.value
        try:
            value = original(_stub(row, tool), tool_input, *rest, **options)
            row.tools.keep(key, value)
        finally:
            row.tools.end(key)
        return value

    return caught


def arun_tool(original: Any) -> Any:
    """Return `BaseTool.arun`, as `run_tool`."""

    async def caught(tool: Any, tool_input: Any, *rest: Any, **options: Any) -> Any:
        row = current_row.get()
        if row is None:
            return await original(tool, tool_input, *rest, **options)
        key = row.tool_key(_used(tool), tool_input)
        while isinstance(found := row.tools.begin(key, options.get("tool_call_id")), Future):
            await asyncio.shield(asyncio.wrap_future(found))
        if found is not None:
            return found.value
        try:
            value = await original(_stub(row, tool), tool_input, *rest, **options)
            row.tools.keep(key, value)
        finally:
            row.tools.end(key)
        return value

    return caught


def _used(tool: Any) -> UsedTool:
    run = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)._run
    hints = getattr(tool, "metadata", None) or {}
    return UsedTool(
        tool.name,
        place_of_code(run),
        is_read_only=hints.get("readOnlyHint") is True,
        is_destructive=hints.get("destructiveHint") is True,
    )


def _stub(row: RowScope, tool: Any) -> Any:
    """Return the user's function of the tool's name as a tool with the same arguments, else the tool."""
    function = row.stubs.get(tool.name)
    if function is None:
        return tool
    from langchain_core.tools import StructuredTool

    return StructuredTool.from_function(
        function, name=tool.name, description=tool.description, args_schema=tool.args_schema
    )
