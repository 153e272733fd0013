"""Comparing sets of labels: several may be right for a row at once."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoprompt.metrics.base import TextMetric, bad_option, short, unread_score
from autoprompt.metrics.registry import metric
from autoprompt.records import Example, Score
from autoprompt.settings.records import LABEL_SET
from autoprompt.text.answers.label_sets import read_labels, split_labels
from autoprompt.text.answers.labels import label_key
from autoprompt.text.answers.texts import visible
from autoprompt.text.names import listed

_MATCHES = ("f1", "exact")


@metric(LABEL_SET)
@dataclass(frozen=True)
class LabelSet(TextMetric):
    """F1 of the labels that an answer names and those of the target, in any order. Two empty sets are equal.

    match: "f1", or "exact" for a score of 1 if both sets are equal, else 0.
    """

    match: str = "f1"
    name: str = field(default=LABEL_SET, init=False)
    known: tuple[str, ...] = ()  # the labels of all targets, if none are given

    def __post_init__(self) -> None:
        if self.match not in _MATCHES:
            said = f"expected {' or '.join(_MATCHES)}, found {self.match!r}"
            raise bad_option(self.name, "match", said)

    def for_run(self, targets: Iterable[str], target_field: str) -> LabelSet:  # noqa: ARG002
        if self.labels:
            return self
        return replace(self, known=tuple({name: "" for text in targets for name in split_labels(text) or ()}))

    def read(self, text: str) -> str | None:
        """Return the labels as a JSON list.

        With labels given, an answer that names none of them is unreadable.
        """
        found = read_labels(text, self.labels or self.known)
        if found is None or (self.labels and found and not set(found) & set(self.labels)):
            return None
        return json.dumps(found, ensure_ascii=False)

    def key_of(self, target: str) -> Hashable:
        """Return the set, in whatever order it is written."""
        expected = self._expected(target)
        return target if expected is None else frozenset(expected)

    def target_fault(self, target: str) -> str:
        expected = self._expected(target)
        if expected is None:
            return f'the target {short(target)} is no list of labels; write ["a", "b"], or a, b'
        if self.labels and (unknown := [name for name in expected.values() if name not in self.labels]):
            names = listed([repr(name) for name in unknown])
            return f"the target names {names}, not among the labels {', '.join(self.labels)}"
        return ""

    def _expected(self, target: str) -> Mapping[str, str] | None:
        """Return the target's labels by their keys."""
        is_list = target.lstrip().startswith(("[", "{"))
        found = split_labels(target) if is_list or not self.labels else read_labels(target, self.labels)
        return None if found is None else self._by_key(found)

    def _by_key(self, names: Sequence[str]) -> dict[str, str]:
        spelled = {label_key(label): label for label in self.labels or self.known}
        return {key: spelled.get(key, name) for name in names if (key := label_key(name))}

    def _compare(self, answer: str, example: Example) -> Score:
        expected, read = self._expected(example.target_text), read_labels(answer, self.labels or self.known)
        if expected is None or read is None:
            return self._unparsed(answer)
        found = self._by_key(read)
        missing = [name for key, name in expected.items() if key not in found]
        extra = [self._shown(name) for key, name in found.items() if key not in expected]
        if not missing and not extra:
            return Score(1.0)
        shared = len(expected) - len(missing)
        value = 2 * shared / (len(expected) + len(found)) if self.match == "f1" else 0.0
        said = [
            f"{what}: {listed(names)}" for what, names in (("missing", missing), ("extra", extra)) if names
        ]
        reason = "; ".join(said)
        return Score(value, reason, feedback=reason)

    def _shown(self, name: str) -> str:
        return name if not self.labels or name in self.labels else f"{name} (not one of the labels)"

    def _unparsed(self, text: str) -> Score:
        if not visible(text):
            return super()._unparsed(text)
        return unread_score("none" if self.labels else "no_labels", text, ", ".join(self.labels))
