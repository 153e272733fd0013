"""The first values of a run: what it is given, and what the file says where nothing is given."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from autoprompt.dataset.conversations import as_conversation
from autoprompt.errors import InputError, Problem
from autoprompt.records import transcript
from autoprompt.text.names import counted
from autoprompt.workflow.engine.conditions import ComparisonError, as_number
from autoprompt.workflow.engine.definition import NodeOutputs
from autoprompt.workflow.engine.template import as_json_text
from autoprompt.workflow.file import records
from autoprompt.workflow.file.checks import CheckedGraph
from autoprompt.workflow.file.fields import empty_value, typed_value
from autoprompt.workflow.file.reading import FileVariable, WorkflowFile

Values = dict[str, dict[str, Any]]

TEXT_TYPES = ("text-input", "paragraph", "string", "text")
_LISTS = ("array", "file-list")
_FILES = ("file", "file-list")
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off", "")


def first_values(
    file: WorkflowFile, graph: CheckedGraph, outputs: Mapping[str, NodeOutputs]
) -> Callable[[Mapping[str, Any], Collection[str]], Values]:
    """What makes the first values of the pool out of the inputs of a run.

    A required file may be missing if all nodes that read it are mocked: its text is given instead.
    An input is also a variable of `sys`; `env.NAME` and `conversation.NAME` replace the file's values.
    Raises ValueError for values of the file that are not of their type, which the check tells of.
    """
    starts = {node.id: node.data for node in graph.nodes.values() if isinstance(node.data, records.StartData)}
    environment = {variable.name: declared(variable) for variable in file.environment}
    conversation = {variable.name: declared(variable) for variable in file.conversation}
    is_chat = file.is_chat

    def start(inputs: Mapping[str, Any], mocked: Collection[str] = ()) -> Values:
        if is_chat and "query" not in inputs and "sys.query" not in inputs:
            said, fix = "no query is given, and this workflow is a chat", "Give one: {inputs}."
            raise InputError(
                Problem("workflow.no-query", said, fix=fix, settings={"inputs": {"query": "..."}})
            )
        values: Values = {
            "sys": {**_system(inputs), **_scoped(inputs, "sys")},
            "env": {**environment, **_scoped(inputs, "env")},
            "conversation": {**copy.deepcopy(conversation), **_scoped(inputs, "conversation")},
        }
        for node_id, data in starts.items():
            readers = outputs[node_id].read
            unread = {name for name, by in readers.items() if all(one in mocked for one in by)}
            values[node_id] = _given(data, inputs, unread)
            if file.is_export:  # older exports read `sys.query` as a variable of the start node
                values[node_id] |= {f"sys.{name}": values["sys"].get(name) for name in ("query", "files")}
        return values

    return start


def declared(variable: FileVariable) -> Any:
    """The first value of a variable of the file. Raises ValueError for one that is not of its type."""
    kind = variable.value_type.lower()
    value = variable.value
    if value is None:
        return empty_value(kind or "string")
    return typed_value(value, kind, f"variable {variable.name!r}")


def _system(inputs: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in inputs.items() if "." not in name}
    defaults = {"query": "", "files": [], "conversation_id": "", "user_id": "", "dialogue_count": 1}
    return {**defaults, "app_id": "", "workflow_id": "", **plain}


def _scoped(inputs: Mapping[str, Any], scope: str) -> dict[str, Any]:
    start = f"{scope}."
    return {name[len(start) :]: value for name, value in inputs.items() if name.startswith(start)}


def _given(data: records.StartData, inputs: Mapping[str, Any], unread: Collection[str]) -> dict[str, Any]:
    found = {}
    missing = []
    for variable in data.variables:
        value = inputs.get(variable.variable)
        if value is None or value == "":
            value = variable.default if variable.default not in (None, "") else value
        if value is None or (value == "" and variable.required):
            if variable.required and not (variable.variable in unread and variable.type in _FILES):
                missing.append(variable.variable)
                continue
            value = _nothing(variable.type)
        found[variable.variable] = _checked(variable, value)
    if missing:
        given = ", ".join(inputs) or "none"
        said = f"no value for the input {', '.join(missing)} (given: {given})"
        settings = {"inputs": dict.fromkeys(missing, "...")}
        raise InputError(Problem("workflow.no-input", said, fix="Add {inputs}.", settings=settings))
    return found


def _nothing(kind: str) -> Any:
    if kind.startswith(_LISTS):
        return []
    return {"number": None, "checkbox": False, "file": None, "json_object": None}.get(kind, "")


def _checked(variable: records.StartVariable, value: Any) -> Any:
    """A value as the type of its input asks for. Raises InputError."""
    name, kind = variable.variable, variable.type
    if value is None:
        return value
    if kind == "number" and not isinstance(value, bool):  # a tick counts as 1 to whom it is handed
        value = None if isinstance(value, str) and not value.strip() else _number(name, value)
    elif kind in ("checkbox", "boolean"):
        said = as_json_text(value).strip().lower()
        if said not in _TRUE + _FALSE:
            raise InputError(f"input {name} is {value!r}, expected true or false")
        value = said in _TRUE
    elif kind in ("json_object", "json", "object", "file-list") or kind.startswith("array"):
        value = _json(name, value)
        if kind.startswith(_LISTS) and not isinstance(value, list | tuple):
            raise InputError(f'input {name} is {_shown(value)}, expected a list, such as ["a", "b"]')
    elif kind in (*TEXT_TYPES, "select"):
        value = _text(variable, value)
    if kind == "select" and variable.options and value != "" and value not in variable.options:
        raise InputError(f"input {name} is {value!r}, expected one of: {', '.join(variable.options)}")
    longest = variable.max_length
    if kind in TEXT_TYPES and isinstance(value, str) and longest is not None and len(value) > longest:
        raise InputError(
            f"input {name} has {counted(len(value), 'character')}, at most {longest} are allowed"
        )
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:59] + "…"


def _text(variable: records.StartVariable, value: Any) -> Any:
    """Numbers, true and false as texts, and a conversation as the text of its turns.

    A list or a dict stays what it is if the file says no type. Raises InputError if it says that of a text.
    """
    if isinstance(value, int | float):
        return as_json_text(value)
    if not isinstance(value, list | tuple | dict) or "type" not in variable.model_fields_set:
        return value
    if (chat := as_conversation(value)) is not None:
        return transcript(chat.all_turns)
    kind = "json_object" if isinstance(value, dict) else "array[object]"
    raise InputError(
        f"input {variable.variable} is {_shown(value)}, expected a text. Give a text or a conversation, or "
        f"declare the variable as {kind}"
    )


def _number(name: str, value: Any) -> int | float:
    try:
        return as_number(value)
    except ComparisonError as error:
        shown = repr(value) if isinstance(value, str) else _shown(value)
        raise InputError(f"input {name} is {shown}, expected a number") from error


def _json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"input {name} is {value[:60]!r}, expected JSON ({error})") from error
