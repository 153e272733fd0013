"""Jinja2 templates of files that nobody has read: no way to Python's insides, no text without end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_MAX_LENGTH = 4_000_000  # characters that one template may make


class TemplateError(ValueError):
    """A template that cannot be read or filled, with the line in the template."""


def render_jinja(template: str, values: Mapping[str, Any]) -> str:
    """The filled template. A name without a value is empty, as Jinja2 has it. Raises TemplateError."""
    from jinja2 import TemplateError as JinjaError
    from jinja2 import TemplateSyntaxError

    pieces: list[str] = []
    length = 0
    try:
        for piece in _environment().from_string(template).generate(dict(values)):
            length += len(piece)
            if length > _MAX_LENGTH:
                raise TemplateError(f"the template makes more than {_MAX_LENGTH} characters")
            pieces.append(piece)
    except TemplateSyntaxError as error:
        raise _unreadable(error) from error
    except (JinjaError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        if isinstance(error, TemplateError):
            raise
        raise TemplateError(f"the template cannot be filled: {error}") from error
    return "".join(pieces)


def check_jinja(template: str) -> str:
    """The template, if it can be read. Raises TemplateError."""
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(template)
    except TemplateSyntaxError as error:
        raise _unreadable(error) from error
    return template


def _unreadable(error: TemplateSyntaxError) -> TemplateError:
    return TemplateError(f"line {error.lineno} of the template: {error.message}")


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        # `"a" * 10**9` and `9**9**9` would take all memory or time before there is a text to measure.
        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = all(isinstance(side, int | float) for side in (left, right))
            if operator == "**" and (not numbers or abs(right) > 64):
                raise SecurityError(f"{left!r} ** {right!r} is not allowed")
            if operator == "*" and not numbers:
                sizes = [
                    len(side) if isinstance(side, str | list | tuple) else side for side in (left, right)
                ]
                if not all(isinstance(size, int) for size in sizes) or sizes[0] * sizes[1] > _MAX_LENGTH:
                    raise SecurityError("a repetition that is too long")
            return super().call_binop(context, operator, left, right)

    return Environment(autoescape=False)
