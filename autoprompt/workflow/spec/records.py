"""What each type of node says in a file: one record a type, with Dify's field names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, field_validator, model_validator

from autoprompt.workflow.conditions import LogicalOperator
from autoprompt.workflow.http_tools import HttpTool
from autoprompt.workflow.nodes import known_types, node_type
from autoprompt.workflow.spec.fields import (
    Condition,
    Flag,
    Identifier,
    Input,
    Mapped,
    MaybeSelector,
    ModelConfig,
    NamedSelectors,
    NodeData,
    PathSelector,
    Record,
    Text,
)


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


class PromptMessage(Record):
    """One message of a prompt. edition_type "jinja2": `jinja2_text` is the text, a template."""

    role: Literal["system", "user", "assistant"] = "user"
    text: Text = Field(default="", validation_alias=AliasChoices("text", "content"))
    edition_type: Text = "basic"
    jinja2_text: Text = ""
    locked: Flag = False

    @property
    def is_jinja2(self) -> bool:
        return self.edition_type == "jinja2"

    @property
    def template(self) -> str:
        return self.jinja2_text if self.is_jinja2 else self.text


class ContextConfig(Record):
    enabled: Flag = False
    variable_selector: MaybeSelector = None


class MemoryWindow(Record):
    enabled: Flag = False
    size: int | None = 50


class MemoryConfig(Record):
    """The turns of the conversation so far, put in front of the last message."""

    window: MemoryWindow = MemoryWindow()
    query_prompt_template: Text = ""


class PromptConfig(Record):
    jinja2_variables: NamedSelectors = ()


class ModelNodeData(NodeData):
    """What the nodes that ask a model share."""

    model: ModelConfig | None = None
    memory: MemoryConfig | None = None

    @field_validator("model", mode="before")
    @classmethod
    def _unnamed_is_none(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not (value.get("name") or value.get("model")):
            return None
        return value or None


def _prompt_messages(value: Any) -> Any:
    """A list of messages, a bare text, or the one text of a completion model."""
    if isinstance(value, str):
        return [{"role": "user", "text": value}]
    if isinstance(value, Mapping):
        return [{"role": "user", **value}]
    return value


class LLMData(ModelNodeData):
    prompt_template: Annotated[tuple[PromptMessage, ...], BeforeValidator(_prompt_messages)] = Field(
        min_length=1
    )
    context: ContextConfig | None = None
    prompt_config: PromptConfig | None = None
    structured_output_enabled: Flag = False
    structured_output: Mapped = Field(default_factory=dict)
    reasoning_format: Literal["separated", "tagged"] = "tagged"

    @property
    def schema_of_output(self) -> dict[str, Any] | None:
        """The JSON schema of the answer, where one is asked for."""
        schema = self.structured_output.get("schema")
        return schema if self.structured_output_enabled and isinstance(schema, dict) else None


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
    """Seconds; 0 or nothing stands for the default."""

    connect: float | None = Field(
        default=None, validation_alias=AliasChoices("connect", "max_connect_timeout")
    )
    read: float | None = Field(default=None, validation_alias=AliasChoices("read", "max_read_timeout"))


class HttpRequestData(NodeData):
    """headers, params: lines of `name: value`, as the editor writes them, or a mapping."""

    method: str = "get"
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


class ToolData(NodeData):
    """tool_configurations: what the editor's form fixed; tool_parameters: what a run gives."""

    tool_name: str
    provider_id: Text = ""
    provider_name: Text = ""
    tool_label: Text = ""
    tool_parameters: dict[str, Input] = Field(default_factory=dict)
    tool_configurations: Mapped = Field(default_factory=dict)
    http_tools: dict[str, HttpTool] = Field(default_factory=dict)  # those that the file brings

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


class TemplateData(NodeData):
    template: Text
    variables: NamedSelectors = ()


class ClassConfig(Record):
    id: Identifier
    name: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, value: Any) -> Any:
        return {"id": value, "name": value} if isinstance(value, str) else value


class ClassifierData(ModelNodeData):
    query_variable_selector: PathSelector
    classes: tuple[ClassConfig, ...] = Field(min_length=1)
    instruction: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _older_name(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not value.get("instruction") and value.get("instructions"):
            return {**value, "instruction": value["instructions"]}
        return value


class ParameterConfig(Record):
    name: str = Field(min_length=1)
    type: Text = "string"
    description: Text = ""
    required: Flag = False
    options: tuple[Text, ...] | None = None


class ExtractorData(ModelNodeData):
    query: PathSelector
    parameters: tuple[ParameterConfig, ...] = Field(min_length=1)
    instruction: Text = ""
    reasoning_mode: Text = "prompt"


class AgentData(ModelNodeData):
    """agent_parameters: as an export has them; the short form has the fields of the same names."""

    instruction: Input = Input(value="")
    query: Input
    tools: tuple[Any, ...] = ()
    max_iterations: int = Field(default=5, ge=1)
    agent_parameters: Mapped = Field(default_factory=dict)
    http_tools: dict[str, HttpTool] = Field(default_factory=dict)  # those that the file brings

    @model_validator(mode="before")
    @classmethod
    def _of_parameters(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(value.get("agent_parameters"), Mapping):
            return value
        given = {}
        for name, input_ in value["agent_parameters"].items():
            given[name] = input_.get("value") if isinstance(input_, Mapping) else input_
            if name in ("instruction", "query"):
                is_selector = isinstance(given[name], list)
                given[name] = {"type": "variable" if is_selector else "mixed", "value": given[name]}
        for name in ("maximum_iterations", "max_iteration", "max_iterations"):
            if given.get(name):
                given["max_iterations"] = given[name]
        own = {"instruction", "query", "model", "tools", "max_iterations"}
        return {**{k: v for k, v in given.items() if k in own and v is not None}, **value}

    @field_validator("tools", mode="before")
    @classmethod
    def _enabled_ones(cls, value: Any) -> Any:
        listed = value if isinstance(value, list | tuple) else []
        return [tool for tool in listed if not (isinstance(tool, Mapping) and tool.get("enabled") is False)]

    @field_validator("instruction", mode="before")
    @classmethod
    def _empty_where_none(cls, value: Any) -> Any:
        return "" if value is None else value

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(
            str(tool.get("tool_name") or tool.get("name") or "") if isinstance(tool, Mapping) else str(tool)
            for tool in self.tools
        )


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


class AssignedItem(Record):
    variable_selector: PathSelector
    operation: Operation = "over-write"
    input_type: Literal["variable", "constant"] = "constant"
    value: Any = None

    @property
    def value_selector(self) -> tuple[str, ...] | None:
        """Where the value comes from, for an input that is a variable."""
        if self.input_type == "variable" and isinstance(self.value, list) and self.value:
            return tuple(str(step) for step in self.value)
        return None


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
        if self.value_type == "variable" and isinstance(self.value, list):
            return tuple(str(step) for step in self.value)
        return None


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


DATA_OF_TYPE: dict[str, type[NodeData]] = {
    "start": StartData,
    "end": EndData,
    "answer": AnswerData,
    "llm": LLMData,
    "tool": ToolData,
    "code": CodeData,
    "template-transform": TemplateData,
    "question-classifier": ClassifierData,
    "parameter-extractor": ExtractorData,
    "agent": AgentData,
    "if-else": IfElseData,
    "variable-aggregator": AggregatorData,
    "assigner": AssignerData,
    "iteration": IterationData,
    "loop": LoopData,
    "http-request": HttpRequestData,
    "list-operator": ListOperatorData,
    "iteration-start": NodeData,
    "loop-start": NodeData,
    "loop-end": NodeData,
}
"""Type of node -> what it says. `_` for `-` is accepted too."""

KNOWN_TYPES = tuple(name for name in DATA_OF_TYPE if not name.endswith(("-start", "-end")))
MODEL_TYPES = frozenset({"llm", "agent", "question-classifier", "parameter-extractor"})
CONTAINER_TYPES = frozenset({"iteration", "loop"})
_OLDER_NAMES = {"variable-assigner": "variable-aggregator", "http": "http-request"}


def canonical_type(name: str) -> str | None:
    """The name under which a type of node is known here, None for one that is not."""
    plain = name.strip().lower().replace("_", "-")
    plain = _OLDER_NAMES.get(plain, plain)
    return plain if plain in DATA_OF_TYPE or plain in registered_types() else None


def registered_types() -> list[str]:
    """Types of nodes that were added in Python."""
    return [name for name in known_types() if name not in DATA_OF_TYPE]


def data_model(kind: str) -> type[BaseModel]:
    """The record that the data of a type is read into."""
    return DATA_OF_TYPE[kind] if kind in DATA_OF_TYPE else node_type(kind).data_model
