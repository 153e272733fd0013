"""A function of the user as a metric."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoprompt.errors import ConfigError, Problem
from autoprompt.metrics.arguments import Call, NoTargetError, Trace, plan_call
from autoprompt.metrics.base import Metric, TextMetric, one_line, short
from autoprompt.metrics.user_code import code_digests, find_function, with_line
from autoprompt.records import Example, Prediction, Score
from autoprompt.text.answers.texts import visible
from autoprompt.text.names import counted

_SCORES, _REASONS = ("score", "value", "pass"), ("reason", "feedback", "comment", "rationale", "explanation")
_MOST_TRIED = 5  # rows that a metric is tried with
_OUTSIDE, _INSIDE = 1e-3, 1e-6  # how far rounding takes a 1 or a 0: float16 above it, float32 below it
_FIX = "Call it with this row by itself, and fix it."


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

    def read(self, text: str) -> str | None:
        found = super().read(text)
        return visible(text) if found is None and self.call.takes_trace else found

    def score(self, prediction: Prediction, example: Example) -> Score:
        answer = prediction.value
        if answer is None and prediction.returned is not None:
            answer = prediction.text
        if answer is None:
            return self._unparsed(prediction.text)
        return self._scored(answer, example, Trace.of(prediction))

    def _compare(self, answer: str, example: Example) -> Score:
        return self._scored(answer, example, Trace(answer))

    def _scored(self, answer: str, example: Example, trace: Trace) -> Score:
        given, keywords = self.call.values(answer, example, self.target_field, trace)
        try:
            result = self.function(*given, **keywords, **self.options)
        except AssertionError as error:
            said = str(error) or _asserted(error)
            return Score(0.0, said, feedback=said)
        except NoTargetError as error:
            said = f"metric {self.name} reads the target, and {example.name} has none"
            fix = "Name the field of the targets as {target_field}, or do not read it."
            settings = {"target_field": "<FIELD>"}
            raise ConfigError(Problem("metric.no-target", said, fix=fix, settings=settings)) from error
        except (Exception, SystemExit) as error:
            fix = _FIX
            if isinstance(error, AttributeError) and error.obj is example and error.name in example.fields:
                fix = f"Read a field of the row as example.fields[{error.name!r}]."
            raise _failed(self, example, error, fix) from error
        found, said = _parts(result)
        value = _number(found)
        if value is None:
            said = f"metric {self.name} returned {_shown(result)} on {example.name}"
            fix = "Return a number in [0, 1], (score, reason), or {'score': ..., 'reason': ...}."
            raise ConfigError(Problem("metric.bad-score", said, fix=fix))
        wrong = "" if value == 1 else f"answered {short(answer)}"
        if wrong and example.has_target:
            wrong += f", expected {short(example.target_text)}"
        return Score(value, str(said or wrong), feedback=str(said or ""))


def _failed(metric: Metric, row: Example, error: BaseException, fix: str) -> ConfigError:
    said = f"metric {metric.name} failed on {row.name}: {with_line(error)}"
    return ConfigError(Problem("metric.failed", said, fix=fix))


def _asserted(error: AssertionError) -> str:
    """Return the line of an assertion that says nothing itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"not so: {frames[-1].line}" if frames and frames[-1].line else "an assertion failed"


def python_metric(name: str, options: dict[str, Any], labels: tuple[str, ...]) -> Metric:
    """Return the metric that `python:module:function` names."""
    function = find_function(name)
    call = plan_call(name, function, options)
    code_digests(name)  # now: a file that is edited later is not what this process scores with
    return PythonMetric(labels, function=function, call=call, options=options, name=name)


def try_metric(metric: Metric, rows: Iterable[Example]) -> list[Problem]:
    """Call a metric of the user with a row's own target as the answer, before any answer is paid.

    The first row is tried; if its target does not score 1, those of the next rows with other targets too.

    Returns:
        A warning of the first target that does not score 1, with the places of the others.

    Raises:
        ConfigError: If the metric fails, returns no score, or gives 0 to every target that it is handed.
    """
    if isinstance(metric, PythonMetric):
        if metric.call.takes_trace:  # of which a target has none
            return []
        rows = list(rows)
        if lacking := next((row for row in rows if not row.has_target), None):
            _check_reads_no_target(metric, lacking)
        score: Callable[[Example], Score] = lambda row: metric.score(  # noqa: E731
            Prediction(row.target_text, row.target_text), row
        )
    elif type(metric).__module__.split(".")[0] != __name__.split(".")[0]:
        score = lambda row: _tried(metric, row)  # noqa: E731
    else:
        return []
    found: list[tuple[Example, Score]] = []
    for row in _with_other_targets(row for row in rows if row.has_target):
        found.append((row, score(row)))
        if found[0][1].is_correct:
            return []
    if not found:
        return []
    if isinstance(metric, PythonMetric) and len(found) > 1 and not metric.call.takes_named_row:
        _raise_if_all_zero(metric, found)
    wrong = [(row, score) for row, score in found if not score.is_correct]
    first = wrong[0][1]
    said = (
        f"metric {metric.name} scores {first.value:g} for this row's own target"
        f"{first.feedback and f' ({one_line(first.feedback)})'}"
    )
    place, *others = [row.place for row, _ in wrong]
    fix = "Check what it compares the answer with."
    return [Problem("metric.own-target", said, place, fix, also=tuple(others))]


def _check_reads_no_target(metric: PythonMetric, row: Example) -> None:
    """Raise ConfigError if the metric reads the target of a row without one. It gets an empty answer."""
    try:
        metric.score(Prediction("", ""), row)
    except ConfigError as error:
        if any(problem.code == "metric.no-target" for problem in error.problems):
            raise


def _raise_if_all_zero(metric: PythonMetric, found: Sequence[tuple[Example, Score]]) -> None:
    """Raise ConfigError if no row's own target scores more than 0: every answer would be wrong."""
    if any(score.value for _, score in found):
        return
    said = (
        f"metric {metric.name} scores 0 for the own targets of {counted(len(found), 'row')}. "
        f"It was called with {metric.call.shown}"
    )
    fix = (
        "Compare the answer with the target, or rename its parameters: prediction, target, input, example. "
        "If your targets are no right answers, take the row: f(prediction, example)."
    )
    places = [row.place for row, _ in found]
    raise ConfigError(Problem("metric.own-targets", said, places[0], fix, also=tuple(places[1:])))


def _with_other_targets(rows: Iterable[Example]) -> Iterator[Example]:
    """Yield the first rows of which each has another target."""
    seen: set[str] = set()
    for row in rows:
        if row.target_text not in seen:
            seen.add(row.target_text)
            yield row
        if len(seen) == _MOST_TRIED:
            return


def _tried(metric: Metric, row: Example) -> Score:
    """Return what a registered metric says of a row's own target."""
    try:
        read = metric.read(row.target_text)
        score = metric.score(Prediction(row.target_text, read), row)
    except (Exception, SystemExit) as error:
        raise _failed(metric, row, error, _FIX) from error
    if not isinstance(score, Score) or _number(score.value) is None:
        said = f"metric {metric.name} returned {_shown(score)} on {row.name}"
        fix = "Return a Score with a value in [0, 1]."
        raise ConfigError(Problem("metric.bad-score", said, fix=fix))
    return score


def _parts(result: Any) -> tuple[Any, Any]:
    """Return the score and the reason in what a function returned."""
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
    """Return a score as a float in [0, 1]: of a number, or of an array or tensor with one element.

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
