"""The probability of each label, out of the log-probabilities of the tokens of one answer.

An endpoint tells, for each token of the answer, the likeliest tokens at that place. Under a grammar only a
token that goes on with a label could have been taken, so at each place the mass of those tokens, taken as
one, is shared out among the labels that part there; what stays with the answer goes on to the next place.
(llama.cpp reports the mass before its grammar; sharing out anew at each place is what applies it.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    """The labels that this token goes on with; where it does with none, those that it ends."""
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
