"""Which variables a node gives to those behind it, and which it reads, with the places in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autoprompt.workflow.engine.template import CONTEXT, Selector, near_references, references_in, texts_in
from autoprompt.workflow.file import model_records, records
from autoprompt.workflow.file.apps import SPECIAL
from autoprompt.workflow.file.faults import Where
from autoprompt.workflow.file.fields import Condition, Input, NamedSelector, NodeData

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
    """Return the names of a node's outputs; None if only a run can tell: tools, code that declares none."""
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


_NAMED: Mapping[type[NodeData], Callable[[Any], Outputs | None]] = {
    records.StartData: lambda data: frozenset(variable.variable for variable in data.variables),
    records.EndData: lambda data: frozenset(output.variable for output in data.outputs),
    records.CodeData: lambda data: frozenset(data.outputs) or None,
    records.ExternalDataData: lambda data: frozenset(data.variables),
    records.HumanInputData: lambda data: frozenset({*data.form, "__action_id", "__rendered_content"}),
    model_records.ExtractorData: _extracted,
    records.AggregatorData: lambda data: frozenset({group.group_name for group in data.groups} or {"output"}),
    records.IterationData: lambda _: frozenset({"output", "item", "index", "answer"}),
    records.LoopData: lambda data: frozenset(
        {variable.label for variable in data.loop_variables} | {"index", "loop_round", "answer"}
    ),
}


def dify_only_kind(data: NodeData, kind: str) -> str | None:
    """Return what to call a node of type `kind` that runs in Dify alone; None if it runs here."""
    if isinstance(data, records.CodeData) and data.code_language != "python3":
        return f"code in {data.code_language}"
    return kind if isinstance(data, records.DifyOnlyData) else None


def mock_aliases(data: NodeData) -> frozenset[str]:
    """Return the names under which a mock may give an output besides the output's own."""
    return _ALIASES.get(type(data), frozenset())


_ALIASES: Mapping[type[NodeData], frozenset[str]] = {
    model_records.ClassifierData: frozenset({"text"}),  # the class as the model names it
    records.HumanInputData: frozenset({"action"}),
}


def needed_outputs(data: NodeData, read: Iterable[str]) -> dict[str, str]:
    """Return the outputs that a mock of a node should give, each with an example in YAML.

    Args:
        read: The outputs that other nodes read.
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
    """Return what a variable that a node gives is in every run, None where only a run can tell."""
    fixed = _FIXED_KINDS.get(type(data), {}).get(variable)
    declared = _DECLARED.get(type(data))
    if fixed is not None or declared is None:
        return fixed
    return _KINDS.get(declared(data).get(variable, "").lower())


@dataclass(frozen=True)
class Use:
    """where: path in the node's data. may_be_inner: it may name a node inside of the container itself.

    literal: the text itself, if it only looks like a reference and is not read as one; else "".
    """

    selector: Selector
    where: Where
    may_be_inner: bool = False
    literal: str = ""


def asks_for_query(data: Any) -> bool:
    """Return whether a node reads the question of a chat, `sys.query`."""
    read = uses(data) if isinstance(data, NodeData) else ()
    return any(use.selector[:2] == ("sys", "query") and not use.literal for use in read)


def uses(data: NodeData) -> Iterator[Use]:
    """Yield what the node reads, in the order of its fields; not what its virtual nodes read."""
    for place, given in enumerate(data.inputs):
        yield from _input(given, ("inputs", place, "value"))
    reader = _READERS.get(type(data))
    if reader is not None:
        yield from reader(data)


def _texts(value: Any, where: Where) -> Iterator[Use]:
    for selector in dict.fromkeys(references_in(value)):
        yield Use(selector, where)
    for text in texts_in(value):
        for literal, selector in near_references(text).items():
            yield Use(selector, where, literal=literal)


def _input(given: Input, where: Where) -> Iterator[Use]:
    if given.type == "variable" and given.value is not None:
        yield Use(tuple(given.value), where)
    elif given.type in ("mixed", "constant"):
        yield from _texts(given.value, where)


def _selected(selector: Selector | None, name: str) -> Iterator[Use]:
    if selector is not None:
        yield Use(selector, (name,))


def _named(variables: Iterable[NamedSelector], name: str) -> Iterator[Use]:
    for place, variable in enumerate(variables):
        if variable.value_selector is not None:
            yield Use(variable.value_selector, (name, place, "value_selector"))


def _conditions(conditions: Iterable[Condition], where: Where, may_be_inner: bool = False) -> Iterator[Use]:
    for place, condition in enumerate(conditions):
        yield Use(condition.variable_selector, (*where, place, "variable_selector"), may_be_inner)
        for selector in dict.fromkeys(references_in(condition.value)):
            yield Use(selector, (*where, place, "value"), may_be_inner)


def _expression(text: str, where: Where, may_be_inner: bool = False) -> Iterator[Use]:
    from autoprompt.workflow.engine.conditions import parse_expression

    if text:
        for selector in parse_expression(text).selectors:
            yield Use(selector, where, may_be_inner)


def _model_memory(data: model_records.ModelNodeData) -> Iterator[Use]:
    if data.memory is not None:
        yield from _texts(data.memory.query_prompt_template, ("memory", "query_prompt_template"))


def _llm(data: model_records.LLMData) -> Iterator[Use]:
    for place, message in enumerate(data.prompt_template):
        if message.is_jinja2:
            continue
        for use in _texts(message.text, ("prompt_template", place, "text")):
            if use.selector != CONTEXT and not _is_special(data, use):
                yield use
    if data.context is not None and data.context.enabled and data.context.variable_selector is not None:
        yield Use(data.context.variable_selector, ("context", "variable_selector"))
    if data.prompt_config is not None and any(message.is_jinja2 for message in data.prompt_template):
        for place, variable in enumerate(data.prompt_config.jinja2_variables):
            if variable.value_selector is not None:
                yield Use(variable.value_selector, ("prompt_config", "jinja2_variables", place))
    yield from _model_memory(data)


def _tool(data: records.ToolData) -> Iterator[Use]:
    for name, given in data.tool_parameters.items():
        yield from _input(given, ("tool_parameters", name, "value"))
    for name, value in data.tool_configurations.items():
        if isinstance(value, Mapping) and "value" in value:
            yield from _input(Input.model_validate(dict(value)), ("tool_configurations", name))


def _classifier(data: model_records.ClassifierData) -> Iterator[Use]:
    yield Use(data.query_variable_selector, ("query_variable_selector",))
    yield from _texts(data.instruction, ("instruction",))
    for place, entry in enumerate(data.classes):
        yield from _texts(entry.name, ("classes", place, "name"))
    yield from _model_memory(data)


def _extractor(data: model_records.ExtractorData) -> Iterator[Use]:
    yield Use(data.query, ("query",))
    yield from _texts(data.instruction, ("instruction",))
    yield from _model_memory(data)


def _agent(data: model_records.AgentData) -> Iterator[Use]:
    base: Where = ("agent_parameters",) if data.agent_parameters else ()
    for use in _input(data.instruction, (*base, "instruction")):
        if not _is_special(data, use):
            yield use
    yield from _input(data.query, (*base, "query"))
    for inputs in data.preset.values():
        for given in inputs.values():
            yield from _input(given, (*base, "tools"))
    yield from _model_memory(data)


def _is_special(data: model_records.ModelNodeData, use: Use) -> bool:
    return data.is_app and len(use.selector) == 1 and use.selector[0] in SPECIAL


def _if_else(data: records.IfElseData) -> Iterator[Use]:
    for place, case in enumerate(data.cases):
        yield from _conditions(case.conditions, ("cases", place, "conditions"))
        yield from _expression(case.expression, ("cases", place))


def _aggregator(data: records.AggregatorData) -> Iterator[Use]:
    for number, group in enumerate(data.groups):
        for place, selector in enumerate(group.variables):
            yield Use(selector, ("advanced_settings", "groups", number, "variables", place))
    if not data.groups:
        for place, selector in enumerate(data.variables):
            yield Use(selector, ("variables", place))


def _assigner(data: records.AssignerData) -> Iterator[Use]:
    for place, item in enumerate(data.items):
        yield Use(item.variable_selector, ("items", place, "variable_selector"))
        if item.value_selector is not None:
            yield Use(item.value_selector, ("items", place, "value"))


def _iteration(data: records.IterationData) -> Iterator[Use]:
    yield Use(data.iterator_selector, ("iterator_selector",))
    if data.output_selector is not None:
        yield Use(data.output_selector, ("output_selector",), may_be_inner=True)


def _loop(data: records.LoopData) -> Iterator[Use]:
    for place, variable in enumerate(data.loop_variables):
        if variable.value_selector is not None:
            yield Use(variable.value_selector, ("loop_variables", place, "value"))
    yield from _conditions(data.break_conditions, ("break_conditions",), may_be_inner=True)
    yield from _expression(data.break_expression, ("break_expression",), may_be_inner=True)


def _http(data: records.HttpRequestData) -> Iterator[Use]:
    for name in ("url", "headers", "params"):
        yield from _texts(getattr(data, name), (name,))
    if data.body is not None:
        for place, field in enumerate(data.body.data):
            yield from _texts([field.key, field.value], ("body", "data", place))
    if data.authorization.config is not None:
        yield from _texts(data.authorization.config.api_key, ("authorization", "config", "api_key"))


_READERS: dict[type[NodeData], Callable[[Any], Iterator[Use]]] = {
    records.EndData: lambda data: _named(data.outputs, "outputs"),
    records.AnswerData: lambda data: _texts(data.answer, ("answer",)),
    model_records.LLMData: _llm,
    records.ToolData: _tool,
    records.CodeData: lambda data: _named(data.variables, "variables"),
    records.TemplateData: lambda data: _named(data.variables, "variables"),
    model_records.ClassifierData: _classifier,
    model_records.ExtractorData: _extractor,
    model_records.AgentData: _agent,
    records.IfElseData: _if_else,
    records.AggregatorData: _aggregator,
    records.AssignerData: _assigner,
    records.IterationData: _iteration,
    records.LoopData: _loop,
    records.HttpRequestData: _http,
    records.ListOperatorData: lambda data: _selected(data.variable, "variable"),
    records.RetrievalData: lambda data: _selected(data.query_variable_selector, "query_variable_selector"),
    records.DocumentExtractorData: lambda data: _selected(data.variable_selector, "variable_selector"),
}
