"""What each type of node says in a file: one record a type, with Dify's field names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, field_validator, model_validator

from autoprompt.text import python_source
from autoprompt.text.names import counted
from autoprompt.workflow.engine.conditions import LogicalOperator
from autoprompt.workflow.engine.http_call import known_method
from autoprompt.workflow.engine.template import check_jinja
from autoprompt.workflow.engine.tools import HttpTool
from autoprompt.workflow.file.fields import (
    Condition,
    Flag,
    Identifier,
    Input,
    Mapped,
    MaybeSelector,
    NamedSelectors,
    NodeData,
    PathSelector,
    Record,
    Text,
    listed_selector,
)

Operation = Literal[
    "over-write",
    "clear",
    "append",
    "extend",
    "set",
    "+=",
    "-=",
    "*=",
    "/=",
    "remove-first",
    "remove-last",
]
WITHOUT_VALUE = ("clear", "remove-first", "remove-last")  # editors leave there what an earlier choice needed
_MAX_CODE = 400_000  # characters; of short lines, Python parses so many in a second
TEXT_TYPES = ("text-input", "paragraph", "string", "text")  # of inputs
TIMEOUT = "__timeout"  # the way out of a form that nobody answers


class StartVariable(Record):
    """One input of the workflow. type: text-input, paragraph, number, select, checkbox, json_object, ..."""

    variable: str
    label: Text = ""
    type: Text = "text-input"
    required: Flag = False
    default: Any = None
    options: Annotated[tuple[Text, ...], BeforeValidator(lambda value: value or ())] = ()
    max_length: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return {"variable": value, "required": True} if isinstance(value, str) else value

    @field_validator("max_length", mode="before")
    @classmethod
    def _none_where_unset(cls, value: Any) -> Any:
        return value or None


class StartData(NodeData):
    variables: Annotated[tuple[StartVariable, ...], BeforeValidator(lambda value: value or ())] = ()


class EndData(NodeData):
    outputs: NamedSelectors = ()


class AnswerData(NodeData):
    answer: Text = ""


class Case(Record):
    """One way out of a branch. expression: a condition in one line instead of a list of comparisons."""

    case_id: Identifier = Field(validation_alias=AliasChoices("case_id", "id"))
    logical_operator: LogicalOperator = "and"
    conditions: tuple[Condition, ...] = ()
    expression: Text = Field(default="", validation_alias=AliasChoices("expression", "condition", "if"))


class IfElseData(NodeData):
    """A case that holds leaves by the handle of its id; none: by "false". Older exports have one case."""

    cases: tuple[Case, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _one_case(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("cases"):
            return value
        names = ("conditions", "expression", "condition", "if")
        given = {name: value[name] for name in names if value.get(name)}
        if not given:
            return value
        operator = value.get("logical_operator") or "and"
        return {**value, "cases": [{"case_id": "true", "logical_operator": operator, **given}]}


class AggregatorGroup(Record):
    group_name: str
    output_type: Text = ""
    variables: tuple[PathSelector, ...] = ()


class AggregatorSettings(Record):
    group_enabled: Flag = False
    groups: tuple[AggregatorGroup, ...] = ()


class AggregatorData(NodeData):
    output_type: Text = ""
    variables: tuple[PathSelector, ...] = ()
    advanced_settings: AggregatorSettings | None = None

    @property
    def groups(self) -> tuple[AggregatorGroup, ...]:
        settings = self.advanced_settings
        return settings.groups if settings is not None and settings.group_enabled else ()


class AssignedItem(Record):
    variable_selector: PathSelector
    operation: Operation = "over-write"
    input_type: Literal["variable", "constant"] = "constant"
    value: Any = None

    @property
    def value_selector(self) -> tuple[str, ...] | None:
        """Where the value comes from, for an operation that takes one from a variable."""
        is_taken = self.input_type == "variable" and self.operation not in WITHOUT_VALUE
        return listed_selector(self.value) if is_taken else None


class AssignerData(NodeData):
    """The first version of the node, with one assignment, is read as a list of one."""

    items: tuple[AssignedItem, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _of_first_version(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("items") or "assigned_variable_selector" not in value:
            return value
        item = {
            "variable_selector": value["assigned_variable_selector"],
            "operation": value.get("write_mode") or "over-write",
            "input_type": "variable",
            "value": value.get("input_variable_selector"),
        }
        return {**value, "items": [item]}


class IterationData(NodeData):
    """parallel_nums: items at once. flatten_output: lists in a list become one list."""

    iterator_selector: PathSelector
    output_selector: MaybeSelector = None
    is_parallel: Flag = False
    parallel_nums: int = Field(default=10, ge=1)
    error_handle_mode: Literal["terminated", "continue-on-error", "remove-abnormal-output"] = "terminated"
    flatten_output: bool = True


class LoopVariable(Record):
    label: str
    var_type: Text = ""
    value_type: Literal["constant", "variable"] = "constant"
    value: Any = None

    @property
    def value_selector(self) -> tuple[str, ...] | None:
        """Where the value comes from, for one that is a variable."""
        return listed_selector(self.value) if self.value_type == "variable" else None


class LoopData(NodeData):
    """break_expression: a condition in one line instead of `break_conditions`."""

    loop_count: int = Field(ge=1)
    break_conditions: Annotated[tuple[Condition, ...], BeforeValidator(lambda value: value or ())] = ()
    logical_operator: LogicalOperator = "and"
    loop_variables: Annotated[tuple[LoopVariable, ...], BeforeValidator(lambda value: value or ())] = ()
    break_expression: Text = ""
    error_handle_mode: Literal["terminated", "continue-on-error", "remove-abnormal-output"] = "terminated"


class ListFilter(Record):
    enabled: Flag = False
    conditions: tuple[Any, ...] = ()


class ListOrder(Record):
    enabled: Flag = False
    key: Text = ""
    value: Literal["asc", "desc"] = "asc"


class ListLimit(Record):
    enabled: Flag = False
    size: int = -1


class ListExtract(Record):
    enabled: Flag = False
    serial: Text = "1"


class ListOperatorData(NodeData):
    variable: PathSelector
    filter_by: ListFilter = ListFilter()
    order_by: ListOrder = ListOrder()
    limit: ListLimit = ListLimit()
    extract_by: ListExtract = ListExtract()


class ToolData(NodeData):
    """tool_configurations: what the editor's form fixed; tool_parameters: what a run gives."""

    tool_name: str
    provider_id: Text = ""
    provider_name: Text = ""
    tool_label: Text = ""
    tool_parameters: dict[str, Input] = Field(default_factory=dict)
    tool_configurations: Mapped = Field(default_factory=dict)
    http_tools: dict[str, HttpTool] = Field(default_factory=dict)  # those that the file brings

    @property
    def tool_names(self) -> tuple[str, ...]:
        return (self.tool_name,)

    @field_validator("tool_parameters", mode="before")
    @classmethod
    def _given_ones(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value or {}
        return {
            str(name): given
            for name, given in value.items()
            if given is not None and not (isinstance(given, Mapping) and given.get("value", given) is None)
        }


class CodeOutput(Record):
    type: str
    children: dict[str, CodeOutput] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value


class CodeData(NodeData):
    code: str
    code_language: Literal["python3", "javascript"] = "python3"
    variables: NamedSelectors = ()
    outputs: Annotated[dict[str, CodeOutput], BeforeValidator(lambda value: value or {})] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        """Told when the file is checked: at run time the nodes before it would be paid for first."""
        if len(self.code) > _MAX_CODE:
            raise ValueError(
                f"code of {counted(len(self.code), 'character')}, expected at most {_MAX_CODE:,}"
            )
        if self.code_language == "python3":
            try:
                python_source.parse_code(self.code)
            except SyntaxError as error:
                raise ValueError(f"code line {error.lineno} is not Python: {error.msg}") from error
            except (RecursionError, MemoryError) as error:  # what the parser calls its own stack
                raise ValueError("the code is nested too deeply") from error
        return self


class TemplateData(NodeData):
    template: Annotated[Text, AfterValidator(check_jinja)]
    variables: NamedSelectors = ()


class HttpAuthorizationConfig(Record):
    type: Literal["basic", "bearer", "custom"] = "bearer"
    api_key: Text = ""
    header: Text = ""


class HttpAuthorization(Record):
    type: Literal["no-auth", "api-key"] = "no-auth"
    config: HttpAuthorizationConfig | None = None


class HttpBodyField(Record):
    key: Text = ""
    type: Text = "text"
    value: Text = ""


class HttpBody(Record):
    type: Literal["none", "form-data", "x-www-form-urlencoded", "raw-text", "json", "binary"] = "none"
    data: tuple[HttpBodyField, ...] = ()

    @field_validator("data", mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        if not value:
            return ()
        return [{"value": value}] if isinstance(value, str) else value


class HttpTimeout(Record):
    """Seconds; 0 or nothing stands for the default.

    connect: of each connection. read: of the whole answer with its redirects.
    """

    connect: float | None = Field(
        default=None, ge=0, validation_alias=AliasChoices("connect", "max_connect_timeout")
    )
    read: float | None = Field(default=None, ge=0, validation_alias=AliasChoices("read", "max_read_timeout"))


class HttpRequestData(NodeData):
    """headers, params: lines of `name: value`, as the editor writes them, or a mapping."""

    method: Annotated[str, AfterValidator(known_method)] = "get"
    url: str
    authorization: HttpAuthorization = HttpAuthorization()
    headers: Text = ""
    params: Text = ""
    body: HttpBody | None = None
    timeout: HttpTimeout | None = None
    ssl_verify: bool | None = None

    @field_validator("headers", "params", mode="before")
    @classmethod
    def _lines(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return "\n".join(f"{name}: {text}" for name, text in value.items())
        return value

    @field_validator("body", mode="before")
    @classmethod
    def _json_of_mapping(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "type" not in value:
            return None if not value else {"type": "json", "data": value.get("data", "")}
        return value


class DifyOnlyData(NodeData):
    """A node that runs in Dify alone. Other fields are not read: newer types may give them any form."""

    @model_validator(mode="before")
    @classmethod
    def _without_inputs(cls, value: Any) -> Any:
        return {**value, "inputs": []} if isinstance(value, Mapping) else value


class RetrievalData(DifyOnlyData):
    query_variable_selector: MaybeSelector = None
    dataset_ids: Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())] = ()
    multiple_retrieval_config: Mapped = Field(default_factory=dict)

    @property
    def top_k(self) -> int | None:
        """How many passages are asked for."""
        found = self.multiple_retrieval_config.get("top_k")
        return found if isinstance(found, int) else None


class ExternalDataData(DifyOnlyData):
    """What Dify's external data tools fill into an app without a graph. variables: the names of it."""

    variables: tuple[Text, ...] = ()


class DocumentExtractorData(DifyOnlyData):
    variable_selector: PathSelector
    is_array_file: Flag = False


class HumanInputData(DifyOnlyData):
    """A form for a person. form: names of its fields. actions: ids of its buttons, each a way out."""

    form: tuple[Text, ...] = ()
    actions: tuple[Identifier, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_form(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        fields = _names(value.get("inputs"), "output_variable_name")
        return {**value, "form": fields, "actions": _names(value.get("user_actions"), "id")}


def _names(entries: Any, key: str) -> list[Any]:
    listed = entries if isinstance(entries, list) else []
    return [entry[key] for entry in listed if isinstance(entry, Mapping) and entry.get(key)]
