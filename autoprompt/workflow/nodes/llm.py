"""Nodes that ask a model once: `llm`, `question-classifier` and `parameter-extractor`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autoprompt.records import Message
from autoprompt.text.answers.labels import read_label
from autoprompt.text.answers.texts import split_thoughts, visible
from autoprompt.text.answers.wrapping import read_json
from autoprompt.text.names import listed
from autoprompt.text.templates import fill, language_of
from autoprompt.workflow.engine.conditions import ComparisonError, as_bool, as_number
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase, role_names
from autoprompt.workflow.engine.errors import NodeError, suggestion
from autoprompt.workflow.engine.model_call import (
    build_context,
    call_model,
    is_context,
    read_json_answer,
    read_structured,
    to_messages,
    usage_record,
)
from autoprompt.workflow.engine.template import (
    CONTEXT,
    as_json_text,
    as_text,
    only_reference,
    references,
    render,
    render_jinja,
    replace_references,
)
from autoprompt.workflow.file.apps import filled
from autoprompt.workflow.file.model_records import (
    ClassConfig,
    ClassifierData,
    ExtractorData,
    LLMData,
    MemoryConfig,
    ParameterConfig,
    PromptMessage,
)


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


_LONGEST_NAME = 60  # characters; a class with a longer name is answered by its number


class QuestionClassifier(NodeTypeBase):
    """Puts out `class_name`, `class_id`, `context`, `usage`. An answer that names no class fails the node."""

    data_model = ClassifierData

    def execute(self, data: ClassifierData, context: NodeContext) -> NodeResult:
        classes = _classes(data, context)
        query = as_text(context.pool.get_if_ran(data.query_variable_selector))
        labels = _labels(classes)
        messages = _class_messages(data, context, classes, labels, query)
        reply = call_model(context, messages, data.model, labels=labels, chunk_name=None)
        found = _read(reply.text, classes, labels)
        if found is None:
            names = listed([entry.name for entry in classes])
            raise ValueError(f"the model answered {reply.text[:100]!r}, none of the classes: {names}")
        return NodeResult(
            {
                "class_name": found.name,
                "class_id": found.id,
                "context": reply.context,
                "usage": usage_record(reply.usage),
            },
            inputs={"query": query},
            process_data=reply.process_data,
            metadata=reply.metadata,
            edge_handle=found.id,
        )

    def read_given(self, data: ClassifierData, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs with id and name of the class that `class_id`, `class_name` or `text` names.

        Raises:
            ValueError: The node has no such class.
        """
        asked = outputs.get("class_id", outputs.get("class_name", outputs.get("text")))
        found = next((entry for entry in data.classes if asked in (entry.id, entry.name)), None)
        if found is None:
            known = [entry.name for entry in data.classes]
            raise ValueError(f"no class {asked!r}. {suggestion(str(asked), known)}")
        return {**outputs, "class_name": found.name, "class_id": found.id}

    def mocked(self, data: ClassifierData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        turns = _mocked_context(data, context, outputs["class_name"])
        return NodeResult({"context": turns, **outputs}, edge_handle=outputs["class_id"])

    def component_texts(self, data: ClassifierData) -> Mapping[str, str]:
        return {"instruction": data.instruction} if data.instruction.strip() else {}


def _classes(data: ClassifierData, context: NodeContext) -> list[ClassConfig]:
    """Return the classes with the values that their names hold."""
    return [
        entry.model_copy(update={"name": render(entry.name, context.pool) or entry.id})
        for entry in data.classes
    ]


def _labels(classes: Sequence[ClassConfig]) -> tuple[str, ...]:
    """Return the labels to answer with: names, or numbers if names are long or have several lines."""
    names = [entry.name.strip() for entry in classes]
    fit = all(len(name) <= _LONGEST_NAME and "\n" not in name for name in names)
    if fit and len({name.casefold() for name in names}) == len(names):
        return tuple(names)
    return tuple(str(number + 1) for number in range(len(names)))


def _class_messages(
    data: ClassifierData,
    context: NodeContext,
    classes: Sequence[ClassConfig],
    labels: Sequence[str],
    query: str,
) -> list[Message]:
    own = render(context.component("instruction", data.instruction), context.pool)
    names = [entry.name.strip() for entry in classes]
    by_name = list(labels) == names
    marks = ["-"] * len(names) if by_name else [f"{label}." for label in labels]
    listed = "\n".join(f"{mark} {name}" for mark, name in zip(marks, names, strict=True))
    language = language_of(f"{own} {listed} {query}")
    what = {"en": ("the number", "the name"), "zh": ("编号", "名称")}[language][by_name]
    system = fill("classify", language, classes=listed, instruction=own, what=what)
    return [Message("system", system), Message("user", query)]


def _read(text: str, classes: Sequence[ClassConfig], labels: Sequence[str]) -> ClassConfig | None:
    """Return the class that an answer names, by label, name or id, or in JSON as other tools ask for it."""
    label = read_label(text, labels)
    if label is not None:
        return classes[list(labels).index(label)]
    answer = visible(text)
    data = read_json(answer, dict)
    given = [answer]
    if isinstance(data, Mapping):
        names = ("category_id", "class_id", "category_name", "class_name")
        given = [str(data[name]) for name in names if name in data]
    for value in given:
        for entry in classes:
            if value.strip() in (entry.id, entry.name.strip()):
                return entry
    return None


def _mocked_context(data: ClassifierData, context: NodeContext, name: str) -> list[dict[str, Any]]:
    query = context.pool.find(data.query_variable_selector)
    return build_context([Message("user", as_text(query))], name)


_OLDER_TYPES = {"bool": "boolean", "select": "string"}


class ParameterExtractor(NodeTypeBase):
    """Each parameter is an output. `__is_success` is 0, with the reason in `__reason`, where the answer was
    no JSON, lacked a required value or had one of the wrong type; such values are empty ones of their type.
    """

    data_model = ExtractorData

    def execute(self, data: ExtractorData, context: NodeContext) -> NodeResult:
        query = as_text(context.pool.get_if_ran(data.query))
        reply = call_model(context, _value_messages(data, context, query), data.model, chunk_name=None)
        values, reason = _values(data, reply.text)
        return NodeResult(
            {
                **values,
                "__is_success": int(reason is None),
                "__reason": reason,
                "__usage": usage_record(reply.usage),
                "usage": usage_record(reply.usage),
                "context": reply.context,
            },
            inputs={"query": query},
            process_data=reply.process_data,
            metadata=reply.metadata,
        )

    def mocked(self, data: ExtractorData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        query = as_text(context.pool.find(data.query))
        empty = {parameter.name: _empty(_kind(parameter)) for parameter in data.parameters}
        said = json.dumps({**empty, **outputs}, ensure_ascii=False, default=str)
        turns = build_context([Message("user", query)], said)
        return NodeResult({**empty, "__is_success": 1, "__reason": None, "context": turns, **outputs})

    def component_texts(self, data: ExtractorData) -> Mapping[str, str]:
        return {"instruction": data.instruction} if data.instruction.strip() else {}


def _value_messages(data: ExtractorData, context: NodeContext, query: str) -> list[Message]:
    own = render(context.component("instruction", data.instruction), context.pool)
    listed = "\n".join(_described(parameter) for parameter in data.parameters)
    language = language_of(f"{own} {listed} {query}")
    system = fill("extract", language, parameters=listed, instruction=own)
    return [Message("system", system), Message("user", query)]


def _described(parameter: ParameterConfig) -> str:
    parts = [_kind(parameter)]
    if parameter.options:
        parts.append("one of " + json.dumps(list(parameter.options), ensure_ascii=False))
    if parameter.required:
        parts.append("required")
    description = f": {parameter.description}" if parameter.description else ""
    return f"- {parameter.name} ({', '.join(parts)}){description}"


def _values(data: ExtractorData, answer: str) -> tuple[dict[str, Any], str | None]:
    """Return the parameters, each of its type, and what was wrong with the answer."""
    empty = {parameter.name: _empty(_kind(parameter)) for parameter in data.parameters}
    try:
        read = read_json_answer(answer, dict)
    except ValueError as error:
        return empty, str(error)
    if isinstance(read, list) and len(read) == 1:
        read = read[0]
    if not isinstance(read, Mapping):
        return empty, f"the answer is not a JSON object: {answer[:200]!r}"
    reasons = []
    for parameter in data.parameters:
        value = read.get(parameter.name)
        if value is None or value == "":
            if parameter.required:
                reasons.append(f"{parameter.name} is required, and the answer has none")
            continue
        try:
            empty[parameter.name] = _converted(parameter, value)
        except (ComparisonError, ValueError) as error:
            reasons.append(f"{parameter.name}: {error}")
    return empty, "; ".join(reasons) or None


def _kind(parameter: ParameterConfig) -> str:
    return _OLDER_TYPES.get(parameter.type, parameter.type)


def _empty(kind: str) -> Any:
    if kind.startswith("array"):
        return []
    return {"number": 0, "boolean": False, "object": {}}.get(kind, "")


def _converted(parameter: ParameterConfig, value: Any) -> Any:
    """Return the value as the parameter's type; ComparisonError or ValueError if it does not fit."""
    kind = _kind(parameter)
    if kind.startswith("array"):
        items = value if isinstance(value, list) else [value]
        inner = kind[len("array[") : -1]
        return [_of_kind(inner, item) for item in items]
    found = _of_kind(kind, value)
    if parameter.options and found not in parameter.options:
        raise ValueError(f"{found!r} is not one of {', '.join(parameter.options)}")
    return found


def _of_kind(kind: str, value: Any) -> Any:
    if kind == "number":
        number = as_number(value)
        if not math.isfinite(number):
            raise ValueError(f"{number} is not a number")
        return number
    if kind == "boolean":
        return as_bool(value)
    if kind == "object" and not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return as_json_text(value) if kind == "string" else value
