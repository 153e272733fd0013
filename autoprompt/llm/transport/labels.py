"""How an endpoint is made to answer with a label, and how the label is read out of what it then says."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from typing import Any


@functools.cache
def label_grammar(labels: tuple[str, ...]) -> str:
    """Return GBNF, llama.cpp's grammar, that takes one of the labels and nothing else.

    What labels share at the beginning is written once: llama.cpp follows all alternatives that are open, so
    that of 1,000 flat ones each token of an answer took it twice as long.
    """
    return "root ::= " + _alternatives(sorted(set(labels)), 0)


@functools.cache
def deciding_tokens(labels: tuple[str, ...]) -> int:
    """Tokens after which an answer under `label_grammar` can only be one of the labels.

    A token is at least a byte, so it takes no more than the bytes that two labels share and the character
    after them. What is left of the label would only be written out.
    """
    ordered = sorted(label.encode() for label in set(labels))
    shared = (_shared(*pair) for pair in itertools.pairwise(ordered))
    longest = 1 if all(label.isascii() for label in labels) else 4  # bytes of a character
    return max(shared, default=0) + longest


def decided(text: str, labels: Sequence[str]) -> str:
    """The only label that begins so; "" where none or several do."""
    begun = text.strip().rstrip("\ufffd")  # of a character that was cut
    possible = {label for label in labels if begun and label.startswith(begun)}
    return possible.pop() if len(possible) == 1 else ""


def label_schema(labels: Sequence[str]) -> dict[str, Any]:
    """A strict `response_format`: an object, as strict schemas must be, with the label under "answer"."""
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(labels)}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def unwrapped(text: str) -> str:
    """The label out of the object that `label_schema` asks for; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # a model that repeats itself opens bracket after bracket
        return text
    answer = data.get("answer")
    return answer if isinstance(answer, str) else text


def _alternatives(labels: Sequence[str], read: int) -> str:
    """What may follow the first `read` characters, which the labels share; they are in order."""
    rest = labels[1:] if len(labels[0]) == read else labels
    groups = [list(group) for _, group in itertools.groupby(rest, key=lambda label: label[read])]
    parts = []
    for group in groups:
        end = read + _shared(group[0][read:], group[-1][read:])
        parts.append(_literal(group[0][read:end]))
        if len(group) > 1:
            following = _alternatives(group, end)
            parts[-1] += f" {following}" if len(group[0]) == end else f" ({following})"
    whole = " | ".join(parts)
    return whole if rest is labels else f"({whole})?"


def _shared(one: Sequence[str | int], other: Sequence[str | int]) -> int:
    """How many characters, or bytes, two labels begin with alike."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _literal(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
