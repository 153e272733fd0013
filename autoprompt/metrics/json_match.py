"""Comparing JSON objects field by field."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from autoprompt.errors import Problem
from autoprompt.metrics.base import (
    TextMetric,
    bad_option,
    is_frequent,
    one_line,
    row_score,
    short,
    unread_score,
)
from autoprompt.metrics.registry import metric
from autoprompt.records import Example, Prediction, Score
from autoprompt.text.answers.texts import normalize, visible
from autoprompt.text.answers.wrapping import read_json
from autoprompt.text.names import counted


@metric("json_match")
@dataclass(frozen=True)
class JsonMatch(TextMetric):
    """Share of the fields that are equal: `fields`, else all of answer and target. Fenced JSON is read.

    fields: names, as a list or as one text with commas.
    ignore_order: whether lists with the same items in another order are equal, at any depth. Items that occur
        several times must occur as often.
    """

    fields: tuple[str, ...] | None = None
    ignore_order: bool = False
    name: str = field(default="json_match", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ignore_order, bool):
            raise bad_option(
                "json_match", "ignore_order", f"expected true or false, found {self.ignore_order!r}"
            )
        given: Any = self.fields  # from a YAML file: a list, and perhaps not of names
        if given is None:
            return
        if isinstance(given, str):
            given = [name.strip() for name in given.split(",") if name.strip()]
        if not isinstance(given, list | tuple) or not given or not all(isinstance(f, str) for f in given):
            raise bad_option("json_match", "fields", f"expected a list of names, found {self.fields!r}")
        object.__setattr__(self, "fields", tuple(given))

    def read(self, text: str) -> str | None:
        return visible(text) if read_json(text) is not None else None

    def target_fault(self, target: str) -> str:
        try:
            json.loads(target)
        except (ValueError, RecursionError) as error:
            return f"the target {short(target)} is not JSON ({error}); fix it, or choose another metric"
        return ""

    def options_fault(self, targets: Iterable[str]) -> str:
        if self.fields is None:
            return ""
        objects = [data for data in map(json.loads, targets) if isinstance(data, dict)]
        known = list(dict.fromkeys(name for data in objects for name in data))
        for name in self.fields:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = (
                    f"did you mean {close[0]!r}?" if close else f"fields of the targets: {', '.join(known)}"
                )
                return f"no target has {name!r}; {hint if known else 'none is a JSON object'}"
        return ""

    def score(self, prediction: Prediction, example: Example) -> Score:
        if prediction.value is None or prediction.output is None:
            return super().score(prediction, example)
        return self._compare_values(prediction.output, example)

    def _compare(self, answer: str, example: Example) -> Score:
        found = read_json(answer)
        return self._unparsed(answer) if found is None else self._compare_values(found, example)

    def _compare_values(self, found: Any, example: Example) -> Score:
        expected = json.loads(example.target) if isinstance(example.target, str) else example.target
        if not isinstance(expected, dict) or not isinstance(found, dict):
            answer = json.dumps(found, ensure_ascii=False)
            return row_score(self._is_same(found, expected), answer, example.target_text)
        names = self.fields or tuple(dict.fromkeys((*expected, *found)))
        wrong = [
            n
            for n in names
            if n not in found or n not in expected or not self._is_same(found[n], expected[n])
        ]
        words = [_difference(n, found, expected) for n in wrong]
        said = "; ".join(words)
        return Score(1 - len(wrong) / len(names) if names else 1.0, said, feedback=said)

    def _is_same(self, found: object, expected: object) -> bool:
        return _is_same(found, expected, ignore_order=self.ignore_order)

    def suspicion(self, wrong: Sequence[tuple[str, str]], answers: int) -> Problem | None:
        if self.ignore_order:
            return None
        lenient = replace(self, ignore_order=True)
        count = sum(lenient.is_right(answer, target) for answer, target in wrong)
        if not is_frequent(count, answers):
            return None
        said = f"{count} of {counted(answers, 'answer')} differ from the target only in the order of a list"
        fix = "Use {metric_options} if the order does not count."
        return Problem(
            "metric.list-order", said, fix=fix, settings={"metric_options": {"ignore_order": True}}
        )

    def _unparsed(self, text: str) -> Score:
        return unread_score("json", text) if visible(text) else super()._unparsed(text)


def _is_same(a: object, b: object, *, ignore_order: bool) -> bool:
    """Equal JSON values: numbers by value, texts as `normalize` sees them, lists and objects by part."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        try:
            return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        except OverflowError:  # of a model that repeats itself: a whole number of 400 digits is no float
            return a == b
    if isinstance(a, str) and isinstance(b, str):
        return normalize(a) == normalize(b)
    same = partial(_is_same, ignore_order=ignore_order)
    if isinstance(a, list) and isinstance(b, list):
        if ignore_order:
            return len(a) == len(b) and _are_same_items(a, b)
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def _are_same_items(a: Sequence[object], b: Sequence[object]) -> bool:
    """Return whether each item of `a` has a partner of its own in `b`, in whatever order."""
    left = list(b)
    for item in a:
        at = next((n for n, other in enumerate(left) if _is_same(item, other, ignore_order=True)), None)
        if at is None:
            return False
        del left[at]
    return True


def _difference(name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    if name not in found:
        return f"{name} is missing"
    if name not in expected:
        return f"{name} is not expected"
    return f"{name} is {_shown(found[name])}, expected {_shown(expected[name])}"


def _shown(value: Any) -> str:
    """As JSON writes it: an analyst must see that a text is no number."""
    return one_line(json.dumps(value, ensure_ascii=False))
