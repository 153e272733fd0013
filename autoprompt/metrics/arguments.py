"""What a user's metric is called with: each parameter gets what its name says.

`f(prediction, example)` gets the answer as text and the row, `f(prediction, target)` the target, and
`f(prediction, example, trace)` how the row was answered. Functions
written for other programs get what they expect there: DSPy's `f(example, pred, trace=None)` objects with the
fields as attributes, MLflow's `f(inputs, outputs, expectations)` and LangSmith's
`f(inputs, outputs, reference_outputs)` dicts, promptfoo's `f(output, context)` a dict with the row as `vars`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex

from autoprompt.errors import ConfigError, Problem
from autoprompt.records import Example, Prediction, Step
from autoprompt.text.files import json_value
from autoprompt.text.names import named

Role = Literal["answer", "target", "row", "input", "inputs", "expectations", "context", "trace", "unused"]

_NAMES: Mapping[Role, str] = {
    "answer": "prediction pred predicted y_pred answer output outputs response completion generated"
    " solution_str model_output model_answer actual_output generated_text generation hypothesis candidate",
    "target": "target expected gold reference label truth ground_truth y_true expected_output expected_answer"
    " correct_answer reference_answer reference_output gold_answer gold_label gt ideal",
    "row": "example row",
    "input": "input question query",
    "inputs": "inputs",
    "expectations": "expectations reference_outputs",
    "unused": "trace pred_name pred_trace",
}
ROLES: Mapping[str, Role] = {name: role for role, names in _NAMES.items() for name in names.split()}
# Names by which programs ask for the answer, whatever the target's field is called.
_GENERIC = (*_NAMES["answer"].split(), "label", "result", "target", "text")
_TARGETS = ("target", "expectations")
_FORMS = "f(prediction, example), f(prediction, target) or f(example, pred, trace=None)"


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool that a model asked for. arguments: a dict; the text if the model wrote no JSON."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Trace:
    """How a row was answered, for a metric `f(prediction, example, trace)`.

    output: what the program returned, as JSON data; of a text the answer. steps: its calls to models, or a
    workflow's nodes, in the order in which they ended. tool_calls: tools that its models asked for, in order.
    """

    output: Any = None
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, prediction: Prediction) -> Trace:
        given = (prediction.returned, prediction.output, prediction.text)
        return cls(next(value for value in given if value is not None), prediction.trace)

    @property
    def tool_calls(self) -> tuple[CalledTool, ...]:
        calls = (call for step in self.steps for call in step.tool_calls)
        return tuple(CalledTool(call.name, json_value(call.arguments, call.arguments)) for call in calls)


@dataclass(frozen=True)
class Call:
    """How a function is called: what each of its positional and keyword parameters gets.

    names: of the positional parameters. has_row_object: whether the row is a `Row`, as in DSPy, rather than
    an `Example`. needs_target: whether a parameter without a default gets the target.
    """

    positional: tuple[Role, ...]
    keywords: Mapping[str, Role]
    names: tuple[str, ...] = ()
    has_row_object: bool = False
    needs_target: bool = False

    @property
    def shown(self) -> str:
        """What each parameter gets, as in `prompt=input, completion=answer`."""
        parts = [*zip(self.names, self.positional, strict=True), *self.keywords.items()]
        return ", ".join(f"{name}={role}" for name, role in parts)

    @property
    def takes_named_row(self) -> bool:
        """Whether the function gets the row because it asks for it by name, and gets no target by itself."""
        roles = {*self.positional, *self.keywords.values()}
        rows = [name for name, role in zip(self.names, self.positional, strict=True) if role == "row"]
        is_named = bool(roles & {"inputs", "context"}) or any(name in ROLES for name in rows)
        return is_named and not roles & {"target", "expectations"}

    @property
    def takes_trace(self) -> bool:
        """Whether the function looks at how a row was answered, whatever the text of the answer is."""
        return "trace" in (*self.positional, *self.keywords.values())

    def values(
        self, answer: str, example: Example, target_field: str, trace: Trace
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments for an answer to a row. target_field: where the row has its target."""
        if not example.has_target and not self.has_row_object:
            example = RowWithoutTarget.of(example)
        made = _values(answer, example, target_field, trace)
        if self.has_row_object:
            row = Row(example, target_field)
            made |= {"row": row, "answer": _answer(answer, example, target_field, trace)}
            if self.positional[:2] == ("target", "answer"):  # the row is called gold
                made["target"] = row
            elif isinstance(example.target, str):
                made["target"] = Text(example.target, example.fields)
        elif {"inputs", "expectations"} & {*self.positional, *self.keywords.values()}:
            made["answer"] = _answer(answer, example, target_field, trace)
        elif self.positional[:2] == ("target", "answer"):  # f(gold, pred), of texts or of DSPy's objects
            gold = example.target
            made |= {
                "target": Text(gold, example.fields) if isinstance(gold, str) else gold,
                "answer": _answer(answer, example, target_field, trace),
            }
        return [made[role] for role in self.positional], {
            name: made[role] for name, role in self.keywords.items()
        }


def plan_call(name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> Call:
    """Return how to call a metric's function. options: the keywords that the user gives besides.

    Raises:
        ConfigError: If it cannot be called, or if no parameter gets the answer.
    """
    if inspect.iscoroutinefunction(function):
        said, fix = f"metric {name} is an async function, which returns no score", "Make it a plain `def`."
        raise ConfigError(Problem("metric.async", said, fix=fix))
    try:
        parameters = [*inspect.signature(function).parameters.values()]
        positional, keywords = _assigned(parameters, options)
        has_row = _has_row_object(parameters, positional)
        gets_target = {name for name, role in (positional | keywords).items() if role in _TARGETS}
        needed = {p.name for p in parameters if p.default is inspect.Parameter.empty}
        call = Call(
            tuple(positional.values()), keywords, tuple(positional), has_row, bool(gets_target & needed)
        )
        inspect.signature(function).bind(*call.positional, **call.keywords, **options)
    except (TypeError, ValueError) as error:
        fix = f"Define it as {_FORMS}."
        raise ConfigError(Problem("metric.parameters", f"metric {name}: {error}", fix=fix)) from error
    if "answer" not in (*positional.values(), *keywords.values()):
        known = [*positional, *keywords]
        said = f"metric {name}: no parameter gets the answer" + (
            f"; the parameters are {named(known)}" if known else ""
        )
        fix = "Give it one called 'prediction'."
        if inspect.isclass(function):
            fix += " This is a class: name a function, or an object of it."
        raise ConfigError(Problem("metric.parameters", said, fix=fix))
    return call


def _assigned(
    parameters: list[inspect.Parameter], options: Mapping[str, Any]
) -> tuple[dict[str, Role], dict[str, Role]]:
    """Positional parameters and keywords with their roles."""
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in parameters if p.kind in by_place and p.name not in options]
    asked = [p for at, p in enumerate(places) if at < 2 or p.default is inspect.Parameter.empty]
    asked = [p for p in asked if p.default is inspect.Parameter.empty or ROLES.get(p.name) != "unused"]
    roles: list[Role | None] = [ROLES.get(p.name) for p in asked]
    if "answer" not in roles and roles[:1] == ["target"] and asked[0].name == "label":
        roles[0] = "answer"  # f(label, expected) compares the label that was answered
    names = [p.name for p in asked]
    if names[:2] == ["output", "context"]:  # promptfoo's; of others `context` is the row
        roles[1] = "context"
    for at in range(1, len(roles)):
        if roles[at] == "answer" and "answer" in roles[:at]:
            roles[at] = "target"  # f(prediction, answer)
    if "answer" in roles and {"target", "row"} & {*roles}:  # f(prompt, completion, reference)
        for at in range(roles.index("answer")):
            roles[at] = roles[at] or ("input" if "input" not in roles else None)
    for role in ("answer", "row"):
        if None in roles and role not in roles:
            roles[roles.index(None)] = role
    found = {p.name: role for p, role in zip(asked, roles, strict=True) if role is not None}
    if not places and any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        found = {"prediction": "answer", "example": "row"}
    keywords = {
        p.name: ROLES[p.name]
        for p in parameters
        if p.kind is inspect.Parameter.KEYWORD_ONLY
        and p.default is inspect.Parameter.empty
        and p.name in ROLES
        and p.name not in options
    }
    # DSPy's metrics have the row first, and a trace that is None unless DSPy compiles a program.
    if next(iter(found.values()), "answer") == "answer" and "pred_name" not in found:
        for roles_by_name in (found, keywords):
            if "trace" in roles_by_name:
                roles_by_name["trace"] = "trace"
    return found, keywords


def _has_row_object(parameters: list[inspect.Parameter], positional: Mapping[str, Role]) -> bool:
    """Return whether it is written for DSPy: `trace` is a parameter, or the row comes before the answer."""
    roles = [*positional.values()]
    if "trace" in roles:
        return False
    return roles[:2] == ["row", "answer"] or any(
        p.name == "trace" for p in parameters if {"row", "target"} & {*roles}
    )


def _values(answer: str, example: Example, target_field: str, trace: Trace) -> dict[Role, Any]:
    return {
        "answer": Text(answer, {}, {"output": trace.output}),
        "trace": trace,
        "target": None if isinstance(example, RowWithoutTarget) else example.target,
        "row": example,
        "input": example.input,
        "inputs": _inputs(example, target_field),
        "expectations": {}
        if isinstance(example, RowWithoutTarget)
        else dict.fromkeys((target_field, "expected_response"), example.target),
        "context": _context(example),
        "unused": None,
    }


def _context(example: Example) -> dict[str, Any]:
    """Return what promptfoo gives to an assertion: the row's fields as `vars`, the rest empty."""
    fields = dict(example.fields)
    test = {"vars": fields, "description": "", "assert": [], "options": {}, "metadata": {}}
    empty: dict[str, Any] = {
        "prompt": "",
        "config": {},
        "provider": None,
        "providerResponse": None,
        "logProbs": None,
    }
    return {"vars": fields, "test": test, **empty}


def _inputs(example: Example, target_field: str) -> dict[str, object]:
    return {name: value for name, value in example.fields.items() if name != target_field}


class NoTargetError(Exception):
    """A metric reads the target of a row that has none."""


class RowWithoutTarget(Example):
    """A row for a metric that shall not read its target: there is none."""

    @classmethod
    def of(cls, example: Example) -> RowWithoutTarget:
        made = object.__new__(cls)
        for name in (field.name for field in dataclasses.fields(Example)):
            object.__setattr__(made, name, getattr(example, name))
        return made

    def __getattribute__(self, name: str) -> Any:
        if name in ("target", "target_text"):
            raise NoTargetError
        return super().__getattribute__(name)


class Row(Mapping[str, Any]):
    """A row whose fields are attributes and keys: `example.question`, `example["question"]`.

    `input` and `target` are there under these names too, and all fields are in `fields`.
    """

    def __init__(self, example: Example, target_field: str) -> None:
        self.fields = example.fields
        target = {"target": example.target} if example.has_target else {}
        self._values = {"input": example.input, **target, **example.fields}
        self._inputs = _inputs(example, target_field)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._values:
            return self._values[name]
        if name == "target":
            raise NoTargetError
        raise AttributeError(f"the row has no field {name!r}; the fields are {named([*self._values])}")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def inputs(self) -> Mapping[str, Any]:
        """Return the fields without the target's."""
        return self._inputs

    def toDict(self) -> dict[str, Any]:  # noqa: N802 the name that DSPy's metrics call
        return dict(self._values)


class Text(str):
    """A text with fields as attributes and keys: `pred.answer`, `outputs["answer"]`."""

    _fields: Mapping[str, Any]
    _names: Mapping[str, Any]

    def __new__(cls, text: str, fields: Mapping[str, Any], others: Mapping[str, Any] | None = None) -> Text:
        """Make a text. others: attributes that are there unless a method has that name."""
        made = super().__new__(cls, text)
        made._fields = fields
        made._names = {**(others or {}), **fields}
        return made

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._fields:
            return self._fields[name]
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._names:
            return self._names[name]
        raise AttributeError(f"the text has no field {name!r}; it has {named([*self._fields])}")

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        return self._names[key] if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._names.get(key, default)


def _answer(text: str, example: Example, target_field: str, trace: Trace) -> Text:
    """Return an answer that is itself under the name of the target's field, `answer`, `output` and the like.

    There it has the type of the target, if it can be read so. The fields of an answer in JSON, and of an
    object that a program returned, come first.
    """
    value = text if isinstance(example, RowWithoutTarget) else _typed(text, example.target)
    returned = trace.output if isinstance(trace.output, dict) else {}
    fields = {target_field: value, **_json_fields(text), **returned}
    return Text(text, fields, dict.fromkeys(_GENERIC, value))


def _typed(text: str, target: object) -> Any:
    """Return the answer as a JSON value of the target's type; as text if it is none."""
    if isinstance(target, str):
        return text
    value = json_value(text, text)
    numbers = (int, float)
    is_number = type(value) in numbers and type(target) in numbers
    return value if is_number or type(value) is type(target) else text


def _json_fields(text: str) -> dict[str, Any]:
    data = json_value(text)
    return data if isinstance(data, dict) else {}
