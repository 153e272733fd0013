"""Tools told of in words, for models whose endpoint takes no `tools`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from autoprompt.llm.client import ToolSchema
from autoprompt.records import Message
from autoprompt.text.templates import fill, language_of


def with_tools_told(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[Message]:
    """Return the messages with the tools, and how to call one, at the end of the first system message.

    A call is then an answer in JSON, which the caller reads out of the text.
    """
    first = next((n for n, message in enumerate(messages) if message.role == "system"), None)
    language = language_of(" ".join(message.content for message in messages[:2]))
    told = fill("call_tools", language, tools="\n".join(map(_described, tools)))
    if first is None:
        return [Message("system", told), *messages]
    system = messages[first]
    whole = replace(system, content=f"{system.content}\n\n{told}".strip())
    return [*messages[:first], whole, *messages[first + 1 :]]


def _described(tool: ToolSchema) -> str:
    properties = json.loads(tool.parameters).get("properties", {})
    arguments = ", ".join(f"{name}: {part.get('type', 'any')}" for name, part in properties.items())
    return f"- {tool.name}({arguments}): {tool.description}"
