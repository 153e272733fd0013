"""What nodes that ask a model say in a file: llm, question-classifier, parameter-extractor, agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, field_validator, model_validator

from autoprompt.workflow.engine.models import ModelSpec
from autoprompt.workflow.engine.template import references
from autoprompt.workflow.engine.tools import HttpTool
from autoprompt.workflow.file.fields import (
    Demonstration,
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
)


class PromptMessage(Record):
    """One message of a prompt. edition_type "jinja2": `jinja2_text` is the text, a template.

    before: stands before the text in what is sent, and is no part of the prompt.
    """

    role: Literal["system", "user", "assistant"] = "user"
    text: Text = Field(default="", validation_alias=AliasChoices("text", "content"))
    edition_type: Text = "basic"
    jinja2_text: Text = ""
    locked: Flag = False
    before: Text = ""

    @property
    def is_jinja2(self) -> bool:
        return self.edition_type == "jinja2"

    @property
    def template(self) -> str:
        return self.jinja2_text if self.is_jinja2 else self.text


def shown_turns(messages: Sequence[tuple[str, str]], *, has_memory: bool) -> tuple[int, int]:
    """Return where the demonstrations among a prompt's messages begin and end; (0, 0) if there are none.

    Args:
        messages: Role and text of each; "" for the text of a Jinja2 template.
        has_memory: Whether the question of a chat follows the messages.

    Demonstrations are pairs of user and assistant without a variable, after the system messages and before
    the input.
    """
    first = next((n for n, (role, _) in enumerate(messages) if role != "system"), len(messages))
    last = first
    while [role for role, _ in messages[last : last + 2]] == ["user", "assistant"] and all(
        text.strip() and not references(text) for _, text in messages[last : last + 2]
    ):
        last += 2
    is_followed = last < len(messages) or has_memory
    return (first, last) if last > first and is_followed else (0, 0)


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
    """What the nodes that ask a model share. is_app: of an app of Dify without a graph, see `file.apps`."""

    model: ModelSpec | None = None
    memory: MemoryConfig | None = None
    is_app: Flag = False

    @field_validator("model", mode="before")
    @classmethod
    def _unnamed_is_none(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and not (value.get("name") or value.get("model")):
            return None
        return value or None


def _prompt_messages(value: Any) -> Any:
    """Return a list of messages, a bare text, or the one text of a completion model."""
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

    @model_validator(mode="after")
    def _shown_once(self) -> Self:
        if self.demonstrations and self._turns != (0, 0):
            raise ValueError(
                "demonstrations, and turns of user and assistant in prompt_template. Write all as turns"
            )
        return self

    @cached_property
    def _turns(self) -> tuple[int, int]:
        told = [(m.role, "" if m.is_jinja2 else m.text) for m in self.prompt_template]
        return shown_turns(told, has_memory=self.memory is not None)

    @property
    def messages(self) -> tuple[PromptMessage, ...]:
        """The messages but those that are demonstrations."""
        first, last = self._turns
        return (*self.prompt_template[:first], *self.prompt_template[last:])

    @property
    def shown(self) -> tuple[Demonstration, ...]:
        texts = [message.text for message in self.prompt_template[slice(*self._turns)]]
        turns = zip(texts[::2], texts[1::2], strict=True)
        return self.demonstrations or tuple(Demonstration(user=a, assistant=b) for a, b in turns)

    @property
    def schema_of_output(self) -> dict[str, Any] | None:
        """The JSON schema of the answer, where one is asked for."""
        schema = self.structured_output.get("schema")
        return schema if self.structured_output_enabled and isinstance(schema, dict) else None


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
    """agent_parameters: as an export has them; the short form has the fields of the same names.

    agent_strategy_name: with ReAct, the request describes its tools in words and writes its calls as text.
    """

    instruction: Input = Input(value="")
    query: Input
    tools: tuple[Any, ...] = ()
    max_iterations: int = Field(default=5, ge=1)
    agent_parameters: Mapped = Field(default_factory=dict)
    agent_strategy_name: Text = ""
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

    @model_validator(mode="after")
    def _preset_is_read(self) -> Self:
        _ = self.preset  # a selector in it may be none
        return self

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(map(_tool_name, self.tools))

    @property
    def writes_calls(self) -> bool:
        return self.agent_strategy_name.lower() in _WRITING_STRATEGIES

    @cached_property
    def preset(self) -> dict[str, dict[str, Input]]:
        """Tool -> its arguments that the file sets. An empty value is one that the model chooses."""
        found = {}
        for tool in self.tools:
            given: dict[str, Any] = {}
            for key in ("tool_parameters", "parameters", "settings"):
                entries = tool.get(key) if isinstance(tool, Mapping) else None
                given |= entries if isinstance(entries, Mapping) else {}
            inputs = {str(name): _preset(value) for name, value in given.items()}
            found[_tool_name(tool)] = {n: i for n, i in inputs.items() if i.value not in (None, "", [], {})}
        return found


_WRITING_STRATEGIES = ("react", "cot")


def _tool_name(tool: Any) -> str:
    return str(tool.get("tool_name") or tool.get("name") or "") if isinstance(tool, Mapping) else str(tool)


def _preset(value: Any) -> Input:
    """Return the value of an argument: itself, or `{auto, value: {type, value}}`.

    With `auto`, the model chooses.
    """
    if not isinstance(value, Mapping) or "value" not in value:
        return Input(type="constant", value=value)
    inner = value["value"]
    if value.get("auto"):
        return Input(type="constant", value=None)
    if isinstance(inner, Mapping) and "value" in inner:
        value, inner = inner, inner["value"]
    is_selector = value.get("type") == "variable" and isinstance(inner, list)
    return Input(type="variable" if is_selector else "constant", value=inner)
