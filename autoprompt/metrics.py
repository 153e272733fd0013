"""How an answer is scored: a value in [0, 1], higher is better, and the reason in words for the analyst."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from autoprompt import stats
from autoprompt.answers import Number, normalize, read_answer, read_json, read_label, read_number, visible
from autoprompt.dataset.faults import Faults
from autoprompt.errors import ConfigError, DatasetError
from autoprompt.judge import LLMJudge
from autoprompt.llm.client import Client
from autoprompt.types import Example, Prediction, Score

__all__ = ["Metric", "get_metric", "known_metrics", "read_answer", "read_label", "register"]

_CONTEXT = ("labels", "client", "name")  # given by `get_metric`, never options of a user


class Metric(Protocol):
    """Scores one answer. Safe to call from several threads at once."""

    @property
    def name(self) -> str: ...

    @property
    def is_aggregate(self) -> bool: ...

    def read(self, text: str) -> str | None:
        """The part of a model's answer that counts, for `Prediction.value`; None where there is none."""
        ...

    def score(self, prediction: Prediction, example: Example) -> Score:
        """The score of one row. `prediction.value` is None for an unparsed answer, which scores 0."""
        ...

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:
        """The objective over all rows, in [0, 1], where `is_aggregate`; TypeError else. Unparsed: ""."""
        ...


Factory = Callable[..., Metric]
_FACTORIES: dict[str, Factory] = {}


def register(name: str) -> Callable[[Factory], Factory]:
    """Make a metric known by name. Options are the factory's keyword parameters besides `labels`."""

    def add(factory: Factory) -> Factory:
        _FACTORIES[name] = factory
        return factory

    return add


def known_metrics() -> tuple[str, ...]:
    return (*sorted(_FACTORIES), "python:module:function")


def get_metric(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    judge: Client | None = None,
    labels: Sequence[str] = (),
) -> Metric:
    """The metric of that name.

    judge: the model behind `llm_judge`. labels: the only answers allowed; with them an answer is read as one.
    Raises ConfigError for an unknown name, a wrong option, or `llm_judge` without a judge.
    """
    given = dict(options or {})
    if name.startswith("python:"):
        return _python_metric(name, given, tuple(labels))
    factory = _FACTORIES.get(name)
    if factory is None:
        close = difflib.get_close_matches(name, known_metrics(), n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"unknown metric {name!r}. {hint}Known: {', '.join(known_metrics())}")
    parameters = inspect.signature(factory).parameters
    allowed = [p for p in parameters if p not in _CONTEXT]
    for option in given:
        if option not in allowed:
            takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
            raise ConfigError(f"metric {name}: unknown option {option!r}; {takes}")
    if "client" in parameters:
        if judge is None:
            raise ConfigError(f"metric {name} needs a judge model: set --judge-model")
        given["client"] = judge
    for option in allowed:
        if parameters[option].default is inspect.Parameter.empty and option not in given:
            raise ConfigError(
                f"metric {name} needs the option {option!r} (metric_options: {{{option}: ...}})"
            )
    return factory(labels=tuple(labels), **given)


def check_targets(metric: Metric, rows: Mapping[Path, Sequence[Example]]) -> None:
    """Every expected answer is one that the metric can compare with. rows: of each file.

    Raises DatasetError with file and line of those that are not. A metric of one's own is not asked.
    """
    if not isinstance(metric, _TextMetric):
        return
    for path, examples in rows.items():
        faults = Faults(path)
        for example in examples:
            if fault := metric.target_fault(example.target):
                faults.add(example.line, fault)
        faults.raise_if_any()


@dataclass(frozen=True)
class _TextMetric:
    """What metrics of texts share: how an answer is read, and what is said of one that cannot be."""

    labels: tuple[str, ...] = ()
    name: str = field(default="", init=False)
    is_aggregate: bool = field(default=False, init=False)

    def read(self, text: str) -> str | None:
        return read_answer(text, self.labels)

    def target_fault(self, target: str) -> str:
        """Why no answer could be compared with `target`; "" where one can."""
        del target
        return ""

    def score(self, prediction: Prediction, example: Example) -> Score:
        if prediction.value is None:
            return self._unparsed(prediction.text)
        return self._compare(prediction.value, example)

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:  # noqa: ARG002
        raise TypeError(f"{self.name} is scored row by row")

    def _compare(self, answer: str, example: Example) -> Score:
        raise NotImplementedError

    def _refuse(self, example: Example) -> DatasetError:
        fault = self.target_fault(example.target)
        return DatasetError(f"row {example.id} (line {example.line}): {fault}")

    def _unparsed(self, text: str) -> Score:
        if not visible(text):
            return Score(0.0, "unparsed: the answer is empty")
        missing = f"names none of the labels {', '.join(self.labels)}" if self.labels else "holds no answer"
        return Score(0.0, f"unparsed: {_short(text)} {missing}")


@register("exact_match")
@dataclass(frozen=True)
class ExactMatch(_TextMetric):
    """Equal but for case, width, spaces, and quotes or end marks around it."""

    name: str = field(default="exact_match", init=False)

    def _compare(self, answer: str, example: Example) -> Score:
        return _verdict(normalize(answer) == normalize(example.target), answer, example.target)


@register("macro_f1")
@dataclass(frozen=True)
class MacroF1(ExactMatch):
    """Mean F1 of the classes over all rows together; a single row is scored by exact match."""

    name: str = field(default="macro_f1", init=False)
    is_aggregate: bool = field(default=True, init=False)

    def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:
        return stats.macro_f1([normalize(p) for p in predictions], [normalize(t) for t in targets])


@register("contains")
@dataclass(frozen=True)
class Contains(_TextMetric):
    """The expected answer stands somewhere in the answer."""

    name: str = field(default="contains", init=False)

    def _compare(self, answer: str, example: Example) -> Score:
        if normalize(example.target) in normalize(answer):
            return Score(1.0, "")
        return Score(0.0, f"answered {_short(answer)}, which does not contain {_short(example.target)}")


@register("regex")
@dataclass(frozen=True)
class Regex(_TextMetric):
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
        pattern = example.target if self.pattern is None else self.pattern
        try:
            found = re.search(pattern, answer)
        except re.error as error:
            raise self._refuse(example) from error
        return (
            Score(1.0)
            if found
            else Score(0.0, f"answered {_short(answer)}, which does not match {pattern!r}")
        )


@register("numeric")
@dataclass(frozen=True)
class Numeric(_TextMetric):
    """The last number of the answer equals the last of the target, within `tolerance` (relative or absolute).

    Where only one of both has a %, 40% may be 40 or 0.4.
    """

    tolerance: float = 1e-6
    name: str = field(default="numeric", init=False)

    def __post_init__(self) -> None:
        value = self.tolerance
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ConfigError(f"metric numeric: tolerance is {value!r}; expected a number of at least 0")

    def read(self, text: str) -> str | None:
        return visible(text) if read_number(text) is not None else None

    def target_fault(self, target: str) -> str:
        if read_number(target) is not None:
            return ""
        return f"the target {_short(target)} is no number; mend it, or choose another metric"

    def _compare(self, answer: str, example: Example) -> Score:
        expected, found = read_number(example.target), read_number(answer)
        if expected is None:
            raise self._refuse(example)
        if found is None:
            return self._unparsed(answer)
        return _verdict(self._is_equal(found, expected), f"{found.value:.15g}", example.target)

    def _is_equal(self, found: Number, expected: Number) -> bool:
        pairs = [(found.value, expected.value)]
        if found.is_percent and not expected.is_percent:
            pairs.append((found.value / 100, expected.value))
        if expected.is_percent and not found.is_percent:
            pairs.append((found.value, expected.value / 100))
        return any(math.isclose(a, b, rel_tol=self.tolerance, abs_tol=self.tolerance) for a, b in pairs)

    def _unparsed(self, text: str) -> Score:
        if not visible(text):
            return super()._unparsed(text)
        return Score(0.0, f"unparsed: {_short(text)} holds no number")


@register("json_match")
@dataclass(frozen=True)
class JsonMatch(_TextMetric):
    """Share of the fields that are equal: `fields`, else all of answer and target. Fenced JSON is read."""

    fields: tuple[str, ...] | None = None
    name: str = field(default="json_match", init=False)

    def __post_init__(self) -> None:
        given: Any = self.fields  # from a YAML file: a list, and perhaps not of names
        if given is None:
            return
        if not isinstance(given, list | tuple) or not given or not all(isinstance(f, str) for f in given):
            raise ConfigError(f"metric json_match: fields is {given!r}; expected a list of names")
        object.__setattr__(self, "fields", tuple(given))

    def read(self, text: str) -> str | None:
        return visible(text) if read_json(text) is not None else None

    def target_fault(self, target: str) -> str:
        try:
            json.loads(target)
        except ValueError as error:
            return f"the target {_short(target)} is not JSON: {error}"
        return ""

    def _compare(self, answer: str, example: Example) -> Score:
        try:
            expected = json.loads(example.target)
        except ValueError as error:
            raise self._refuse(example) from error
        found = read_json(answer)
        if found is None:
            return self._unparsed(answer)
        if not isinstance(expected, dict) or not isinstance(found, dict):
            return _verdict(_is_same(found, expected), json.dumps(found, ensure_ascii=False), example.target)
        names = self.fields or tuple(dict.fromkeys((*expected, *found)))
        wrong = [
            n for n in names if n not in found or n not in expected or not _is_same(found[n], expected[n])
        ]
        words = [_difference(n, found, expected) for n in wrong]
        return Score(1 - len(wrong) / len(names) if names else 1.0, "; ".join(words))

    def _unparsed(self, text: str) -> Score:
        return (
            Score(0.0, f"unparsed: {_short(text)} holds no JSON")
            if visible(text)
            else super()._unparsed(text)
        )


@register("llm_judge")
def _llm_judge(client: Client, rubric: str, labels: tuple[str, ...] = ()) -> Metric:
    if not isinstance(rubric, str):
        raise ConfigError(f"metric llm_judge: rubric is {rubric!r}; expected a text")
    return LLMJudge(client, rubric, labels=labels)


@dataclass(frozen=True)
class PythonMetric(_TextMetric):
    """A function of the user: `function(prediction: str, example: Example, **options)`."""

    function: Callable[..., Any] = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    name: str = field(kw_only=True)

    def _compare(self, answer: str, example: Example) -> Score:
        try:
            result = self.function(answer, example, **self.options)
        except Exception as error:
            raise ConfigError(
                f"metric {self.name} failed on row {example.id}: {type(error).__name__}: {error}"
            ) from error
        value, feedback = result, ""
        if isinstance(result, Mapping):
            value, feedback = result.get("score"), result.get("feedback", "")
        elif isinstance(result, tuple) and len(result) == 2:
            value, feedback = result
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ConfigError(
                f"metric {self.name} returned {result!r} on row {example.id}; expected a number in [0, 1], "
                "(score, feedback), or {'score': ..., 'feedback': ...}"
            )
        reason = str(
            feedback
            or ("" if value == 1 else f"answered {_short(answer)}, expected {_short(example.target)}")
        )
        return Score(float(value), reason)


def _python_metric(name: str, options: dict[str, Any], labels: tuple[str, ...]) -> Metric:
    _, _, path = name.partition(":")
    module_name, _, function_name = path.partition(":")
    if not module_name or not function_name:
        raise ConfigError(f"metric {name!r}: expected python:module:function, such as python:my_metrics:f")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # a console script does not look where the user stands
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"metric {name}: cannot import {module_name}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ConfigError(f"metric {name}: {module_name} has no function {function_name!r}")
    try:
        inspect.signature(function).bind("", None, **options)
    except TypeError as error:
        raise ConfigError(
            f"metric {name}: {error}; it is called as f(prediction, example, **options)"
        ) from error
    return PythonMetric(labels, function=function, options=options, name=name)


def _verdict(is_right: bool, answer: str, target: str) -> Score:
    return Score(1.0) if is_right else Score(0.0, f"answered {_short(answer)}, expected {_short(target)}")


def _is_same(a: object, b: object) -> bool:
    """Equal JSON values: numbers by value, texts as `normalize` sees them, lists and objects by part."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, str) and isinstance(b, str):
        return normalize(a) == normalize(b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_same(a[k], b[k]) for k in a)
    return a == b


def _difference(name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    if name not in found:
        return f"{name} is missing"
    if name not in expected:
        return f"{name} is not expected"
    return f"{name} is {_short(str(found[name]))}, expected {_short(str(expected[name]))}"


def _short(text: str, length: int = 120) -> str:
    """One line in quotes; of a long text its beginning and its end, where answers stand."""
    line = " ".join(text.split())
    if len(line) > length:
        line = f"{line[: length // 2]} … {line[-length // 2 :]}"
    return f"'{line}'"
