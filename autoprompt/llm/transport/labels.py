"""How an endpoint is made to answer with a label, and how likely it thinks each label is.

`label_grammar` and `label_schema` hold an answer to the labels; `decided` and `unwrapped` read it.
`label_probabilities` comes from the log-probabilities of the answer's tokens. An endpoint reports, for each
token of the answer, the likeliest tokens at that place. Under a grammar only a token that continues a label
could have been taken, so at each place the mass of those tokens, taken as one, is divided among the labels
that part there; what stays with the answer moves on to the next place. (llama.cpp reports the mass before its
grammar; dividing it anew at each place is what applies the grammar.)
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


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


# No label is impossible: what is not among the likeliest tokens is small, not zero.
_FLOOR = 1e-6


class Step(NamedTuple):
    """One token of the answer as bytes, and (token, log-probability) of the likeliest ones at its place."""

    token: bytes
    likeliest: tuple[tuple[bytes, float], ...]


def steps_of(content: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Reads `choices[0].logprobs.content` of a chat completion."""
    return [_step(entry) for entry in content]


def label_probabilities(steps: Sequence[Step], labels: Sequence[str]) -> dict[str, float]:
    """Label -> probability; above 0, summing to 1.

    steps: the tokens of an answer that begins with a label, or with as much of one as decides between them.
    Labels that are still open at the end, or that part at a token that is not the answer's, share their mass
    evenly: what would tell them apart was not asked.
    """
    mass = dict.fromkeys(labels, 0.0)
    open_labels = {label: label.encode() for label in labels}  # label -> what is still to come of it
    on_path = 1.0
    for step in steps:
        if len(open_labels) < 2:
            break
        shares = _shares(step, open_labels)
        total = sum(shares.values())
        staying = _followers(step.token, open_labels)
        if not staying:
            break
        if total > 0:
            for followers, share in shares.items():
                if followers != staying:
                    for label in followers:
                        mass[label] += on_path * share / total / len(followers)
            on_path *= shares.get(staying, 0.0) / total
        open_labels = {label: open_labels[label][len(step.token) :] for label in staying}
    for label in open_labels:
        mass[label] += on_path / len(open_labels)
    floored = {label: max(value, _FLOOR) for label, value in mass.items()}
    total = sum(floored.values())
    return {label: value / total for label, value in floored.items()}


def _shares(step: Step, open_labels: Mapping[str, bytes]) -> dict[frozenset[str], float]:
    """Mass of the likeliest tokens, by the labels that each of them leaves open."""
    shares: dict[frozenset[str], float] = {}
    for token, log_probability in step.likeliest or ((step.token, 0.0),):
        followers = _followers(token, open_labels)
        if followers:
            shares[followers] = shares.get(followers, 0.0) + math.exp(log_probability)
    return shares


def _followers(token: bytes, open_labels: Mapping[str, bytes]) -> frozenset[str]:
    """Return the labels that this token continues; if it continues none, the labels that it ends."""
    going_on = frozenset(label for label, rest in open_labels.items() if token and rest.startswith(token))
    if going_on:
        return going_on
    return frozenset(label for label, rest in open_labels.items() if not rest)


def _step(entry: Mapping[str, Any]) -> Step:
    token = _bytes(entry)
    likeliest = [(_bytes(top), float(top["logprob"])) for top in entry.get("top_logprobs") or ()]
    # Under a grammar, or drawn at a temperature, the token taken need not be among the likeliest.
    if likeliest and all(other != token for other, _ in likeliest):
        likeliest.append((token, float(entry["logprob"])))
    return Step(token, tuple(likeliest))


def _bytes(entry: Mapping[str, Any]) -> bytes:
    """The bytes of a token: one that is a part of a character has no text of its own."""
    raw = entry.get("bytes")
    return bytes(raw) if raw is not None else str(entry.get("token", "")).encode()
