"""Which variables a node gives to those that come after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autoprompt.workflow.file import model_records, records
from autoprompt.workflow.file.fields import NodeData

Outputs = frozenset[str]

SYSTEM_VARIABLES = frozenset(
    {
        "query",
        "files",
        "conversation_id",
        "dialogue_count",
        "user_id",
        "app_id",
        "workflow_id",
        "workflow_run_id",
        "timestamp",
    }
)

_MODEL = frozenset({"text", "context", "usage"})
_FIXED: dict[type[NodeData], Outputs] = {
    records.AnswerData: frozenset({"answer", "files"}),
    model_records.LLMData: _MODEL | {"finish_reason", "reasoning_content", "structured_output", "files"},
    records.TemplateData: frozenset({"output"}),
    model_records.ClassifierData: frozenset({"class_name", "class_id", "usage", "context"}),
    model_records.AgentData: _MODEL | {"files", "json"},
    records.IfElseData: frozenset({"result", "selected_case_id"}),
    records.AssignerData: frozenset(),
    records.HttpRequestData: frozenset({"body", "status_code", "headers", "files"}),
    records.ListOperatorData: frozenset({"result", "first_record", "last_record"}),
    records.RetrievalData: frozenset({"result"}),
    records.DocumentExtractorData: frozenset({"text"}),
}


def outputs(data: NodeData) -> Outputs | None:
    """Names of what the node gives; None where only a run can tell (tools, code without declared outputs)."""
    known = _of_kind(data)
    if known is None:
        return None
    if data.error_strategy is not None:
        known |= {"error_type", "error_message"} | {value.key for value in data.default_value}
    return known


def _of_kind(data: NodeData) -> Outputs | None:
    if type(data) in _FIXED:
        return _FIXED[type(data)]
    named = _NAMED.get(type(data))
    return None if named is None else named(data)


def _extracted(data: model_records.ExtractorData) -> Outputs:
    own = {parameter.name for parameter in data.parameters}
    return frozenset(own | {"__is_success", "__reason", "__usage", "usage", "context"})


def _aggregated(data: records.AggregatorData) -> Outputs:
    return frozenset({group.group_name for group in data.groups} or {"output"})


_NAMED: Mapping[type[NodeData], Callable[[Any], Outputs | None]] = {
    records.StartData: lambda data: frozenset(variable.variable for variable in data.variables),
    records.EndData: lambda data: frozenset(output.variable for output in data.outputs),
    records.CodeData: lambda data: frozenset(data.outputs) or None,
    records.ExternalDataData: lambda data: frozenset(data.variables),
    records.HumanInputData: lambda data: frozenset({*data.form, "__action_id", "__rendered_content"}),
    model_records.ExtractorData: _extracted,
    records.AggregatorData: _aggregated,
    records.IterationData: lambda _: frozenset({"output", "item", "index", "answer"}),
    records.LoopData: lambda data: frozenset(
        {variable.label for variable in data.loop_variables} | {"index", "loop_round", "answer"}
    ),
}


def dify_only_kind(data: NodeData, kind: str) -> str | None:
    """What to call a node that runs in Dify alone, None for one that runs here. kind: its type."""
    if isinstance(data, records.CodeData) and data.code_language != "python3":
        return f"code in {data.code_language}"
    return kind if isinstance(data, records.DifyOnlyData) else None


def mock_aliases(data: NodeData) -> frozenset[str]:
    """Names under which a mock may give an output besides the output's own."""
    return _ALIASES.get(type(data), frozenset())


_ALIASES: Mapping[type[NodeData], frozenset[str]] = {
    model_records.ClassifierData: frozenset({"text"}),  # the class as the model names it
    records.HumanInputData: frozenset({"action"}),
}


def needed_outputs(data: NodeData, read: Iterable[str]) -> dict[str, str]:
    """The outputs that a mock of a node should give, each with an example in YAML.

    read: those that other nodes read.
    """
    if isinstance(data, records.RetrievalData):
        return {"result": '[{content: "..."}]'}
    if isinstance(data, records.ExternalDataData):
        return dict.fromkeys(data.variables, '"..."')
    if isinstance(data, records.HumanInputData):
        action = {"__action_id": data.actions[0]} if data.actions else {}
        return {**action, **dict.fromkeys(data.form, '"..."')}
    if isinstance(data, records.CodeData) and data.outputs:
        kinds = {name: output.type.lower() for name, output in data.outputs.items()}
        return {name: _EXAMPLES.get(kind.partition("[")[0], '"..."') for name, kind in kinds.items()}
    is_document = isinstance(data, records.DocumentExtractorData)
    return dict.fromkeys(() if is_document else read, '"..."') or {"text": '"..."'}


_EXAMPLES = {"number": "0", "object": "{}", "array": "[]", "boolean": "true"}


# What a variable of a type is; lists, JSON and what names no type may hold anything.
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("text-input", "paragraph", "select", "string", "secret", "text"), str),
    **dict.fromkeys(("number", "float"), float),
    "integer": int,
    **dict.fromkeys(("checkbox", "boolean", "bool"), bool),
    "object": dict,
}
_FIXED_KINDS: Mapping[type[NodeData], Mapping[str, type]] = {
    records.AnswerData: {"answer": str},
    records.TemplateData: {"output": str},
    records.IfElseData: {"result": bool, "selected_case_id": str},
    records.HttpRequestData: {"body": str, "status_code": int, "headers": dict},
    records.IterationData: {"index": int, "answer": str},
}
_DECLARED: Mapping[type[NodeData], Callable[[Any], Mapping[str, str]]] = {
    records.StartData: lambda data: {given.variable: given.type for given in data.variables},
    records.CodeData: lambda data: {name: output.type for name, output in data.outputs.items()},
    records.LoopData: lambda data: {given.label: given.var_type for given in data.loop_variables},
}


def kind_of(data: NodeData, variable: str) -> type | None:
    """What a variable that a node gives is in every run, None where only a run can tell."""
    fixed = _FIXED_KINDS.get(type(data), {}).get(variable)
    declared = _DECLARED.get(type(data))
    if fixed is not None or declared is None:
        return fixed
    return _KINDS.get(declared(data).get(variable, "").lower())
