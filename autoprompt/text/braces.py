"""Braces in a prompt around a field's name that are no placeholder: which field is meant, what to write.

A placeholder is one pair of braces around a name of letters, digits and _, as the field spells it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autoprompt.text.scripts import MARKS, NAME

_IN_BRACES = re.compile(r"(?<!\{)(\{+)([^{}]*)(\}+)")  # once for each run of braces
_IS_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class Miss:
    """Braces that are sent to the model as they are.

    Args:
        text: All of it.
        inner: What is between, without white space.
        field: The field that is meant.
        is_doubled: `{{Text}}`, which is filled in, but inside another pair of braces.
    """

    text: str
    inner: str
    field: str
    is_doubled: bool


def misses(prompt: str, fields: Iterable[str]) -> Iterator[Miss]:
    """Yield the braces that name a field but are no placeholder, each text once, in order.

    A name that is spelt as a placeholder in one pair of braces is none of them.
    """
    known, seen = tuple(fields), set()
    for opening, between, closing in _IN_BRACES.findall(prompt):
        pairs = min(len(opening), len(closing))
        text = " ".join(f"{'{' * pairs}{between}{'}' * pairs}".split())
        is_doubled = is_placeholder_name(between)
        if is_doubled:
            field = between if pairs > 1 and between in known else None
        else:
            field = field_named(_variable(between) if pairs > 1 else between.strip(), known)
        if field is not None and text not in seen:
            seen.add(text)
            yield Miss(text, between.strip(), field, is_doubled)


def _variable(between: str) -> str:
    """Return the text in Jinja's braces, without filters: `Text` for `{{ Text | trim }}`."""
    return between.partition("|")[0].strip()


def is_placeholder_name(name: str) -> bool:
    """Return whether a name can be a placeholder: letters, digits and _, not a digit first."""
    return _IS_NAME.fullmatch(name) is not None


def field_named(name: str, fields: Iterable[str]) -> str | None:
    """Return the field that a name spells, also in other case or with other signs between its words."""
    known = [field for field in fields if field.strip()]
    exact = next((field for field in known if field.strip() == name), None)
    return exact or next((field for field in known if _key(field) == _key(name)), None)


def as_placeholder(field: str) -> str:
    """Return what to do to have a field filled in, in words."""
    if is_placeholder_name(field):
        return f"write {{{field}}}"
    name = _free_name(field)
    return (
        f"rename the field {field!r} to {name} and write {{{name}}}, since placeholders are letters, digits "
        "and _"
    )


def _key(name: str) -> str:
    return re.sub(r"[\s_.-]+", "_", unicodedata.normalize("NFC", name.strip()).casefold())


def _free_name(field: str) -> str:
    """Return the field's name with _ for what no placeholder may hold."""
    name = re.sub(rf"[^\w{MARKS}]+", "_", field).strip("_")
    return name if is_placeholder_name(name) else f"field_{name}".rstrip("_")
