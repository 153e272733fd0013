"""`question-classifier`: leaves by the class that a model finds a text to be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.records import Message
from autoprompt.text.answers.labels import read_label
from autoprompt.text.answers.objects import read_json
from autoprompt.text.answers.texts import visible
from autoprompt.text.names import listed
from autoprompt.text.templates import fill, language_of
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.engine.errors import suggestion
from autoprompt.workflow.engine.model_call import build_context, call_model, usage_record
from autoprompt.workflow.engine.template import as_text, render
from autoprompt.workflow.file.model_records import ClassConfig, ClassifierData

_LONGEST_NAME = 60  # characters; a class with a longer name is answered by its number


class QuestionClassifier(NodeTypeBase):
    """Puts out `class_name`, `class_id`, `context`, `usage`. An answer that names no class fails the node."""

    data_model = ClassifierData

    def execute(self, data: ClassifierData, context: NodeContext) -> NodeResult:
        classes = _classes(data, context)
        query = as_text(context.pool.get_if_ran(data.query_variable_selector))
        labels = _labels(classes)
        messages = _messages(data, context, classes, labels, query)
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
        """`class_id` or `class_name` chooses the way. Raises ValueError for one that there is not."""
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
    """The classes with the values that their names hold."""
    return [
        entry.model_copy(update={"name": render(entry.name, context.pool) or entry.id})
        for entry in data.classes
    ]


def _labels(classes: Sequence[ClassConfig]) -> tuple[str, ...]:
    """What the model is to answer with: names, or numbers where names are long or not one line each."""
    names = [entry.name.strip() for entry in classes]
    fit = all(len(name) <= _LONGEST_NAME and "\n" not in name for name in names)
    if fit and len({name.casefold() for name in names}) == len(names):
        return tuple(names)
    return tuple(str(number + 1) for number in range(len(names)))


def _messages(
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
    """The class that an answer names: by label, by name or id, or in JSON as other tools ask for it."""
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


NODE_TYPE = QuestionClassifier()
