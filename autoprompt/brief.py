"""How records look in a notebook or a debugger: a short `repr`, however large they are, and a card."""

from __future__ import annotations

import dataclasses
import importlib
import reprlib
from collections.abc import Iterable
from typing import Any

LONGEST = 400  # characters of a record
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 2
_BRIEF.maxstring = _BRIEF.maxother = 70
_BRIEF.maxtuple = _BRIEF.maxlist = _BRIEF.maxset = _BRIEF.maxfrozenset = 3
_BRIEF.maxdict = 4


def brief(record: Any) -> str:
    """Return the `repr` of a dataclass: the fields that differ from their defaults, long values cut.

    Example:
        >>> from autoprompt.records import Message
        >>> repr(Message("user", "word " * 100))
        "Message(role='user', content='word word word word word word... word word word word word word ')"
    """
    fields = (field for field in dataclasses.fields(record) if field.repr)
    # A record that is being made, as in a debugger, has no fields yet.
    known = ((field, getattr(record, field.name)) for field in fields if hasattr(record, field.name))
    return brief_of(record, ((field.name, value) for field, value in known if not _is_default(field, value)))


def brief_of(record: object, values: Iterable[tuple[str, Any]]) -> str:
    """Return `Name(key=value, ...)` of these values, as many as fit into LONGEST characters."""
    name, text = type(record).__name__, ""
    for key, value in values:
        part = f"{', ' if text else ''}{key}={_BRIEF.repr(value)}"
        if len(name) + len(text) + len(part) > LONGEST - len("(, ...)"):
            return f"{name}({text}{', ' if text else ''}...)"
        text += part
    return f"{name}({text})"


def card(record: object) -> str:
    """Return a result as HTML, for notebooks."""
    # Imported by its name: this module is below all others.
    made: str = importlib.import_module("autoprompt.report.cards").card(record)
    return made


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    """Return whether a value is the default. Those of other types are not asked: an array has no answer."""
    made = field.default_factory
    default = field.default if made is dataclasses.MISSING else made()
    return value is default or (type(value) is type(default) and bool(value == default))
