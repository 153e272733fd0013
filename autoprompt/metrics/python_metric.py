"""A function of the user as a metric."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from autoprompt.errors import ConfigError
from autoprompt.metrics.base import Metric, TextMetric, short
from autoprompt.records import Example, Score

_PROGRAM = "__main__"  # whichever program runs: a script, a notebook, or the command line
# Of these names, the second parameter is the expected answer; of any other, the whole row. A target that is
# compared with a row is never right: every score would be 0, and nothing would say why.
_TARGET_NAMES = ("target", "expected", "gold", "reference", "label", "truth", "ground_truth", "y_true")
# Name -> function and `code_digests`, as they were when this process first used it: what it scores with.
_digests: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {}


@dataclass(frozen=True)
class PythonMetric(TextMetric):
    """A function of the user: `function(prediction: str, example: Example, **options)`.

    takes_target: whether its second parameter is the row's target instead, for its name. It is what the file
        has: a text, a number, a list, an object.
    """

    function: Callable[..., Any] = field(kw_only=True)
    takes_target: bool = field(default=False, kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    name: str = field(kw_only=True)

    def _compare(self, answer: str, example: Example) -> Score:
        try:
            result = self.function(answer, example.target if self.takes_target else example, **self.options)
        except AssertionError as error:
            said = str(error) or _asserted(error)
            return Score(0.0, said, feedback=said)
        except Exception as error:
            raise ConfigError(
                f"metric {self.name} failed on {example.name}: {type(error).__name__}: {error}"
            ) from error
        value, said = result, ""
        if isinstance(result, Mapping):
            value, said = result.get("score"), result.get("reason") or result.get("feedback", "")
        elif isinstance(result, tuple) and len(result) == 2:
            value, said = result
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ConfigError(
                f"metric {self.name} returned {result!r} on {example.name}; expected a number in [0, 1], "
                "(score, reason), or {'score': ..., 'reason': ...}"
            )
        reason = str(
            said or ("" if value == 1 else f"answered {short(answer)}, expected {short(example.target_text)}")
        )
        return Score(float(value), reason, feedback=str(said or ""))


def _asserted(error: AssertionError) -> str:
    """The line of an assertion that says nothing itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"not so: {frames[-1].line}" if frames and frames[-1].line else "an assertion failed"


def python_metric(name: str, options: dict[str, Any], labels: tuple[str, ...]) -> Metric:
    function = _find(name)
    takes_target = _check_call(name, function, options)
    code_digests(name)  # now: a file that is edited later is not what this process scores with
    return PythonMetric(labels, function=function, takes_target=takes_target, options=options, name=name)


def code_digests(name: str) -> dict[str, str]:
    """File -> sha256 of the code behind a metric: its module, and the file that the function is from.

    Of a function of the program itself, the function alone: the rest of a script may be edited between start
    and resume. Empty for a metric that is not one's own, and where no source can be found.
    """
    if not name.startswith("python:"):
        return {}
    function = _find(name)
    known = _digests.get(name)
    if known is None or known[0] is not function:
        known = _digests[name] = (function, _read_digests(function, sys.modules[name.split(":")[1]]))
    return known[1]


def _read_digests(function: Callable[..., Any], module: ModuleType) -> dict[str, str]:
    try:
        if module.__name__ == _PROGRAM:
            code = inspect.getsource(function)
            return {inspect.getfile(function): hashlib.sha256(code.encode(errors="replace")).hexdigest()}
        files = dict.fromkeys([inspect.getsourcefile(module), _file_of(inspect.unwrap(function))])
        return {
            file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if file is not None
        }
    except (TypeError, OSError):  # compiled, or typed in
        return {}


def _file_of(function: Callable[..., Any]) -> str | None:
    """None for what is no def: an object that can be called."""
    return inspect.getsourcefile(function) if inspect.isfunction(function) else None


def _find(name: str) -> Callable[..., Any]:
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
        what = f"metric {name}: {module_name} has no function {function_name!r}"
        if module_name == _PROGRAM:
            what += ": it stands in the program that began the run. Go on from there, or move it to a module"
        raise ConfigError(what)
    return cast("Callable[..., Any]", function)


def _check_call(name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Whether the function wants the expected answer alone. Raises ConfigError where it cannot be called."""
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"metric {name} is an async def, which gives no score. Make it a plain def.")
    try:
        signature = inspect.signature(function)
        signature.bind("", None, **options)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"metric {name}: {error}; it is called as f(prediction, example, **options)"
        ) from error
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [parameter.name for parameter in signature.parameters.values() if parameter.kind in by_place]
    first, second = (*places, "", "")[:2]
    takes_target = second in _TARGET_NAMES
    # f(label, expected) compares the label that was answered.
    if first in _TARGET_NAMES and not (first == "label" and takes_target):
        raise ConfigError(
            f"metric {name}: its first parameter is called {first!r} and would get the answer, not what is "
            f"expected. Write it as f(prediction, {first})"
        )
    return takes_target
