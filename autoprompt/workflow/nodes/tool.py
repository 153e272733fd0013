"""`tool`: calls a tool by its name: a Python function, a LangChain tool, or one over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.template import render_in
from autoprompt.workflow.engine.tools import accepted_arguments, tool_named
from autoprompt.workflow.engine.variables import check_size
from autoprompt.workflow.file.fields import Input
from autoprompt.workflow.file.records import ToolData


class ToolNode(NodeTypeBase):
    """Puts out `text`, `json` (a list) and `files`; of a dict that a tool returns, each key too."""

    data_model = ToolData
    takes_outputs = True

    def execute(self, data: ToolData, context: NodeContext) -> NodeResult:
        tool = tool_named(data.tool_name, data.http_tools, context.run.allow_private_hosts)
        given = {name: _value(entry, context) for name, entry in data.tool_parameters.items()}
        given |= context.inputs
        fixed = {name: _configured(value, context) for name, value in data.tool_configurations.items()}
        known = accepted_arguments(tool)
        arguments = {name: value for name, value in fixed.items() if known is None or name in known} | given
        check_size(arguments)
        with context.turn():
            result = tool.invoke(arguments)
        outputs = tool_outputs(result)
        context.chunk(outputs["text"])
        return NodeResult(outputs, inputs=arguments)


def tool_outputs(result: Any) -> dict[str, Any]:
    """What a tool returned, as outputs: as text, as JSON, and by key."""
    content = getattr(result, "content", None)  # of LangChain's messages
    if content is not None and not isinstance(result, str | Mapping):
        result = content
    if isinstance(result, str):
        return {"text": result, "json": _parsed(result), "files": []}
    if result is None:
        return {"text": "", "json": [], "files": []}
    if isinstance(result, int | float):
        return {"text": json.dumps(result), "json": [], "files": []}
    text = json.dumps(result, ensure_ascii=False, default=str)
    plain = json.loads(text)
    if isinstance(plain, dict):
        return {"text": text, "json": [plain], "files": [], **{str(k): v for k, v in plain.items()}}
    return {"text": text, "json": plain if isinstance(plain, list) else [plain], "files": []}


def _parsed(text: str) -> list[Any]:
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return read if isinstance(read, list) else [read]


def _value(entry: Input, context: NodeContext) -> Any:
    if entry.type == "variable":
        return context.pool.get(entry.value)
    return render_in(entry.value, context.pool)


def _configured(value: Any, context: NodeContext) -> Any:
    """A fixed setting: a value, or since version 2 of tool nodes {type, value}."""
    if isinstance(value, Mapping) and "value" in value:
        return _value(Input.model_validate(dict(value)), context)
    return value


NODE_TYPE = ToolNode()
