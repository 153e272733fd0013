"""Nodes that run in Dify alone: their outputs are mocked, come with the row, or from a Python function."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from autoprompt.text.files import json_value
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import SOURCE, NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import ToolOutputError
from autoprompt.workflow.engine.mocks import MissingMockError
from autoprompt.workflow.engine.template import as_text
from autoprompt.workflow.engine.tools import Tool, accepted_arguments, function_of_node
from autoprompt.workflow.file.records import (
    TIMEOUT,
    DifyOnlyData,
    DocumentExtractorData,
    ExternalDataData,
    HumanInputData,
    RetrievalData,
)
from autoprompt.workflow.file.variables import needed_outputs

_JSON_LIST = re.compile(r'\s*\[\s*[{"]')  # `[1] Guests may park.` is a passage


class DifyOnly(NodeTypeBase):
    """What a node of a type without more to it does: it needs its outputs from somewhere else."""

    data_model: type[BaseModel] = DifyOnlyData
    takes_outputs = True

    def execute(self, data: Any, context: NodeContext) -> NodeResult:
        raise MissingMockError(context.node.type, context.node.id, _needed(data, context))


class KnowledgeRetrieval(DifyOnly):
    """Puts out `result`, a list of passages. A function gets the query, and `top_k` and `dataset_ids`."""

    data_model = RetrievalData

    def execute(self, data: RetrievalData, context: NodeContext) -> NodeResult:
        function = _function(data, context)
        selector = data.query_variable_selector
        query = "" if selector is None else as_text(context.pool.get_if_ran(selector))
        more = {"top_k": data.top_k, "dataset_ids": list(data.dataset_ids)}
        with context.turn():
            found = function.invoke(_arguments(function, "query", query, more))
        try:
            return NodeResult({"result": _passages(found)}, inputs={"query": query})
        except ValueError as error:
            raise ToolOutputError(f"the function {function.name!r}: {error}") from error

    def read_given(self, data: Any, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs with `result` as a list of passages.

        Raises:
            ValueError: It is null, or JSON that is broken off, or holds what is no passage.
        """
        value = outputs.get("result", "")
        if value is None:
            raise ValueError("result is null, expected passages, or [] if there are none")
        if isinstance(value, str) and _JSON_LIST.match(value) and not isinstance(json_value(value), list):
            raise ValueError(f"a list in JSON that cannot be read: {value!r:.80}")
        return {name: _passages(one) if name == "result" else one for name, one in outputs.items()}


class DocumentExtractor(DifyOnly):
    """Puts out `text`, of a list of files a list. A function gets one file at a time."""

    data_model = DocumentExtractorData

    def execute(self, data: DocumentExtractorData, context: NodeContext) -> NodeResult:
        function = _function(data, context)
        value = context.pool.get(data.variable_selector)
        files = value if isinstance(value, list | tuple) else [value]
        with context.turn():
            texts = [str(function.invoke(_arguments(function, "file", file, {}))) for file in files]
        return NodeResult(
            {"text": texts if files is value else texts[0]}, inputs={"variable_selector": value}
        )


class HumanInput(DifyOnly):
    """Puts out the fields of its form and `__action_id`, the button, which is the way out."""

    data_model = HumanInputData

    def read_given(self, data: HumanInputData, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs with the button that `__action_id` or `action` names as `__action_id`.

        Raises:
            ValueError: The form has no such button.
        """
        asked = outputs.get("__action_id", outputs.get("action", data.actions[0] if data.actions else None))
        if data.actions and (asked is None or str(asked) not in (*data.actions, TIMEOUT)):
            raise ValueError(f"the action is {asked!r}, expected one of {', '.join(data.actions)}")
        empty = dict.fromkeys(data.form, "")
        return {**empty, "__rendered_content": "", **outputs, "__action_id": asked}

    def mocked(self, data: HumanInputData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        return NodeResult(outputs, edge_handle=str(outputs["__action_id"]) if data.actions else SOURCE)


class ExternalData(DifyOnly):
    """Puts out the variables that Dify's external data tools fill into an app without a graph."""

    data_model = ExternalDataData


def _function(data: DifyOnlyData, context: NodeContext) -> Tool:
    """Return the function that stands in for the node.

    Raises:
        MissingMockError: If there is none.
    """
    found = function_of_node(context.node.type, context.node.id)
    if found is None:
        raise MissingMockError(context.node.type, context.node.id, _needed(data, context))
    return found


def _needed(data: DifyOnlyData, context: NodeContext) -> dict[str, str]:
    return needed_outputs(data, context.node.outputs.read)


def _arguments(function: Tool, name: str, value: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the function takes of it. Its only argument may have another name."""
    accepted = accepted_arguments(function)
    if accepted is not None and name not in accepted:
        return {next(iter(accepted)): value} if len(accepted) == 1 else {}
    return {name: value, **{key: part for key, part in more.items() if accepted is None or key in accepted}}


def _passages(found: Any) -> list[dict[str, Any]]:
    """Return a text, JSON in a text, or a list of texts, as a list of objects with `content`.

    Raises:
        ValueError: A passage is neither a text nor an object with `content`.
    """
    if isinstance(found, str):
        read = json_value(found)
        found = read if isinstance(read, list) else [found] if found.strip() else []
    listed = found if isinstance(found, list | tuple) else [] if found is None else [found]
    for part in listed:
        if not isinstance(part, str) and not (isinstance(part, dict) and "content" in part):
            raise ValueError(f"a passage is {part!r:.80}, expected a text, or an object with `content`")
    others = {"title": "", "url": "", "icon": "", "metadata": {}, "files": []}
    return [part if isinstance(part, dict) else {"content": str(part), **others} for part in listed]
