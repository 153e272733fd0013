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
    """Braces that are sent as they stand. text: all of it. inner: what is between, without white space.

    is_doubled: `{{Text}}`, which is filled in within another pair of braces.
    """

    text: str
    inner: str
    field: str
    is_doubled: bool


def misses(prompt: str, fields: Iterable[str]) -> Iterator[Miss]:
    """Each text once, in order. What is spelt as a placeholder in one pair of braces is none of them."""
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
    """What stands in Jinja's braces, without its filters: `{{ Text | trim }}`."""
    return between.partition("|")[0].strip()


def is_placeholder_name(name: str) -> bool:
    return _IS_NAME.fullmatch(name) is not None


def field_named(name: str, fields: Iterable[str]) -> str | None:
    """The field that a name spells, be it in other case, or with other signs between its words."""
    known = [field for field in fields if field.strip()]
    exact = next((field for field in known if field.strip() == name), None)
    return exact or next((field for field in known if _key(field) == _key(name)), None)


def as_placeholder(field: str) -> str:
    """What to do, in words, to have a field filled in."""
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
    """The field's name with what no placeholder may hold made to _."""
    name = re.sub(rf"[^\w{MARKS}]+", "_", field).strip("_")
    return name if is_placeholder_name(name) else f"field_{name}".rstrip("_")
