"""Metrics by name, and whether one can compare with the targets of a dataset."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprompt.dataset.faults import Faults, file_place
from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.llm.client import CallRole, Client
from autoprompt.metrics.arguments import plan_call
from autoprompt.metrics.base import Doubt, Metric, TextMetric, bad_option, short
from autoprompt.metrics.judge import LLMJudge
from autoprompt.metrics.python_metric import python_metric
from autoprompt.metrics.user_code import find_function
from autoprompt.records import Example
from autoprompt.settings.records import JUDGED, LABEL_SET, DataSettings, RunConfig
from autoprompt.text.names import counted, listed

_SHOWN, _MOST_SHOWN = 60, 3  # characters of a target in a warning, targets in it
_CONTEXT = ("labels", "known", "client", "name")  # given by `get_metric`, never options of a user

Factory = Callable[..., Metric]
_FACTORIES: dict[str, Factory] = {}


def metric(name: str) -> Callable[[Factory], Factory]:
    """Register a metric under a name, for `metric=NAME` and `--metric NAME` in this process.

    Args:
        name: A name that is registered already gets the new metric.

    Returns:
        A decorator of the factory, which returns a `Metric`. The factory's keyword parameters are the options
        in `metric_options`. It must have `labels`: the only answers allowed, or (). If it has `client`, it
        gets the judge's.

    Examples:
        >>> import autoprompt
        >>> from autoprompt.metrics import Metric, get_metric
        >>> @autoprompt.metric("has_word")
        ... def has_word(labels: tuple[str, ...] = (), word: str = "yes") -> Metric:
        ...     return get_metric("contains")
    """

    def add(factory: Factory) -> Factory:
        _FACTORIES[name] = factory
        return factory

    return add


def known_metrics() -> tuple[str, ...]:
    """Return the names in alphabetical order, then the form of a name for a function of the user."""
    return (*sorted(_FACTORIES), "python:module:function")


def check_name(name: str) -> None:
    """Check that a metric exists. A function of the user is not imported yet.

    Raises:
        ConfigError: If no metric has this name.
    """
    if name in _FACTORIES or name.startswith("python:"):
        return
    close = difflib.get_close_matches(name, known_metrics(), n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    fix = f"{hint}Known: {', '.join(known_metrics())}"
    raise ConfigError(Problem("metric.unknown", f"unknown metric {name!r}", Place(setting="metric"), fix))


def needs_target(config: DataSettings) -> bool:
    """Return whether the metric of these settings needs a target in each row.

    A function of the user needs one if it has a parameter for it. One that takes the whole row is asked for
    it when it reads the target (see `RowWithoutTarget`).

    Raises:
        ConfigError: For a function of the user that cannot be imported or called.
    """
    name = config.metric
    if name.startswith("python:"):
        return plan_call(name, find_function(name), config.metric_options).needs_target
    if name == JUDGED or (name == "regex" and "pattern" in config.metric_options):
        return False
    return bool(getattr(_FACTORIES.get(name), "needs_target", True))


def run_metric(
    config: RunConfig,
    labels: Sequence[str],
    client: Callable[[CallRole], Client],
    rows: Iterable[Example],
) -> Metric:
    """Return the metric of a run's settings.

    labels: the only answers of the task; () for free answers. client: gives the model of a role; asked for
    the judge's only if the metric needs one. rows: all rows of the run.
    """
    judge = client("judge") if config.metric == JUDGED else None
    if config.metric == LABEL_SET:
        labels = config.labels or ()
    metric = get_metric(config.metric, config.metric_options, judge=judge, labels=labels)
    if not isinstance(metric, TextMetric):
        return metric
    return metric.for_run((row.target_text for row in rows), config.target_field)


def get_metric(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    judge: Client | None = None,
    labels: Sequence[str] = (),
) -> Metric:
    """Return the metric of this name.

    Args:
        name: A name of `known_metrics`, or `python:module:function`.
        options: The metric's own options, such as `tolerance` of `numeric`.
        judge: The model behind `llm_judge`.
        labels: The only answers allowed. If there are any, an answer is read as one of them.

    Raises:
        ConfigError: If the name is unknown, an option is wrong, or `llm_judge` has no judge.
    """
    given = dict(options or {})
    check_name(name)
    if name.startswith("python:"):
        return python_metric(name, given, tuple(labels))
    factory = _FACTORIES[name]
    parameters = inspect.signature(factory).parameters
    allowed = [p for p in parameters if p not in _CONTEXT]
    for option in given:
        if option not in allowed:
            takes = f"Its options: {', '.join(allowed)}." if allowed else "Remove it."
            raise bad_option(name, option, "unknown option", takes)
    if "client" in parameters:
        if judge is None:
            said, fix = f"metric {name} needs a judge model", "Give {judge_model}."
            raise ConfigError(Problem("metric.no-judge", said, fix=fix, settings={"judge_model": "<MODEL>"}))
        given["client"] = judge
    for option in allowed:
        if parameters[option].default is inspect.Parameter.empty and option not in given:
            said, settings = f"metric {name} needs the option {option!r}", {"metric_options": {option: "..."}}
            raise ConfigError(
                Problem("metric.missing-option", said, fix="Give {metric_options}.", settings=settings)
            )
    return factory(labels=tuple(labels), **given)


def check_targets(metric: Metric, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
    """Check that the metric can compare answers with every target. A metric of the user is not checked.

    Args:
        metric: The metric of the run.
        rows: The rows of each file.

    Returns:
        Warnings about targets that it compares in part, or may misread.

    Raises:
        DatasetError: If it cannot compare an answer with a target.
        ConfigError: If an option fits no target.
    """
    if not isinstance(metric, TextMetric):
        return []
    for path, examples in rows.items():
        faults = Faults(path)
        for example in examples:
            if fault := metric.target_fault(example.target_text):
                faults.add_row(example, Problem("metric.target", fault))
        faults.raise_if_any()
    if fault := metric.options_fault(row.target_text for examples in rows.values() for row in examples):
        raise ConfigError(
            Problem("metric.options", f"metric {metric.name} has an option that fits no target: {fault}")
        )
    doubt = metric.doubt(row.target_text for examples in rows.values() for row in examples)
    return [
        warning
        for path, examples in rows.items()
        for warning in (*_passed_over(metric, path, examples), *_doubtful(doubt, path, examples))
    ]


def _passed_over(metric: TextMetric, path: Path, examples: Sequence[Example]) -> list[Problem]:
    """Return one warning for each thing that the metric ignores in targets, with the first of them."""
    rows: dict[str, list[Example]] = {}
    for example in examples:
        if said := metric.passed_over(example.target_text):
            rows.setdefault(said, []).append(example)
    fix = f"Leave only what metric {metric.name} compares, or choose another metric."
    return [
        Problem(
            "metric.target-in-part",
            f"{_targets(len(found))} with {said}: "
            + listed([short(row.target_text, _SHOWN) for row in found], _MOST_SHOWN),
            file_place(path),
            fix,
            related=tuple(row.place for row in found[:_MOST_SHOWN]),
        )
        for said, found in rows.items()
    ]


def _doubtful(doubt: Doubt | None, path: Path, examples: Sequence[Example]) -> list[Problem]:
    """Return a warning of targets that may be meant otherwise, with how the first of them are read."""
    found = [row for row in examples if doubt and row.target_text in doubt.readings]
    if not doubt or not found:
        return []
    shown = [f"{short(row.target_text, _SHOWN)} as {doubt.readings[row.target_text]}" for row in found]
    said = f"{_targets(len(found))} with {doubt.said}: {listed(shown, _MOST_SHOWN)}"
    places = tuple(row.place for row in found[:_MOST_SHOWN])
    return [Problem("metric.target-in-doubt", said, file_place(path), f"{doubt.advice}.", related=places)]


def _targets(count: int) -> str:
    return counted(count, "target")


@metric(JUDGED)
def _llm_judge(client: Client, rubric: str, labels: tuple[str, ...] = ()) -> Metric:
    if not isinstance(rubric, str):
        raise bad_option(JUDGED, "rubric", f"expected a text, found {rubric!r}")
    return LLMJudge(client, rubric, labels=labels)
