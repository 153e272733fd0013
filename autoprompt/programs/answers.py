"""How an answer is read from what a program returns: a text, a message, a graph's state, a pydantic model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from autoprompt.errors import ConfigError, Problem
from autoprompt.records import content_of


class Answer(NamedTuple):
    """What a program answered.

    output: the answer, if it is more than a text. returned: all that the program returned, as JSON data, if
        that is more than the text.
    """

    text: str
    output: object = None
    returned: object = None


def answer_of(
    value: Any, *, output: Callable[[Any], Any] | str | None, target_field: str, takes_objects: bool
) -> Answer:
    """An answer out of what a program returned.

    Raises ConfigError if it is not clear what is compared.
    """
    returned = plain(value)
    if output is None:
        text, found = _text(returned, target_field, takes_objects=takes_objects)
    else:
        text, found = _text(_picked(value, returned, output), target_field, takes_objects=True)
    return Answer(text, found, None if isinstance(returned, str) else returned)


def _picked(value: Any, returned: Any, output: Callable[[Any], Any] | str) -> Any:
    """What `Program.output` makes of a returned value. A text names its key."""
    if not isinstance(output, str):
        return plain(output(value))
    if isinstance(returned, Mapping) and output in returned:
        return returned[output]
    keys = ", ".join(map(str, returned)) if isinstance(returned, Mapping) else type(value).__name__
    said = f"the program returned {keys}, and its output is {output!r}"
    raise ConfigError(Problem("program.output", said, fix="Name one of the keys as `output`."))


def _text(value: Any, target_field: str, *, takes_objects: bool) -> tuple[str, Any]:
    """The text that is compared, and its value if it is more than a text. value: as JSON data."""
    if isinstance(value, str):
        return value, None
    if isinstance(value, Mapping):
        if target_field in value:
            inner = value[target_field]
            if isinstance(inner, str):
                return inner, None
            return (_content(inner), None) if _is_message(inner) else (content_of(inner), inner)
        if _is_message(value):
            return _content(value), None
        messages = value.get("messages")
        if isinstance(messages, list) and messages and _is_message(messages[-1]):
            return _content(messages[-1]), None
        if takes_objects:
            return content_of(value), value
        keys = ", ".join(map(str, value))
        said = f"the program returned an object with the keys {keys}, and none is {target_field!r}"
        fix = "Name the key with {target_field}, or score the whole object, as with {metric}."
        settings = {"target_field": None, "metric": "json_match"}
        raise ConfigError(Problem("program.output", said, fix=fix, settings=settings))
    return content_of(value), value


def plain(value: Any) -> Any:
    """Return a value of a program as JSON data: models and dataclasses as dicts, messages with their role."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "content") and hasattr(value, "type"):  # a message of LangChain's
        asked = getattr(value, "tool_calls", None) or ()
        calls = [{"name": call["name"], "arguments": call["args"]} for call in asked]
        return {"role": value.type, "content": plain(value.content)} | (
            {"tool_calls": calls} if calls else {}
        )
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return str(value)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str) and "content" in value


def _content(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if not isinstance(content, list):
        return str(content)
    return "".join(p if isinstance(p, str) else p.get("text", "") for p in content)
