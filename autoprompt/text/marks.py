"""What a program puts into a text: placeholders of template languages, and JSON schemas, which stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

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


class Mark(NamedTuple):
    """A placeholder as it is written. style: of the template language, by its braces."""

    text: str
    style: str


def marks(text: str) -> list[Mark]:
    """Return the placeholders of a text, in order.

    Examples:
        >>> [mark.text for mark in marks("On {topic}: {{ question | trim }}, ${x}, %s. {not one}, 5% so")]
        ['{topic}', '{{ question | trim }}', '${x}', '%s']
    """
    return [Mark(found[0], str(found.lastgroup)) for found in _MARK.finditer(text)]


def kept_texts(text: str) -> list[str]:
    """Return the placeholders and JSON schemas of a text, which every rewrite keeps, each once."""
    return list(dict.fromkeys([*(mark.text for mark in marks(text)), *schemas(text)]))


def schemas(text: str) -> Iterator[str]:
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
