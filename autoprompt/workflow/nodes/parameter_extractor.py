"""`parameter-extractor`: named values taken out of a text by a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from autoprompt.records import Message
from autoprompt.text.templates import fill, language_of
from autoprompt.workflow.engine.conditions import ComparisonError, as_bool, as_number
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.model_call import build_context, call_model, read_json_answer, usage_record
from autoprompt.workflow.engine.template import as_json_text, as_text, render
from autoprompt.workflow.file.model_records import ExtractorData, ParameterConfig

_OLDER_TYPES = {"bool": "boolean", "select": "string"}


class ParameterExtractor(NodeTypeBase):
    """Each parameter is an output. `__is_success` is 0, with the reason in `__reason`, where the answer was
    no JSON, lacked a required value or had one of the wrong type; such values are empty ones of their type.
    """

    data_model = ExtractorData

    def execute(self, data: ExtractorData, context: NodeContext) -> NodeResult:
        query = as_text(context.pool.get_if_ran(data.query))
        reply = call_model(context, _messages(data, context, query), data.model, chunk_name=None)
        values, reason = _values(data, reply.text)
        return NodeResult(
            {
                **values,
                "__is_success": int(reason is None),
                "__reason": reason,
                "__usage": usage_record(reply.usage),
                "usage": usage_record(reply.usage),
                "context": reply.context,
            },
            inputs={"query": query},
            process_data=reply.process_data,
            metadata=reply.metadata,
        )

    def mocked(self, data: ExtractorData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        query = as_text(context.pool.find(data.query))
        empty = {parameter.name: _empty(_kind(parameter)) for parameter in data.parameters}
        said = json.dumps({**empty, **outputs}, ensure_ascii=False, default=str)
        turns = build_context([Message("user", query)], said)
        return NodeResult({**empty, "__is_success": 1, "__reason": None, "context": turns, **outputs})

    def component_texts(self, data: ExtractorData) -> Mapping[str, str]:
        return {"instruction": data.instruction} if data.instruction.strip() else {}


def _messages(data: ExtractorData, context: NodeContext, query: str) -> list[Message]:
    own = render(context.component("instruction", data.instruction), context.pool)
    listed = "\n".join(_described(parameter) for parameter in data.parameters)
    language = language_of(f"{own} {listed} {query}")
    system = fill("extract", language, parameters=listed, instruction=own)
    return [Message("system", system), Message("user", query)]


def _described(parameter: ParameterConfig) -> str:
    parts = [_kind(parameter)]
    if parameter.options:
        parts.append("one of " + json.dumps(list(parameter.options), ensure_ascii=False))
    if parameter.required:
        parts.append("required")
    description = f": {parameter.description}" if parameter.description else ""
    return f"- {parameter.name} ({', '.join(parts)}){description}"


def _values(data: ExtractorData, answer: str) -> tuple[dict[str, Any], str | None]:
    """The parameters, each of its type, and what was wrong with the answer."""
    empty = {parameter.name: _empty(_kind(parameter)) for parameter in data.parameters}
    try:
        read = read_json_answer(answer, dict)
    except ValueError as error:
        return empty, str(error)
    if isinstance(read, list) and len(read) == 1:
        read = read[0]
    if not isinstance(read, Mapping):
        return empty, f"the answer is no JSON object: {answer[:200]!r}"
    reasons = []
    for parameter in data.parameters:
        value = read.get(parameter.name)
        if value is None or value == "":
            if parameter.required:
                reasons.append(f"{parameter.name} is required, and the answer has none")
            continue
        try:
            empty[parameter.name] = _converted(parameter, value)
        except (ComparisonError, ValueError) as error:
            reasons.append(f"{parameter.name}: {error}")
    return empty, "; ".join(reasons) or None


def _kind(parameter: ParameterConfig) -> str:
    return _OLDER_TYPES.get(parameter.type, parameter.type)


def _empty(kind: str) -> Any:
    if kind.startswith("array"):
        return []
    return {"number": 0, "boolean": False, "object": {}}.get(kind, "")


def _converted(parameter: ParameterConfig, value: Any) -> Any:
    """The value as its type asks for. Raises ComparisonError, ValueError."""
    kind = _kind(parameter)
    if kind.startswith("array"):
        items = value if isinstance(value, list) else [value]
        inner = kind[len("array[") : -1]
        return [_of_kind(inner, item) for item in items]
    found = _of_kind(kind, value)
    if parameter.options and found not in parameter.options:
        raise ValueError(f"{found!r} is none of {', '.join(parameter.options)}")
    return found


def _of_kind(kind: str, value: Any) -> Any:
    if kind == "number":
        number = as_number(value)
        if not math.isfinite(number):
            raise ValueError(f"{number} is no number")
        return number
    if kind == "boolean":
        return as_bool(value)
    if kind == "object" and not isinstance(value, dict):
        raise ValueError(f"{value!r} is no object")
    return as_json_text(value) if kind == "string" else value


NODE_TYPE = ParameterExtractor()
