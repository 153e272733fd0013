"""From the data of a node, as a file has it, to a node that can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from autoprompt.workflow.definition import (
    Definition,
    ErrorStrategy,
    ExtractionSource,
    GraphNode,
    RetryConfig,
    VirtualNode,
)
from autoprompt.workflow.errors import WorkflowDefinitionError
from autoprompt.workflow.extraction import Extracting, ExtractionSpec, desugar, extraction_title
from autoprompt.workflow.nodes import canonical_type, node_type
from autoprompt.workflow.template import only_reference

_CASTS: Mapping[str, Callable[[Any], Any]] = {
    "string": str,
    "number": lambda value: float(value) if "." in str(value) else int(value),
}
_STRATEGIES: tuple[ErrorStrategy, ...] = ("fail-branch", "default-value")


def graph_node(
    node_id: str, type_name: str, data: Mapping[str, Any], *, inner: Definition | None = None
) -> GraphNode:
    """The node that this data describes, with its virtual nodes: its own ones, then its extractions.

    node_id: global. data: raw; fields that no node type knows are let be.
    Raises UnknownNodeTypeError, and WorkflowDefinitionError that names the node for data that does not do.
    """
    executor = node_type(type_name)
    plain, extractions = desugar(node_id, data)
    try:
        parsed = executor.data_model.model_validate(plain)
        retry = _retry(plain)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise WorkflowDefinitionError(f"node {node_id!r} ({type_name}): {faults}") from error
    children = [_explicit(node_id, child) for child in plain.get("virtual_nodes") or ()]
    children += [_extracting(node_id, spec) for spec in extractions]
    return GraphNode(
        id=node_id,
        type=canonical_type(type_name),
        title=str(plain.get("title") or node_id),
        executor=executor,
        data=parsed,
        retry=retry,
        error_strategy=_strategy(node_id, plain),
        default_values=_defaults(node_id, plain),
        inputs=_inputs(node_id, plain),
        children=tuple(children),
        inner=inner,
        locked=bool(plain.get("locked", False)),
    )


def _explicit(parent_id: str, child: Mapping[str, Any]) -> VirtualNode:
    local_id = str(child.get("id", ""))
    data = dict(child.get("data") or {})
    source = _conversation(data)
    if source is not None and not data.get("title"):
        data["title"] = extraction_title(source.prompt)
    node = graph_node(f"{parent_id}.{local_id}", str(child.get("type", "")), data)
    return VirtualNode(local_id, node, source)


def _conversation(data: Mapping[str, Any]) -> ExtractionSource | None:
    """The source of a written-out extraction: a conversation as one message, a question as the other."""
    template = data.get("prompt_template")
    if not isinstance(template, Sequence) or isinstance(template, str) or len(template) != 2:
        return None
    texts = [str(part.get("text", "")) if isinstance(part, Mapping) else "" for part in template]
    selector = only_reference(texts[0])
    return ExtractionSource(selector, texts[1]) if selector is not None and texts[1].strip() else None


def _extracting(parent_id: str, spec: ExtractionSpec) -> VirtualNode:
    node = GraphNode(
        id=f"{parent_id}.{spec.local_id}", type="llm", title=spec.title, executor=Extracting(), data=spec
    )
    failed = spec.default_value if spec.default_value is not None else ""
    return VirtualNode(spec.local_id, node, spec.source, failed)


def _retry(data: Mapping[str, Any]) -> RetryConfig | None:
    found = data.get("retry_config")
    return None if found is None else RetryConfig.model_validate(found)


def _strategy(node_id: str, data: Mapping[str, Any]) -> ErrorStrategy | None:
    found = data.get("error_strategy")
    if found in (None, "", "none"):  # exports write "none"
        return None
    for known in _STRATEGIES:
        if found == known:
            return known
    raise WorkflowDefinitionError(
        f"node {node_id!r}: error_strategy {found!r} is unknown. Known: {', '.join(_STRATEGIES)}."
    )


def _defaults(node_id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """`[{key, type, value}]` by key; numbers and JSON come as text in exports."""
    defaults = {}
    for entry in data.get("default_value") or ():
        if not isinstance(entry, Mapping) or "key" not in entry:
            raise WorkflowDefinitionError(f"node {node_id!r}: default_value is a list of key, type, value")
        defaults[str(entry["key"])] = _typed(node_id, entry)
    return defaults


def _typed(node_id: str, entry: Mapping[str, Any]) -> Any:
    import json

    kind, value = str(entry.get("type", "")), entry.get("value")
    try:
        if kind in _CASTS and value is not None:
            return _CASTS[kind](value)
        if (kind == "object" or kind.startswith("array")) and isinstance(value, str):
            return json.loads(value)
    except ValueError as error:
        raise WorkflowDefinitionError(
            f"node {node_id!r}: default_value {entry['key']!r} is {value!r}, no {kind}"
        ) from error
    return value


def _inputs(node_id: str, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """`inputs` as entries; it may also be a mapping of names to values."""
    inputs = data.get("inputs") or ()
    if isinstance(inputs, Mapping):
        inputs = [
            {"name": name, **value} if isinstance(value, Mapping) else {"name": name, "value": value}
            for name, value in inputs.items()
        ]
    for entry in inputs:
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise WorkflowDefinitionError(f"node {node_id!r}: each of its inputs has a name, type and value")
    return tuple(inputs)
