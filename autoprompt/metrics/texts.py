"""Metrics of texts, numbers and labels: exact match, macro F1, contains, regex, numeric, label set."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from autoprompt import stats
from autoprompt.errors import Problem
from autoprompt.metrics.base import (
    Doubt,
    TextMetric,
    bad_option,
    is_frequent,
    row_score,
    short,
    tokens_of_whole,
    unread_score,
)
from autoprompt.metrics.registry import metric
from autoprompt.records import Example, Score
from autoprompt.settings.records import LABEL_SET
from autoprompt.text.answers.label_sets import read_labels, split_labels
from autoprompt.text.answers.labels import label_key
from autoprompt.text.answers.numbers import Number, holds_one_number, points_in_doubt, read_number
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS
from autoprompt.text.answers.texts import normalize, visible
from autoprompt.text.answers.wrapping import plain_latex, unfence, without_confidence, wrapped_answers
from autoprompt.text.names import counted, listed


def compared(answer: str, target: str) -> tuple[str, str]:
    """Return answer and target as `exact_match` compares them."""
    if without_confidence(target) == target.rstrip():
        answer = without_confidence(answer)
    if (said := wrapped_answers(answer)) and not wrapped_answers(target):
        answer, target = "\n".join(said), plain_latex(target)
    return normalize(unfence(answer)), normalize(unfence(target))


# An interval takes the aggregate of the same answers thousands of times: 700 evaluated rows took 7 s.
_compared = lru_cache(maxsize=4096)(compared)


@metric("exact_match")
@dataclass(frozen=True)
class ExactMatch(TextMetric):
    """Equal but for case, width, spaces, look-alikes of hyphen and apostrophe, and quotes or end marks.

    A fence around the whole answer and a confidence at its end are not part of it. Of `<answer>…</answer>`
    and `\\boxed{…}` the inside is compared.
    """

    name: str = field(default="exact_match", init=False)

    def useful_tokens(self, targets: Sequence[str]) -> int:
        return tokens_of_whole(targets)

    def _compare(self, answer: str, example: Example) -> Score:
        found, expected = _compared(answer, example.target_text)
        return row_score(found == expected, answer, example.target_text)

    def suspicion(self, wrong: Sequence[tuple[str, str]], answers: int) -> Problem | None:
        """Of lists of labels that hold the same ones in another order."""
        pairs = Counter(wrong)  # the same few, again and again
        count = sum(number for pair, number in pairs.items() if _is_reordered(*pair))
        if not is_frequent(count, answers):
            return None
        said = f"{count} of {counted(answers, 'answer')} name the labels of the target in another order"
        fix = "Use {metric} if several labels are right at once."
        return Problem("metric.labels-in-other-order", said, fix=fix, settings={"metric": "label_set"})


def _is_reordered(answer: str, target: str) -> bool:
    found, expected = ([normalize(name) for name in split_labels(text) or ()] for text in (answer, target))
    return found != expected and sorted(found) == sorted(expected) and len(expected) > 1


@metric("macro_f1")
@dataclass(frozen=True)
class MacroF1(ExactMatch):
    """Mean F1 of the classes over all rows together; a single row is scored by exact match.

    Where rows are compared one by one, each class counts the same: their weighted mean is the mean recall.
    """

    name: str = field(default="macro_f1", init=False)
    is_aggregate: bool = field(default=True, init=False)
    weighted_mean: str = field(default="mean recall of the labels", init=False)

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:
        pairs = [_compared(p, t) for p, t in zip(predictions, targets, strict=True)]
        return stats.macro_f1([found for found, _ in pairs], [expected for _, expected in pairs])

    def row_weights(self, targets: Sequence[str]) -> list[float]:
        classes = [normalize(unfence(target)) for target in targets]
        counts = Counter(classes)
        return [len(classes) / (len(counts) * counts[name]) for name in classes]


@metric("contains")
@dataclass(frozen=True)
class Contains(TextMetric):
    """The expected answer stands somewhere in the answer."""

    name: str = field(default="contains", init=False)

    def _compare(self, answer: str, example: Example) -> Score:
        if normalize(unfence(example.target_text)) in normalize(answer):
            return Score(1.0, "")
        return Score(0.0, f"answered {short(answer)}, which does not contain {short(example.target_text)}")


@metric("regex")
@dataclass(frozen=True)
class Regex(TextMetric):
    """A pattern is found in the answer: `pattern`, else the row's expected answer as the pattern.

    A fence around the whole answer is left out, unless the pattern has a backtick or a tilde.
    Not found counts, too, if the search takes longer than its limit, as for `(a+)+$`.
    """

    pattern: str | None = None
    name: str = field(default="regex", init=False)

    def __post_init__(self) -> None:
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except (re.error, TypeError, OverflowError, RecursionError) as error:
                said = f"{self.pattern!r} is not a regular expression: {error}"
                raise bad_option("regex", "pattern", said) from error

    def target_fault(self, target: str) -> str:
        if self.pattern is not None:
            return ""
        try:
            re.compile(target)
        except (re.error, OverflowError, RecursionError) as error:
            return (
                f"the target {target!r} is not a regular expression: {error}; fix it, or set "
                "metric_options.pattern"
            )
        return ""

    def _compare(self, answer: str, example: Example) -> Score:
        from autoprompt.sandbox.evaluator import LimitError, has_match

        pattern = example.target_text if self.pattern is None else self.pattern
        sees_fences = "`" in pattern or "~" in pattern
        try:
            is_found = has_match(pattern, answer if sees_fences else unfence(answer))
        except LimitError as error:
            return Score(0.0, f"answered {short(answer)}, and {error}")
        if is_found:
            return Score(1.0)
        return Score(0.0, f"answered {short(answer)}, which does not match {pattern!r}")


@metric("numeric")
@dataclass(frozen=True)
class Numeric(TextMetric):
    """The number of the answer equals that of the target, nearly; of several see `read_number`.

    tolerance: how far apart they may be: this share of the larger one, or this difference. Under 1.
    absolute: the difference alone, instead of `tolerance`.
    If only one of both has a %, 40% may be 40 or 0.4. 3 million is 3,000,000 and never 3; 5 m, which may be
    metres, is 5 or 5,000,000.
    """

    tolerance: float = 1e-6
    absolute: float | None = None
    name: str = field(default="numeric", init=False)

    def __post_init__(self) -> None:
        for name, value in (("tolerance", self.tolerance), ("absolute", self.absolute)):
            if value is None and name == "absolute":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise bad_option("numeric", name, f"expected a number of at least 0, found {value!r}")
        if self.tolerance >= 1:
            said = f"expected a share below 1 (0.01 is 1 %), found {self.tolerance!r}"
            fix = "To allow a fixed difference, give {metric_options} instead."
            settings = {"metric_options": {"absolute": self.tolerance}}
            raise bad_option("numeric", "tolerance", said, fix, settings)

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
        return f"the target {short(target)} is no number; fix it, or choose another metric"

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

    def suspicion(self, wrong: Sequence[tuple[str, str]], answers: int) -> Problem | None:
        """Of answers that are the target times a thousand, a million or the like."""
        ratios = Counter(ratio for pair in wrong if (ratio := self._ratio(*pair)) is not None)
        for ratio, count in ratios.most_common(1):
            if is_frequent(count, answers):
                which = f"{ratio:,.15g} times" if ratio > 1 else f"1/{1 / ratio:,.15g} of"
                said = f"{count} of {counted(answers, 'answer')} are {which} the target"
                fix = "Name the unit of the targets in the prompt, or write it behind them (3 million)."
                return Problem("metric.other-unit", said, fix=fix)
        return None

    def _ratio(self, answer: str, target: str) -> float | None:
        found, expected = read_number(answer), read_number(target)
        if found is None or expected is None or not found.value or not expected.value:
            return None
        for ratio in (1e3, 1e6, 1e9, 1e12, 1e-3, 1e-6, 1e-9, 1e-12):
            if math.isclose(found.value, expected.value * ratio, rel_tol=max(self.tolerance, 1e-9)):
                return ratio
        return None

    def _is_equal(self, found: Number, expected: Number) -> bool:
        pairs = [(found.value, expected.value)]
        if found.factor != expected.factor:
            # 5 m are 5,000,000 as well as 5; beside 5 b, only the first.
            pairs = [] if 1 not in (found.factor, expected.factor) else pairs
            pairs.append((found.value * found.factor, expected.value * expected.factor))
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
        return unread_score("number", text)


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
