"""References in texts (`{{#node.variable#}}`): find them, read them, fill them; and Jinja2 templates.

A Jinja2 template is filled in the sandbox, with limits of time and memory and no way to Python's objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from autoprompt.text.names import counted
from autoprompt.workflow.engine.variables import VariablePool, check_size

Selector = tuple[str, ...]

# No two neighbours in these patterns take the same signs: white space would take time by its square.
REFERENCE = re.compile(r"\{\{#\s*([^\s#{}.](?:[^#{}]*[^\s#{}])?)\s*#\}\}")
# `{{node.variable}}`, or with a `#` at one end: likely meant as a reference, but literal text to all readers.
NEAR_REFERENCE = re.compile(r"\{\{(?!#[^{}]*#\}\})\s*(?:#\s*)?([^\s#{}.]+(?:\.[^\s#{}.]+)*)\s*(?:#\s*)?\}\}")
_TRANSFERS = ("remote_url", "local_file", "tool_file", "datasource_file")
_MAX_LENGTH = 400_000  # characters of a template; longer ones take seconds to parse
CONTEXT: Selector = ("context",)  # `{{#context#}}`: what an LLM node's context setting selects


def references(text: str) -> tuple[Selector, ...]:
    """Return what the text names, in order of the first occurrence: `{{#llm1.text#}}` is ("llm1", "text")."""
    found = (tuple(match.group(1).split(".")) for match in REFERENCE.finditer(text))
    return tuple(dict.fromkeys(found))


def near_references(text: str) -> dict[str, Selector]:
    """Return what looks almost like a reference in the text, with what it would name."""
    return {match.group(): tuple(match.group(1).split(".")) for match in NEAR_REFERENCE.finditer(text)}


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts_in(part)


def references_in(value: Any) -> Iterator[Selector]:
    """Yield what the texts in nested lists and mappings name."""
    for text in texts_in(value):
        yield from references(text)


def only_reference(text: str) -> Selector | None:
    """Return the one reference that the text consists of; None for a text with anything else in it."""
    match = REFERENCE.fullmatch(text.strip())
    return tuple(match.group(1).split(".")) if match else None


def replace_references(text: str, change: Callable[[Selector], str]) -> str:
    """Return the text with each reference replaced by what `change` gives for it."""
    return REFERENCE.sub(lambda match: change(tuple(match.group(1).split("."))), text)


def render(
    text: str,
    pool: VariablePool,
    names: Mapping[str, Any] | None = None,
    *,
    write: Callable[[Any], str] | None = None,
    has_all: bool = True,
) -> str:
    """Return the text with its references replaced by values. References inside of values are not replaced.

    Args:
        names: Values of `{{#name#}}` that go before those in the pool.
        write: Turns a value into text; default: `as_text`.
        has_all: False to write nothing for a variable of a branch that was not taken.

    Raises:
        VariableNotFoundError: A variable has no value.
        TooLargeError: The values that the node fills in are too large together.
    """
    write = write or as_text

    def value_of(selector: Selector) -> str:
        if len(selector) == 1 and names and selector[0] in names:
            filled = write(names[selector[0]])
        else:
            filled = write(pool.get(selector) if has_all else pool.get_if_ran(selector))
        pool.room.take(len(filled))
        return filled

    return replace_references(text, value_of)


def render_in(value: Any, pool: VariablePool) -> Any:
    """Return nested lists and mappings with each text rendered.

    Raises:
        VariableNotFoundError: A variable has no value.
        TooLargeError: The values that the node fills in are too large together.
    """
    if isinstance(value, str):
        return render(value, pool)
    if isinstance(value, dict):
        return {name: render_in(part, pool) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [render_in(part, pool) for part in value]
    return value


def as_text(value: Any) -> str:
    """Return a value as Dify puts it into a prompt, a request or an argument.

    Nothing for null, an empty list and a file; an object and a list of texts as JSON, all else as Python
    writes it. The table of tests/workflow/dify/values.json, recorded from Dify's engine, is the reference.
    """
    if value is None or _is_file(value):
        return ""
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, list | tuple):
        items = list(value)
        if not items or all(map(_is_file, items)):
            return ""
        is_texts = all(isinstance(item, str) for item in items)
        return json.dumps(items, ensure_ascii=False) if is_texts else str(items)
    return str(value)


def as_markdown(value: Any) -> str:
    """Return a value as Dify puts it into an answer: a list as lines, an object as indented JSON."""
    if _is_file(value):
        url = value.get("remote_url") or value.get("url") or ""
        name = value.get("filename") or ("" if value.get("type") == "image" else url)
        return f"{'!' if value.get('type') == 'image' else ''}[{name}]({url})"
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if isinstance(value, list | tuple):
        if value and all(map(_is_file, value)):
            return "\n".join(map(as_markdown, value))
        return "\n".join(f"- {item}" for item in value)
    return as_text(value)


def _is_file(value: Any) -> bool:
    """Return whether a value is a file, as Dify's inputs and outputs describe one."""
    return isinstance(value, Mapping) and value.get("transfer_method") in _TRANSFERS and "type" in value


def as_json_text(value: Any) -> str:
    """Return a value as it is compared with a row's target: as it is, or as JSON; nothing for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


class TemplateError(ValueError):
    """A template that cannot be read or filled, with the line in the template."""


def render_jinja(template: str, values: Mapping[str, Any]) -> str:
    """Return the filled template. A name without a value is empty, as Jinja2 has it.

    Raises:
        TemplateError: The template cannot be read or filled.
        LimitError: Filling it took too much time or memory.
        TooLargeError: The values have more than 50 million characters.
    """
    from autoprompt.sandbox.evaluator import EvaluationError, fill_template

    check_size(values)
    try:
        return fill_template(template, values)
    except EvaluationError as error:
        raise TemplateError(str(error)) from error


def check_jinja(template: str) -> str:
    """Return the template, once it is checked.

    Raises:
        TemplateError: The template cannot be read.
    """
    from jinja2 import Environment, TemplateSyntaxError

    if len(template) > _MAX_LENGTH:
        raise TemplateError(
            f"a template of {counted(len(template), 'character')}, expected at most {_MAX_LENGTH:,}"
        )
    try:
        Environment().parse(template)
    except TemplateSyntaxError as error:
        raise TemplateError(f"line {error.lineno} of the template: {error.message}") from error
    except RecursionError as error:
        raise TemplateError("the template is nested too deeply") from error
    return template
