"""`llm`: messages to a model, filled with the values of a run, and its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autoprompt.records import Message
from autoprompt.text.answers.texts import split_thoughts
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase, role_names
from autoprompt.workflow.engine.errors import NodeError
from autoprompt.workflow.engine.model_call import (
    build_context,
    call_model,
    is_context,
    read_structured,
    to_messages,
    usage_record,
)
from autoprompt.workflow.engine.template import (
    CONTEXT,
    as_text,
    only_reference,
    references,
    render,
    render_jinja,
    replace_references,
)
from autoprompt.workflow.file.apps import filled
from autoprompt.workflow.file.model_records import LLMData, MemoryConfig, PromptMessage


class LLM(NodeTypeBase):
    """Puts out `text`, `context` (the conversation), `usage`, `finish_reason`, `reasoning_content`.

    With a schema, `structured_output` too; an answer that is no JSON, or not of the schema's type, or that
    lacks what it requires, fails the node.
    """

    data_model = LLMData

    def execute(self, data: LLMData, context: NodeContext) -> NodeResult:
        messages = prompt_messages(data, context)
        schema = data.schema_of_output
        if schema is not None:
            messages = [_asking_for(schema), *messages]
        reply = call_model(context, messages, data.model)
        answer, thoughts = split_thoughts(reply.text)
        is_parted = answer != reply.text.strip()
        text = answer if is_parted and data.reasoning_format != "tagged" else reply.text
        outputs: dict[str, Any] = {
            "text": text,
            "context": reply.context,
            "usage": usage_record(reply.usage),
            "finish_reason": reply.finish_reason,
            "reasoning_content": "\n".join(thoughts),
        }
        if schema is not None:
            outputs["structured_output"] = read_structured(reply.text, schema)
        return NodeResult(
            outputs,
            inputs=named_values(data, context),
            process_data=reply.process_data,
            metadata=reply.metadata,
        )

    def mocked(self, data: LLMData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        try:
            messages = prompt_messages(data, context)
        except (NodeError, ValueError):
            messages = []  # a mock stands in for what the prompt would need, too
        text = str(outputs.get("text", ""))
        return NodeResult({"text": text, "context": build_context(messages, text), **outputs})

    def component_texts(self, data: LLMData) -> Mapping[str, str]:
        return component_texts(data.messages)


def _asking_for(schema: Mapping[str, Any]) -> Message:
    text = json.dumps(schema, ensure_ascii=False)
    return Message("system", f"Answer with JSON alone that fits this schema:\n{text}")


NODE_TYPE = LLM()


def component_texts(messages: Sequence[PromptMessage]) -> dict[str, str]:
    """Return the prompt texts by name of their role; a message that is nothing but a reference is none."""
    return {role: message.template for role, message in _named(messages) if role is not None}


def prompt_messages(data: LLMData, context: NodeContext) -> list[Message]:
    """Return the messages to send, without empty ones.

    A message that consists of one reference to a list of messages stands for all of them.

    Raises:
        ValueError: All messages are empty.
    """
    found: list[Message] = []
    for role, message in _named(data.messages):
        turns = None if role is not None else _conversation(message, context)
        if turns is not None:
            found += turns
            continue
        text = message.template if role is None else context.component(role, message.template)
        parts = (_filled(data, message, part, context) for part in (message.before, text) if part.strip())
        found.append(Message(message.role, "\n\n".join(parts)))
    found += memory_query(data.memory, context)
    sent = [message for message in found if message.content.strip()]
    if not sent:
        raise ValueError("all messages of the prompt are empty")
    return sent


def named_values(data: LLMData, context: NodeContext) -> dict[str, Any]:
    """Return the values of the variables that the messages name, by `node.variable`, or None."""
    texts = [message.text for message in data.messages if not message.is_jinja2]
    texts += [data.memory.query_prompt_template or "{{#sys.query#}}"] if data.memory is not None else []
    found = dict.fromkeys(selector for text in texts for selector in references(text) if selector != CONTEXT)
    return {".".join(selector): context.pool.find(selector) for selector in found}


def memory_query(memory: MemoryConfig | None, context: NodeContext) -> list[Message]:
    """Return the question of a chat with a memory, which Dify sends as the last message."""
    if memory is None:
        return []
    if memory.query_prompt_template:
        text = render(memory.query_prompt_template, context.pool)
    else:
        text = as_text(context.pool.find(("sys", "query")))
    return [Message("user", text)] if text.strip() else []


def _named(messages: Sequence[PromptMessage]) -> Iterator[tuple[str | None, PromptMessage]]:
    """Each message with the name of its text among the node's; None where it is no text of ours."""
    texts = [message for message in messages if _is_text(message)]
    own = list(filter(_has_words, texts)) or texts
    # Without any text of its own, a node has an empty system message for one: the editor writes it.
    own = own or [m for m in messages if m.role == "system" and not m.template.strip()][:1]
    names = iter(role_names(message.role for message in own))
    for message in messages:
        yield (next(names) if any(message is one for one in own) else None), message


def _is_text(message: PromptMessage) -> bool:
    return bool(message.template.strip()) and only_reference(message.template) is None


def _has_words(message: PromptMessage) -> bool:
    """Return whether a text is more than references, which say nothing to be written better."""
    return any(map(str.isalnum, replace_references(message.template, lambda _: "")))


def _conversation(message: PromptMessage, context: NodeContext) -> list[Message] | None:
    selector = only_reference(message.text)
    if selector is None or selector == CONTEXT:
        return None
    value = context.pool.find(selector)
    return to_messages(value, selector) if value and is_context(value) else None


def _filled(data: LLMData, message: PromptMessage, text: str, context: NodeContext) -> str:
    if message.is_jinja2:
        return render_jinja(text, {**_jinja_values(data, context), **context.inputs})
    knowledge = _knowledge(data, context) if CONTEXT in references(text) else ""
    if data.is_app:
        return filled(text, context.pool, knowledge)
    return render(text, context.pool, {CONTEXT[0]: knowledge})


def _jinja_values(data: LLMData, context: NodeContext) -> dict[str, Any]:
    config = data.prompt_config
    variables = config.jinja2_variables if config is not None else ()
    return {v.variable: context.pool.get(v.value_selector) for v in variables if v.value_selector is not None}


def _knowledge(data: LLMData, context: NodeContext) -> str:
    """Return what `{{#context#}}` stands for."""
    if data.context is None or not data.context.enabled or data.context.variable_selector is None:
        return ""
    value = context.pool.get_if_ran(data.context.variable_selector)
    if isinstance(value, str):
        return value
    return "\n".join(map(_passage, value)).strip() if isinstance(value, list) else ""


def _passage(found: Any) -> str:
    """Return one passage of a knowledge base, after its summary.

    Raises:
        ValueError: It is neither text nor passage.
    """
    if isinstance(found, str):
        return found
    if not isinstance(found, dict) or "content" not in found:
        raise ValueError(f"the context holds {found!r:.80}, expected a text, or an object with `content`")
    return "\n".join(
        str(found[name]) for name in ("summary", "content") if found.get(name) or name == "content"
    )
