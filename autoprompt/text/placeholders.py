"""Placeholders in a text: braces that are nearly one, with what to write, and marks that a rewrite keeps.

A placeholder of ours is one pair of braces around a name of letters, digits and _, as the field spells it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

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


# --- marks: what a program puts into a text, placeholders of template languages and JSON schemas ---

_MARK = re.compile(
    r"(?P<tag>\{%.*?%\})"  # Jinja
    r"|(?P<double>\{\{\{?[^{}\n]+\}\}\}?)"  # Jinja, Mustache, Dify
    r"|(?P<dollar>\$\{[^{}\s]+\}|\$[A-Za-z_]\w*)"  # string.Template, JavaScript
    r"|(?P<single>\{[^\W\d][\w.]*(?:\[[\w.]+\])*(?:![rsa])?(?::[^{}\s]*)?\})"  # str.format
    r"|(?P<percent>(?<![\w%])%\(\w+\)[sdifr])"
    r"|(?P<positional>(?<![\w%])%(?:\.\d+)?[sdifr](?!\w)|(?<!\{)\{\d*\}(?!\}))",
    re.DOTALL,
)
_SCHEMA_KEYS = ("properties", "$schema", "anyOf", "oneOf", "enum")


class _Mark(NamedTuple):
    """A placeholder as it is written. style: of the template language, by its braces."""

    text: str
    style: str


def marks(text: str) -> list[_Mark]:
    """Return the placeholders of a text, in order.

    Examples:
        >>> [mark.text for mark in marks("On {topic}: {{ question | trim }}, ${x}, %s. {not one}, 5% so")]
        ['{topic}', '{{ question | trim }}', '${x}', '%s']
    """
    return [_Mark(found[0], str(found.lastgroup)) for found in _MARK.finditer(text)]


def kept_texts(text: str) -> list[str]:
    """Return the placeholders and JSON schemas of a text, which every rewrite keeps, each once."""
    return list(dict.fromkeys([*(mark.text for mark in marks(text)), *_schemas(text)]))


def _schemas(text: str) -> Iterator[str]:
    """Yield the JSON schemas that a text holds, as they are written there."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(found, dict) and any(key in found for key in _SCHEMA_KEYS):
            yield text[at:end]
        at = end


def broken_marks(before: str, after: str) -> str:
    """Return what a rewrite makes of a text's placeholders, as `loses {topic}`; "" if it keeps them all.

    A program fills its texts in. A placeholder that is gone is never filled in, and a new one fails the row.
    Those without a name stay as many, in their order.
    """
    had, has = marks(before), marks(after)
    if (lost := next((kept for kept in kept_texts(before) if kept not in after), "")) != "":
        return f"loses {lost}"
    known, styles = {mark.text for mark in had}, {mark.style for mark in had}
    new = next((mark for mark in has if mark.text not in known and mark.style in styles), None)
    if new is not None:
        return f"adds {new.text}"
    ordered, now = ([m.text for m in found if m.style == "positional"] for found in (had, has))
    if ordered and ordered != now:
        return f"changes the number or order of {ordered[0]}"
    return ""
