"""Jinja2 templates of files that nobody has read: no way to Python's insides, limits of time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoprompt.text.names import counted
from autoprompt.workflow.engine.sizes import check_size

_MAX_LENGTH = 400_000  # characters of a template; longer ones take seconds to parse


class TemplateError(ValueError):
    """A template that cannot be read or filled, with the line in the template."""


def render_jinja(template: str, values: Mapping[str, Any]) -> str:
    """Return the filled template. A name without a value is empty, as Jinja2 has it.

    Raises:
        TemplateError: For a template that cannot be read or filled.
        LimitError: For one that takes more time or memory than it may.
        TooLargeError: For values of more than 50 million characters.
    """
    from autoprompt.sandbox.evaluator import EvaluationError, fill_template

    check_size(values)
    try:
        return fill_template(template, values)
    except EvaluationError as error:
        raise TemplateError(str(error)) from error


def check_jinja(template: str) -> str:
    """The template, if it can be read. Raises TemplateError."""
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
