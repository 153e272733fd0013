"""Steps that ask a model, call a function of one's own, or run code in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from autoprompt.errors import ConfigError
from autoprompt.llm.client import Client
from autoprompt.records import Message
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, RetryConfig
from autoprompt.workflow.engine.errors import VariableNotFoundError, WorkflowDefinitionError
from autoprompt.workflow.engine.model_call import call_model, read_json_answer, to_messages
from autoprompt.workflow.engine.models import JournaledClient
from autoprompt.workflow.engine.tools import as_tool
from autoprompt.workflow.nodes.calls import run_code
from autoprompt.workflow.python.base import BaseNode, WorkflowContext, fill


class LLMNode(BaseNode):
    """Fills its templates with variables, asks the model, puts the answer under `output_variable_name`.

    In templates `{identifier}` of a variable that there is stands for its value; other braces are text.
    Without `user_prompt_template` the filled `system_prompt_template` is sent as the user's message: many
    endpoints refuse a request without one.
    llm_client: any client of `autoprompt.llm`; default: the one that the run is given.
    output_format "json": the answer is read as JSON (a fence around it is taken off), and those of its keys
        that `output_keys` names become variables too; one that is not there fails the node.
    history_variable: a list of messages `[{role, text}]` that is sent before the user's message and grows by
        it and the answer: a dialogue.
    temperature: 0 gives the same answer to the same question. max_output_tokens: default 1024.
    """

    node_type: ClassVar[str] = "llm"

    def __init__(
        self,
        node_id: str,
        node_name: str,
        system_prompt_template: str = "",
        output_variable_name: str = "llm_output",
        llm_client: Client | None = None,
        next_node_id: str | None = None,
        *,
        user_prompt_template: str | None = None,
        output_format: Literal["text", "json"] = "text",
        output_keys: Sequence[str] = (),
        history_variable: str | None = None,
        temperature: float = 0.0,
        max_output_tokens: int | None = None,
        retry_config: RetryConfig | None = None,
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        if not system_prompt_template.strip() and not (user_prompt_template or "").strip():
            raise WorkflowDefinitionError(f"LLMNode {node_id!r} has no prompt: give system_prompt_template")
        if output_format not in ("text", "json"):
            raise WorkflowDefinitionError(
                f"LLMNode {node_id!r}: output_format {output_format!r} is unknown. Known: text, json."
            )
        if output_keys and output_format != "json":
            raise WorkflowDefinitionError(f"LLMNode {node_id!r}: output_keys need output_format='json'")
        self.system_prompt_template = system_prompt_template
        self.user_prompt_template = user_prompt_template
        self.output_variable_name = output_variable_name
        self.llm_client = llm_client
        self.output_format = output_format
        self.output_keys = tuple(output_keys)
        self.history_variable = history_variable
        self.temperature, self.max_output_tokens = temperature, max_output_tokens
        self.retry_config = retry_config

    @property
    def output_names(self) -> tuple[str, ...]:
        history = () if self.history_variable is None else (self.history_variable,)
        return (self.output_variable_name, *self.output_keys, *history)

    @property
    def component_texts(self) -> Mapping[str, str]:
        texts = {"system": self.system_prompt_template, "user": self.user_prompt_template or ""}
        return {role: text for role, text in texts.items() if text.strip()}

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        at_work = self.working_context()
        messages = self._messages(context, at_work)
        reply = call_model(
            at_work,
            messages,
            None,
            client=self._client(at_work),
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            chunk_name=self.output_variable_name,
        )
        at_work.noted = NodeResult(
            inputs={"messages": reply.prompts}, process_data=reply.process_data, metadata=reply.metadata
        )
        context = {**context, **self._outputs(reply.text)}
        if self.history_variable is not None:
            context[self.history_variable] = reply.context
        return context

    def _client(self, at_work: NodeContext) -> Client:
        if self.llm_client is None:
            if at_work.run.nodes:
                return at_work.client(None)
            raise ConfigError(f"LLMNode {self.node_id!r} has no llm_client")
        journal = at_work.run.journal
        return self.llm_client if journal is None else JournaledClient(self.llm_client, journal, at_work.path)

    def _messages(self, context: WorkflowContext, at_work: NodeContext) -> list[Message]:
        system, user = self.system_prompt_template, self.user_prompt_template
        if system.strip():
            system = fill(at_work.component("system", system), context, at_work)
        if user is None:
            system, user = "", system
        else:
            user = fill(at_work.component("user", user), context, at_work)
        history = context.get(self.history_variable) if self.history_variable is not None else None
        turns = to_messages(history or [], (self.history_variable or "",))
        return [*([Message("system", system)] if system.strip() else []), *turns, Message("user", user)]

    def _outputs(self, text: str) -> dict[str, Any]:
        if self.output_format == "text":
            return {self.output_variable_name: text}
        value = read_json_answer(text, dict if self.output_keys else object)
        if not self.output_keys:
            return {self.output_variable_name: value}
        missing = [key for key in self.output_keys if not isinstance(value, dict) or key not in value]
        if missing:
            raise ValueError(f"the answer has no {', '.join(missing)}: {text[:200]!r}")
        return {self.output_variable_name: value, **{key: value[key] for key in self.output_keys}}


class ToolNode(BaseNode):
    """Calls a tool and puts what it returns under `output_variable_name`.

    tool: a function, the name of a registered one (see `tool`), or a LangChain tool.
    inputs: the tool's parameters and the variables that they take; constants: fixed ones.
    """

    node_type: ClassVar[str] = "tool"

    def __init__(
        self,
        node_id: str,
        node_name: str,
        tool: str | Callable[..., Any],
        inputs: Mapping[str, str] | Sequence[str] = (),
        output_variable_name: str = "tool_output",
        next_node_id: str | None = None,
        *,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        self.tool = tool
        self.inputs = _by_parameter(inputs)
        self.constants = dict(constants or {})
        self.output_variable_name = output_variable_name

    @property
    def output_names(self) -> tuple[str, ...]:
        return (self.output_variable_name,)

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        arguments = {**self.constants, **_arguments_of(self.inputs, context)}
        at_work = self.working_context()
        at_work.noted = NodeResult(inputs=arguments)
        called = as_tool(self.tool)
        with at_work.turn():
            result = called.invoke(arguments)
        return {**context, self.output_variable_name: result}


class CodeNode(BaseNode):
    """Runs Python in the sandbox: `def main(...) -> dict`, whose keys become variables.

    inputs: the parameters of `main` and the variables that they take; equal names can be listed.
    outputs: the keys that it has to return, no more and no less; default: whatever it returns.
    """

    node_type: ClassVar[str] = "code"

    def __init__(
        self,
        node_id: str,
        node_name: str,
        code: str,
        inputs: Mapping[str, str] | Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        next_node_id: str | None = None,
    ) -> None:
        super().__init__(node_id, node_name, next_node_id)
        if not code.strip():
            raise WorkflowDefinitionError(f"CodeNode {node_id!r} has no code")
        self.code = code
        self.inputs = _by_parameter(inputs)
        self.outputs = None if outputs is None else tuple(outputs)

    @property
    def output_names(self) -> tuple[str, ...] | None:
        return self.outputs

    def execute(self, context: WorkflowContext) -> WorkflowContext:
        at_work = self.working_context()
        arguments = _arguments_of(self.inputs, context)
        at_work.noted = NodeResult(inputs=arguments)
        with at_work.turn():
            outputs = run_code(self.code, arguments, at_work)
        if self.outputs is not None and set(outputs) != set(self.outputs):
            raise ValueError(
                f"main returned {', '.join(outputs) or 'nothing'}; expected {', '.join(self.outputs)}"
            )
        return {**context, **outputs}


def _by_parameter(inputs: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    return dict(inputs) if isinstance(inputs, Mapping) else {name: name for name in inputs}


def _arguments_of(inputs: Mapping[str, str], context: WorkflowContext) -> dict[str, Any]:
    for variable in inputs.values():
        if variable not in context:
            raise VariableNotFoundError((variable,), context)
    return {parameter: context[variable] for parameter, variable in inputs.items()}
