"""What the records of nodes share: tolerant base, selectors, models, retries, conditions.

Fields that are not known are passed over: exports carry what their editor needs (positions, colours, labels).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from autoprompt.workflow.engine.conditions import OPERATORS, LogicalOperator, canonical_operator
from autoprompt.workflow.engine.definition import ErrorStrategy, RetryConfig
from autoprompt.workflow.engine.template import Selector, only_reference


class Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


def read_selector(value: Any) -> Any:
    """Return a selector from `[node, variable]`, `"node.variable"` or `"{{#node.variable#}}"`."""
    if isinstance(value, str):
        steps = only_reference(value) or tuple(value.strip().split("."))
    elif isinstance(value, list | tuple) and all(isinstance(step, str | int) for step in value):
        steps = tuple(str(step) for step in value)
    else:
        raise ValueError("expected a selector such as [node, variable]")
    if not steps or not all(steps):
        raise ValueError("expected a selector such as [node, variable]")
    return steps


def listed_selector(value: Any) -> tuple[str, ...] | None:
    """Return the selector that a list holds, None for anything else, an empty list too."""
    return tuple(str(step) for step in value) if isinstance(value, list) and value else None


def _optional_selector(value: Any) -> Any:
    return None if value in (None, "", [], [""]) else read_selector(value)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _text_or_empty(value: Any) -> Any:
    return "" if value is None else _text(value)


def _none_is_empty_dict(value: Any) -> Any:
    return {} if value is None else value


def _none_is_empty_list(value: Any) -> Any:
    return [] if value is None else value


def _none_is_false(value: Any) -> Any:
    return False if value is None else value


PathSelector = Annotated[Selector, BeforeValidator(read_selector)]
MaybeSelector = Annotated[Selector | None, BeforeValidator(_optional_selector)]
Identifier = Annotated[str, BeforeValidator(_text)]
Text = Annotated[str, BeforeValidator(_text_or_empty)]
Flag = Annotated[bool, BeforeValidator(_none_is_false)]
Mapped = Annotated[dict[str, Any], BeforeValidator(_none_is_empty_dict)]


class DefaultValue(Record):
    """One output of a node that failed under `error_strategy: default-value`, read by its type."""

    key: str
    type: Text = ""
    value: Any = None

    @model_validator(mode="after")
    def _of_its_type(self) -> DefaultValue:
        value = _text(self.value) if self.type == "string" else self.value
        object.__setattr__(self, "value", typed_value(value, self.type, f"default_value {self.key!r}"))
        return self


def typed_value(value: Any, kind: str, what: str) -> Any:
    """Return a value written in an editor's text field, as what its type says.

    Raises:
        ValueError: The text is not a value of this type.
    """
    if not isinstance(value, str) or kind in ("", "string", "secret", "text-input", "paragraph", "select"):
        return value
    if not value.strip():
        return empty_value(kind)
    try:
        read = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is {value!r:.80}, expected JSON of type {kind}") from error
    if kind in ("boolean", "bool") and read in (0, 1):
        return bool(read)
    if not is_of_type(read, kind):
        raise ValueError(f"{what} is {value!r:.80}, expected type {kind}")
    return read


def empty_value(kind: str) -> Any:
    """Return the value of a variable that was given none; null where the type has no empty one."""
    if kind.startswith("array"):
        return []
    return {"object": {}, "number": 0, "boolean": False, "string": ""}.get(kind)


_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "text": (str,),
    "secret": (str,),
    "select": (str,),
    "number": (int, float),
    "integer": (int,),
    "float": (int, float),
    "boolean": (bool,),
    "bool": (bool,),
    "object": (dict,),
    "array": (list,),
    "file": (dict, str),
}


def is_of_type(value: Any, kind: str) -> bool:
    """Return whether a value is of one of Dify's types: string, number, object, array[string], ..."""
    kind = kind.lower()
    if kind.startswith("array["):
        inner = kind[len("array[") : -1]
        return isinstance(value, list) and all(is_of_type(item, inner) for item in value)
    types = _KINDS.get(kind)
    if types is None:
        return True
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


class NamedSelector(Record):
    """A variable of code or of a template, and where its value comes from."""

    variable: str
    value_selector: MaybeSelector = None
    value_type: Text = ""


def _read_named(value: Any) -> Any:
    """Also accepts `{name: selector}`."""
    if isinstance(value, Mapping):
        return [{"variable": str(name), "value_selector": where} for name, where in value.items()]
    return [] if value is None else value


NamedSelectors = Annotated[tuple[NamedSelector, ...], BeforeValidator(_read_named)]


class SubCondition(Record):
    key: str
    comparison_operator: str
    value: Any = None


class SubConditions(Record):
    logical_operator: LogicalOperator = "and"
    conditions: tuple[SubCondition, ...] = ()


def _read_operator(value: Any) -> Any:
    found = canonical_operator(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"not a comparison operator. Known operators: {', '.join(OPERATORS)}")
    return found


class Condition(Record):
    """One comparison. `value` may name variables as `{{#node.variable#}}`."""

    variable_selector: PathSelector
    comparison_operator: Annotated[str, BeforeValidator(_read_operator)]
    value: Any = None
    sub_variable_condition: SubConditions | None = None
    var_type: Text = Field(default="", validation_alias=AliasChoices("varType", "var_type"))


class Input(Record):
    """A value given to a node: fixed, of a variable, a text with references, or extracted by a model."""

    type: Literal["constant", "variable", "mixed", "extraction"] = "mixed"
    value: Any = None

    @model_validator(mode="before")
    @classmethod
    def _of_plain_value(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and ("type" in value or "value" in value):
            if "type" not in value:
                return {**value, "type": "mixed" if isinstance(value["value"], str) else "constant"}
            return value
        return {"type": "mixed" if isinstance(value, str) else "constant", "value": value}

    @model_validator(mode="after")
    def _selector_of_variable(self) -> Input:
        if self.type == "variable" and self.value is not None:
            object.__setattr__(self, "value", read_selector(self.value))
        return self


class NamedInput(Input):
    name: str
    null_strategy: Literal["raise_error", "use_default"] | None = None
    default_value: Any = None


def _read_inputs(value: Any) -> Any:
    """Return a list of entries with a name, or `{name: value}`."""
    if isinstance(value, Mapping):
        entries = [
            (name, given if isinstance(given, Mapping) else {"value": given}) for name, given in value.items()
        ]
        return [{"name": str(name), **given} for name, given in entries]
    return [] if value is None else value


Inputs = Annotated[tuple[NamedInput, ...], BeforeValidator(_read_inputs)]


class VirtualNode(Record):
    id: Identifier
    type: str
    data: Mapped = Field(default_factory=dict)


class Demonstration(Record):
    """A worked example, shown to a node's model as a turn of the chat before its own input."""

    user: Text
    assistant: Text


class NodeData(Record):
    """What every node may say."""

    title: Text = ""
    desc: Text = ""
    error_strategy: ErrorStrategy | None = None
    default_value: tuple[DefaultValue, ...] = ()
    retry_config: RetryConfig | None = None
    virtual_nodes: Annotated[tuple[VirtualNode, ...], BeforeValidator(_none_is_empty_list)] = ()
    inputs: Inputs = ()
    locked: Flag = False
    demonstrations: Annotated[tuple[Demonstration, ...], BeforeValidator(_none_is_empty_list)] = ()

    @property
    def shown(self) -> tuple[Demonstration, ...]:
        """The demonstrations of the file, wherever it has them."""
        return self.demonstrations

    @model_validator(mode="before")
    @classmethod
    def _common_spellings(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        changed = dict(value)
        if changed.get("error_strategy") in ("none", ""):
            changed["error_strategy"] = None
        if isinstance(changed.get("default_value"), Mapping):
            changed["default_value"] = [{"key": k, "value": v} for k, v in changed["default_value"].items()]
        for name in ("default_value", "retry_config"):
            if name in changed and changed[name] is None:
                del changed[name]
        return changed
