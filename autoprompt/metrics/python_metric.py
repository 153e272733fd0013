"""A function of the user as a metric."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoprompt.errors import ConfigError, Problem
from autoprompt.metrics.arguments import Call, plan_call
from autoprompt.metrics.base import Metric, TextMetric, one_line, short
from autoprompt.metrics.user_code import code_digests, find_function, with_line
from autoprompt.records import Example, Prediction, Score

_SCORES, _REASONS = ("score", "value", "pass"), ("reason", "feedback", "comment", "rationale", "explanation")
_OUTSIDE, _INSIDE = 1e-3, 1e-6  # how far rounding takes a 1 or a 0: float16 above it, float32 below it


@dataclass(frozen=True)
class PythonMetric(TextMetric):
    """A function of the user.

    call: what its parameters get. options: its other keywords. target_field: where a row has its target.
    """

    function: Callable[..., Any] = field(kw_only=True)
    call: Call = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    name: str = field(kw_only=True)
    target_field: str = field(default="target", kw_only=True)

    def for_run(self, targets: Iterable[str], target_field: str) -> PythonMetric:  # noqa: ARG002
        return replace(self, target_field=target_field)

    def _compare(self, answer: str, example: Example) -> Score:
        given, keywords = self.call.values(answer, example, self.target_field)
        try:
            result = self.function(*given, **keywords, **self.options)
        except AssertionError as error:
            said = str(error) or _asserted(error)
            return Score(0.0, said, feedback=said)
        except Exception as error:
            hint = ""
            if isinstance(error, AttributeError) and error.obj is example and error.name in example.fields:
                hint = f". A field of the row is example.fields[{error.name!r}]"
            raise ConfigError(
                f"metric {self.name} failed on {example.name}: {with_line(error)}{hint}"
            ) from error
        found, said = _parts(result)
        value = _number(found)
        if value is None:
            raise ConfigError(
                f"metric {self.name} returned {_shown(result)} on {example.name}; expected a number in "
                "[0, 1], (score, reason), or {'score': ..., 'reason': ...}"
            )
        wrong = "" if value == 1 else f"answered {short(answer)}, expected {short(example.target_text)}"
        return Score(value, str(said or wrong), feedback=str(said or ""))


def _asserted(error: AssertionError) -> str:
    """The line of an assertion that says nothing itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"not so: {frames[-1].line}" if frames and frames[-1].line else "an assertion failed"


def python_metric(name: str, options: dict[str, Any], labels: tuple[str, ...]) -> Metric:
    """Return the metric that `python:module:function` names."""
    function = find_function(name)
    call = plan_call(name, function, options)
    code_digests(name)  # now: a file that is edited later is not what this process scores with
    return PythonMetric(labels, function=function, call=call, options=options, name=name)


def try_metric(metric: Metric, rows: Iterable[Example]) -> list[Problem]:
    """Call a metric of the user on `rows`, each with its own target as the answer, before any answer is paid.

    Returns:
        A warning for each target that does not score 1.

    Raises:
        ConfigError: If the metric fails, or returns no score.
    """
    if isinstance(metric, PythonMetric):
        found = [(row, metric.score(Prediction(row.target_text, row.target_text), row)) for row in rows]
    elif type(metric).__module__.split(".")[0] != __name__.split(".")[0]:
        found = [(row, _tried(metric, row)) for row in rows]
    else:
        return []
    return [
        Problem(
            "metric.own-target",
            f"metric {metric.name} scores {score.value:g} for this row's own target"
            f"{score.feedback and f' ({one_line(score.feedback)})'}",
            row.place,
            "Check what it compares the answer with.",
        )
        for row, score in found
        if not score.is_correct
    ]


def _tried(metric: Metric, row: Example) -> Score:
    """What a registered metric says of a row's own target."""
    try:
        read = metric.read(row.target_text)
        score = metric.score(Prediction(row.target_text, read), row)
    except Exception as error:
        raise ConfigError(f"metric {metric.name} failed on {row.name}: {with_line(error)}") from error
    if not isinstance(score, Score) or _number(score.value) is None:
        raise ConfigError(
            f"metric {metric.name} returned {_shown(score)} on {row.name}; expected a Score with a value "
            "in [0, 1]"
        )
    return score


def _parts(result: Any) -> tuple[Any, Any]:
    """The score and the reason in what a function returned."""
    if isinstance(result, Mapping):
        return _first(result.get, _SCORES), _first(result.get, _REASONS)
    if isinstance(result, tuple) and len(result) == 2 and not hasattr(result, "score"):
        return result
    if any(hasattr(result, name) for name in _SCORES[:2]):  # a record, such as dspy.Prediction(score=...)
        get = lambda name: getattr(result, name, None)  # noqa: E731
        return _first(get, _SCORES), _first(get, _REASONS)
    return result, ""


def _first(get: Callable[[str], Any], names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := get(name)) is not None), None)


def _number(value: Any) -> float | None:
    """A score as a float in [0, 1]: of a number, or of an array or tensor with one element.

    What rounding takes a hair above 1 or below 0 is 1 or 0. None for anything else.
    """
    if isinstance(value, bytes):
        return None
    try:
        item = getattr(value, "item", None)
        number = float(item() if callable(item) else value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    if not -_OUTSIDE <= number <= 1 + _OUTSIDE or math.isnan(number):
        return None
    return 1.0 if number > 1 - _INSIDE else 0.0 if number < 0 else number


def _shown(result: Any) -> str:
    text = repr(result)
    return text if len(text) <= 200 else f"{text[:200]}…"
