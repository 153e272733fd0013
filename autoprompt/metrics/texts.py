"""Metrics of texts and numbers: exact match, macro F1, contains, regex, numeric."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autoprompt import stats
from autoprompt.errors import ConfigError
from autoprompt.metrics.base import Doubt, TextMetric, row_score, short
from autoprompt.metrics.lengths import tokens_of_whole
from autoprompt.metrics.registry import register
from autoprompt.records import Example, Score
from autoprompt.text.answers.numbers import Number, holds_one_number, points_in_doubt, read_number
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS
from autoprompt.text.answers.texts import normalize, visible


@register("exact_match")
@dataclass(frozen=True)
class ExactMatch(TextMetric):
    """Equal but for case, width, spaces, look-alikes of hyphen and apostrophe, and quotes or end marks."""

    name: str = field(default="exact_match", init=False)

    def useful_tokens(self, targets: Sequence[str]) -> int:
        return tokens_of_whole(targets)

    def _compare(self, answer: str, example: Example) -> Score:
        return row_score(normalize(answer) == normalize(example.target_text), answer, example.target_text)


@register("macro_f1")
@dataclass(frozen=True)
class MacroF1(ExactMatch):
    """Mean F1 of the classes over all rows together; a single row is scored by exact match.

    Where rows are compared one by one, each class counts the same: their weighted mean is the mean recall.
    """

    name: str = field(default="macro_f1", init=False)
    is_aggregate: bool = field(default=True, init=False)
    weighted_mean: str = field(default="mean recall of the labels", init=False)

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:
        return stats.macro_f1([normalize(p) for p in predictions], [normalize(t) for t in targets])

    def row_weights(self, targets: Sequence[str]) -> list[float]:
        classes = [normalize(target) for target in targets]
        counts = Counter(classes)
        return [len(classes) / (len(counts) * counts[name]) for name in classes]


@register("contains")
@dataclass(frozen=True)
class Contains(TextMetric):
    """The expected answer stands somewhere in the answer."""

    name: str = field(default="contains", init=False)

    def _compare(self, answer: str, example: Example) -> Score:
        if normalize(example.target_text) in normalize(answer):
            return Score(1.0, "")
        return Score(0.0, f"answered {short(answer)}, which does not contain {short(example.target_text)}")


@register("regex")
@dataclass(frozen=True)
class Regex(TextMetric):
    """A pattern is found in the answer: `pattern`, else the row's expected answer as the pattern."""

    pattern: str | None = None
    name: str = field(default="regex", init=False)

    def __post_init__(self) -> None:
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except (re.error, TypeError) as error:
                raise ConfigError(
                    f"metric regex: pattern {self.pattern!r} is not a pattern: {error}"
                ) from error

    def target_fault(self, target: str) -> str:
        if self.pattern is not None:
            return ""
        try:
            re.compile(target)
        except re.error as error:
            return f"the target {target!r} is not a pattern: {error}; mend it, or set metric_options.pattern"
        return ""

    def _compare(self, answer: str, example: Example) -> Score:
        pattern = example.target_text if self.pattern is None else self.pattern
        found = re.search(pattern, answer)
        return (
            Score(1.0) if found else Score(0.0, f"answered {short(answer)}, which does not match {pattern!r}")
        )


@register("numeric")
@dataclass(frozen=True)
class Numeric(TextMetric):
    """The number of the answer equals that of the target, nearly; of several see `read_number`.

    tolerance: how far apart they may be: this share of the larger one, or this difference. Under 1.
    absolute: the difference alone, instead of `tolerance`.
    Where only one of both has a %, 40% may be 40 or 0.4.
    """

    tolerance: float = 1e-6
    absolute: float | None = None
    name: str = field(default="numeric", init=False)

    def __post_init__(self) -> None:
        for name, value in (("tolerance", self.tolerance), ("absolute", self.absolute)):
            if value is None and name == "absolute":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ConfigError(f"metric numeric: {name} is {value!r}; expected a number of at least 0")
        if self.tolerance >= 1:
            raise ConfigError(
                f"metric numeric: tolerance is {self.tolerance!r}; expected under 1. It is a share too (0.01 "
                "is 1 %), so with 1 every answer of the right sign is right. For a difference alone set "
                f"absolute={self.tolerance!r}"
            )

    def read(self, text: str) -> str | None:
        return visible(text) if read_number(text) is not None else None

    def read_marked(self, text: str) -> str | None:
        number = read_number(text, is_marked=True)
        if number is None or number == read_number(text):
            return self.read(text)
        return number.written

    def useful_tokens(self, targets: Sequence[str]) -> int:  # noqa: ARG002
        return OUTPUT_TOKENS  # the number stands at the end of what is worked out, however short it is

    def target_fault(self, target: str) -> str:
        if read_number(target) is not None:
            return ""
        return f"the target {short(target)} is no number; mend it, or choose another metric"

    def passed_over(self, target: str) -> str:
        if holds_one_number(target):
            return ""
        return "more than one number, of which the last one alone counts"

    def doubt(self, targets: Iterable[str]) -> Doubt | None:
        read = {target: number for target in points_in_doubt(targets) if (number := read_number(target))}
        if not read:
            return None
        target, number = next(iter(read.items()))
        return Doubt(
            "a point before three digits, which is read as a decimal point",
            {text: found.written for text, found in read.items()},
            f"If it parts thousands, write {number.value * 1000:.15g} for {short(target)}, and have the "
            "prompt ask for numbers without it",
        )

    def _compare(self, answer: str, example: Example) -> Score:
        expected, found = read_number(example.target_text), read_number(answer)
        if expected is None or found is None:
            return self._unparsed(answer)
        return row_score(self._is_equal(found, expected), f"{found.value:.15g}", example.target_text)

    def _is_equal(self, found: Number, expected: Number) -> bool:
        pairs = [(found.value, expected.value)]
        if found.is_percent and not expected.is_percent:
            pairs.append((found.value / 100, expected.value))
        if expected.is_percent and not found.is_percent:
            pairs.append((found.value, expected.value / 100))
        share, difference = self.tolerance, self.tolerance
        if self.absolute is not None:
            share, difference = 0.0, self.absolute
        return any(math.isclose(a, b, rel_tol=share, abs_tol=difference) for a, b in pairs)

    def _unparsed(self, text: str) -> Score:
        if not visible(text):
            return super()._unparsed(text)
        return Score(0.0, f"unparsed: {short(text)} holds no number")
