"""Variable extraction: a parameter's value taken out of a conversation by one more question to the model.

Written as an entry of `inputs` (`type: extraction`) or as the value "@llm1.context | Extract the keywords",
it becomes a virtual LLM node `ext_1`, `ext_2`, ... of the node that wants it, and the value refers to it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from autoprompt.records import Message
from autoprompt.text.answers.texts import visible
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import (
    LLM_TYPES,
    ExtractionSource,
    GraphNode,
    NodeResult,
    NodeTypeBase,
)
from autoprompt.workflow.engine.errors import (
    ExtractionError,
    InvalidVariableTypeError,
    ModelConfigNotFoundError,
    SourceNodeNotFoundError,
    VariableNotFoundError,
    WorkflowDefinitionError,
)
from autoprompt.workflow.engine.model_call import ModelReply, call_model, to_messages
from autoprompt.workflow.engine.models import ModelSpec
from autoprompt.workflow.engine.template import render

NullStrategy = Literal["raise_error", "use_default"]

# The id of the source may hold dots (a virtual node's does), the name of its variable none.
SHORTHAND = re.compile(r"\s*@([^\s@|]+)\.([^\s.@|]+)\s*\|\s*(\S(?:.*\S)?)\s*", re.DOTALL)
# What is nearly that: no question, no variable, no bar or the bar of a Chinese keyboard.
_NEAR_SHORTHAND = re.compile(r"\s*[@＠]\s*([^\s@＠|｜]+)\s*([|｜]?)\s*(.*?)\s*", re.DOTALL)
_TITLE_CHARACTERS = 30
_CONTEXT, _TEXTS = "context", ("text", "class_name", "class_id")  # outputs of LLM nodes
PLACES = ("inputs", "tool_parameters", "agent_parameters", "variables")  # where values of a node stand


class PartialModel(ModelSpec):
    """The model of an extraction as it is written. Without a name or provider the source's completes it."""

    name: str = ""

    def over(self, source: ModelSpec | None) -> ModelSpec | None:
        """Return the model to ask. A complete one is taken as it is; None if nothing names one."""
        if source is None or (self.name and self.provider):
            return self if self.name else None
        return source.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class ExtractionSpec(BaseModel):
    """One extraction of a node. default_value: for an empty answer under `use_default`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    local_id: str = ""
    input_name: str = ""
    source_node_id: str
    source_variable: str
    extraction_prompt: str
    model: PartialModel | None = None
    null_strategy: NullStrategy = "raise_error"
    default_value: Any = None

    @field_validator("extraction_prompt")
    @classmethod
    def _asks_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the question is empty. Write what to take out of the conversation")
        return value

    @property
    def title(self) -> str:
        return extraction_title(self.extraction_prompt)

    @property
    def source(self) -> ExtractionSource:
        return ExtractionSource((self.source_node_id, self.source_variable), self.extraction_prompt)


def extraction_title(prompt: str) -> str:
    return f"Extraction: {prompt[:_TITLE_CHARACTERS]}"


@dataclass(frozen=True)
class Extracting(NodeTypeBase):
    """The virtual node's type: asks for the value. Its data is the `ExtractionSpec`."""

    data_model: type[BaseModel] = ExtractionSpec

    def execute(self, data: ExtractionSpec, context: NodeContext) -> NodeResult:
        selector = (data.source_node_id, data.source_variable)
        source = _source_node(data, context)
        prompt = render(context.component("user", data.extraction_prompt), context.pool)
        messages = [*to_messages(context.pool.get(selector), selector), Message("user", prompt)]
        reply = call_model(context, messages, _model(data, source, context))
        return _result(data, prompt, visible(reply.text), reply)

    def mocked(self, data: ExtractionSpec, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        result = _result(data, data.extraction_prompt, str(outputs.get("text", "")), None)
        return NodeResult({**outputs, **result.outputs}, result.inputs, result.process_data)

    def component_texts(self, data: ExtractionSpec) -> Mapping[str, str]:
        return {"user": data.extraction_prompt}


def _source_node(data: ExtractionSpec, context: NodeContext) -> GraphNode:
    node_id = context.pool.global_id(data.source_node_id)
    nodes = context.run.nodes
    if node_id not in nodes:
        raise SourceNodeNotFoundError(data.source_node_id, nodes)
    return nodes[node_id]


def model_asked(data: ExtractionSpec, source: Any) -> ModelSpec | None:
    """Return the extraction's own model, completed by that of the source's data, else the source's."""
    of_source = model_of(source)
    return of_source if data.model is None else data.model.over(of_source)


def _model(data: ExtractionSpec, source: GraphNode, context: NodeContext) -> ModelSpec | None:
    """Return the model to ask; None where the run's own goes before it."""
    model = model_asked(data, source.data)
    if model is None and not (context.run.models.overrides and source.type in LLM_TYPES):
        raise ModelConfigNotFoundError(data.source_node_id, data.source_variable)
    return model


def model_of(data: Any) -> ModelSpec | None:
    """Return the model that a node's data names: in `model`, for an agent in `agent_parameters`."""
    model = _field(data, "model")
    if model is None:
        model = _field(_field(data, "agent_parameters"), "model")
    if isinstance(model, Mapping) and "value" in model and "name" not in model:
        model = model["value"]
    if isinstance(model, ModelSpec):
        return model
    is_named = bool(model.get("name") or model.get("model")) if isinstance(model, Mapping) else bool(model)
    return ModelSpec.model_validate(model) if is_named and isinstance(model, str | Mapping) else None


def _field(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else getattr(data, name, None)


def _result(data: ExtractionSpec, prompt: str, text: str, reply: ModelReply | None) -> NodeResult:
    source = f"{data.source_node_id}.{data.source_variable}"
    process: dict[str, Any] = {"source": source, "prompt": prompt}
    value: Any = text
    if not text.strip():
        if data.null_strategy == "raise_error":
            raise ExtractionError(
                f"the extraction from {source} came back empty. Fix the prompt {prompt!r}, or set "
                "`null_strategy: use_default` with a `default_value`."
            )
        value = data.default_value
    if reply is not None:
        process |= reply.process_data
    return NodeResult(
        outputs={"text": value},
        inputs={"context_source": source, "extraction_prompt": prompt},
        process_data=process,
        metadata=reply.metadata if reply is not None else {},
    )


def desugar(node_id: str, data: Mapping[str, Any]) -> tuple[dict[str, Any], list[ExtractionSpec]]:
    """Replace the extractions in a node's data by references; return the data and the extractions, in order.

    Extractions are in `inputs`, and as shorthand also in `tool_parameters`, `agent_parameters` and
    `variables`. Their ids are numbered; ids that `virtual_nodes` uses are left out.

    Raises:
        WorkflowDefinitionError: A field of an extraction is missing or wrong.
    """
    found: list[ExtractionSpec] = []
    taken = {str(child.get("id")) for child in data.get("virtual_nodes") or () if isinstance(child, Mapping)}
    free = free_ids(taken)

    def replaced(value: Any, name: str) -> Any:
        spec = _read(value, name, node_id)
        if spec is None:
            return value
        found.append(spec.model_copy(update={"local_id": next(free)}))
        kept = {k: v for k, v in value.items() if k == "name"} if isinstance(value, Mapping) else {}
        return {**kept, "type": "variable", "value": [found[-1].local_id, "text"]}

    plain = {**deepcopy(dict(data))}
    for place, name, value in list(_values(plain)):
        place(replaced(value, name))
    return plain, found


def malformed(data: Mapping[str, Any], nodes: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (name of the input, what is wrong) for values that are nearly `@node.context | question`.

    Args:
        nodes: Ids that a value may name; a text with another word behind its `@` is a text.
    """
    for _, name, value in _values(dict(data)):
        text = value.get("value") if isinstance(value, Mapping) else value
        if not isinstance(text, str) or SHORTHAND.fullmatch(text):
            continue
        match = _NEAR_SHORTHAND.fullmatch(text)
        if match is None:
            continue
        source, bar, question = match.groups()
        fault = _malformed(source, bar, question, nodes)
        if fault is not None:
            yield name, f"{text!r:.80} {fault}"


def _malformed(source: str, bar: str, question: str, nodes: Collection[str]) -> str | None:
    node, _, variable = source.rpartition(".")
    asked = question or "QUESTION"
    if source in nodes:
        if not bar:
            return None  # a text that begins with a word behind an @
        return f'names no variable of {source!r}. Write "@{source}.{_CONTEXT} | {asked}".'
    if node not in nodes:
        meant = difflib.get_close_matches(source, nodes, n=1) if bar else []
        return f'names no node. Did you mean "@{meant[0]}.{_CONTEXT} | {asked}"?' if meant else None
    right = f'"@{source} | {asked}"'
    if not question:
        return (
            f"asks nothing, so it would be passed on as text. Write {right}, or for the variable itself "
            f"`{{type: variable, value: [{node}, {variable}]}}`."
        )
    return f"is not an extraction, so it would be passed on as text. Write {right}."


def free_ids(taken: Collection[str]) -> Iterator[str]:
    """Yield ids for the extractions of a node whose virtual nodes have the ids `taken`."""
    numbers = (f"ext_{number}" for number in range(1, 1_000_000))
    return (local_id for local_id in numbers if local_id not in taken)


def _values(data: dict[str, Any]) -> Iterator[tuple[Callable[[Any], None], str, Any]]:
    """Every value that may be an extraction, in the order of the file: how to replace it, its name, it."""
    for holder in [data[place] for place in data if place in PLACES]:
        if isinstance(holder, dict):
            for name in holder:
                yield _setter(holder, name), str(name), holder[name]
        elif isinstance(holder, list):
            for number, entry in enumerate(holder):
                if isinstance(entry, dict):
                    name = str(entry.get("name") or entry.get("variable") or "")
                    yield _place(holder, number, entry, name), name, entry


def _place(entries: list[Any], number: int, entry: dict[str, Any], name: str) -> Callable[[Any], None]:
    if "variable" not in entry:
        return _setter(entries, number)

    def place(value: Any) -> None:  # of a code node: {variable, value_selector}, or with a `value`
        if value is not entry:
            entries[number] = {"variable": name, "value_selector": value["value"]}

    return place


def _setter(holder: Any, key: Any) -> Callable[[Any], None]:
    def place(value: Any) -> None:
        holder[key] = value

    return place


def _read(value: Any, name: str, node_id: str) -> ExtractionSpec | None:
    """Return the extraction that a value means, None if it means none."""
    if isinstance(value, Mapping):
        if value.get("type") == "extraction":
            return _checked(value.get("value"), name, node_id)
        value = value.get("value")
    if not isinstance(value, str):
        return None
    match = SHORTHAND.fullmatch(value)
    if match is None:
        return None
    source, variable, prompt = match.groups()
    return ExtractionSpec(
        input_name=name, source_node_id=source, source_variable=variable, extraction_prompt=prompt
    )


def _checked(value: Any, name: str, node_id: str) -> ExtractionSpec:
    where = f"node {node_id!r}: extraction {name!r}"
    if not isinstance(value, Mapping):
        raise WorkflowDefinitionError(
            f"{where}: its value has to hold source_node_id, source_variable and extraction_prompt, "
            f"found {'no value' if value is None else repr(value)}"
        )
    try:
        return ExtractionSpec.model_validate({**value, "input_name": name})
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        )
        raise WorkflowDefinitionError(f"{where}: {faults}") from error


def check(spec: ExtractionSpec, nodes: Mapping[str, Any], types: Mapping[str, str]) -> ExtractionError | None:
    """Return what is wrong with an extraction, as far as the file shows it; None if nothing.

    Args:
        nodes: The data of every node by id (raw or parsed), virtual ones under their global ids.
        types: The type of every node by id.
    """
    if spec.source_node_id not in nodes:
        return SourceNodeNotFoundError(spec.source_node_id, nodes)
    selector = (spec.source_node_id, spec.source_variable)
    kind = types.get(spec.source_node_id, "").replace("_", "-")
    if kind in LLM_TYPES and spec.source_variable != _CONTEXT:
        if spec.source_variable in _TEXTS:
            return InvalidVariableTypeError(selector, str)
        return VariableNotFoundError(selector, [f"{spec.source_node_id}.{_CONTEXT}"])
    if model_asked(spec, nodes[spec.source_node_id]) is None:
        return ModelConfigNotFoundError(spec.source_node_id, spec.source_variable)
    return None
