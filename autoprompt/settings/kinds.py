"""What settings are made of: the record that refuses what it does not know, and the kinds of values.

What pydantic finds wrong becomes problems that know their setting.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from autoprompt.brief import brief_of
from autoprompt.errors import AT_COMMAS, ConfigError, Place, Problem

Loc = tuple[int | str, ...]
PlaceOf = Callable[[Loc, bool], Place]  # of a value, or of its key

_MOST_PROBLEMS = 10
_LONGEST_VALUE = 60
_LONGEST_LIST = 60
_MOST_EXPLAINED = 100  # each is looked up in the file, and gets a hint that takes a millisecond
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "path_type": "a path",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
}


class Refused(ValueError):
    """What a validator raises. The problem names a setting of its own record, or none: its value then."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def problems_of(
    error: ValidationError, model: type[BaseModel], place_of: PlaceOf, *, word: str = "setting"
) -> list[Problem]:
    """Return what was wrong with a record, each problem once; of very many the first hundred and the count.

    Args:
        error: What pydantic raised.
        model: The record that was to be read.
        place_of: Gives the place of a value at a path of names and indices, or of its key.
        word: What a name is called where it comes from: a setting, or a key.
    """
    causes = list(_causes(error))
    found = (_problem(details, model, place_of, word) for details in causes[:_MOST_EXPLAINED])
    problems = list(dict.fromkeys(found))
    if len(causes) > _MOST_EXPLAINED:
        said = f"{len(causes) - _MOST_EXPLAINED:,} more problems are not listed"
        problems.append(Problem("settings.more-problems", said, place_of((), False)))
    return problems


def first_problems(
    problems: Sequence[Problem], place: Place, most: int = _MOST_PROBLEMS
) -> tuple[Problem, ...]:
    """Return the first ones, and one that counts the others. place: Of the file that has them."""
    rest = len(problems) - most
    if rest <= 0:
        return tuple(problems)
    said = f"{rest} of {len(problems)} problems are not listed"
    return (*problems[:most], Problem("settings.more-problems", said, place))


def _causes(error: ValidationError) -> Iterator[ErrorDetails]:
    """Yield what was wrong, without a list's being too short because its entries were wrong."""
    for details in error.errors():
        if details["type"] != "too_short" or not details["input"]:
            yield details


def _problem(details: ErrorDetails, model: type[BaseModel], place_of: PlaceOf, word: str) -> Problem:
    where, kind = details["loc"], details["type"]
    refused = details.get("ctx", {}).get("error")
    if isinstance(refused, Refused):
        return _placed(refused.problem, where, place_of)
    if kind == "extra_forbidden":
        at = model_at(model, where[:-1])
        close = closest(str(where[-1]), at.model_fields if at else {}, details["input"])
        place = place_of(where, True)
        # A flag's place names the whole record alone: --metric-option.
        is_named = len(where) == 1 or str(place.setting or where[-1]).rpartition(".")[2] == str(where[-1])
        said = f"unknown {word}" + ("" if is_named else f" {where[-1]!r}")
        if str(where[-1]).endswith("api_key"):  # a file with a key is soon in a repository
            fix = "Take it out. A key comes from a variable, such as OPENAI_API_KEY."
            return Problem("settings.unknown", said, place, fix)
        fixes = [f"Did you mean {close!r}?"] if close else []
        if at and not (close and is_named):
            fixes.append(known_keys(at, word))
        return Problem("settings.unknown", said, place, " ".join(fixes) or "Take it out.")
    if kind == "missing":
        return Problem("settings.missing", "no value, expected one", place_of(where, False), "Add it.")
    if kind == "value_error":
        said = details["msg"].removeprefix("Value error, ").removesuffix(".")
        said = said[:1].lower() + said[1:] if said[1:2].islower() else said  # not "hTTP"
        return Problem("settings.bad-value", said, place_of(where, False))
    return _bad_value(details, model, place_of)


def _placed(problem: Problem, where: Loc, place_of: PlaceOf) -> Problem:
    """Return the problem of a validator with the places of the settings that it names."""

    def placed(place: Place) -> Place:
        return place_of(where if place.setting is None else (*where, place.setting), False)

    related = tuple(placed(place) for place in problem.related)
    return replace(problem, place=placed(problem.place), related=related)


def _bad_value(details: ErrorDetails, model: type[BaseModel], place_of: PlaceOf) -> Problem:
    where, kind, found = details["loc"], details["type"], details["input"]
    expected, fix, settings = details["msg"], "", dict[str, object]()
    if kind in _EXPECTED:
        expected = f"expected {_EXPECTED[kind].format(**details.get('ctx', {}))}"
    at = model_at(model, where)
    if kind in ("tuple_type", "list_type"):
        expected = "expected a list" + (f" of entries with {', '.join(at.model_fields)}" if at else "")
        if at is None and isinstance(found, str | int | float):
            name = str(where[-1])
            is_split = name in AT_COMMAS and isinstance(found, str)
            parts = [part.strip() for part in str(found).split(",")] if is_split else [found]
            is_short = len(str(parts)) <= _LONGEST_LIST
            fix, settings = f"Write {{{name}}}.", {name: parts if is_short else "<[...]>"}
    elif kind in ("dict_type", "model_type"):
        expected = "expected keys with values below it"
        fix = known_keys(at) if at else "Write KEY: VALUE."
    elif kind == "path_type" and isinstance(found, list | tuple) and where[-1] == "dataset":
        fix = "Pass rows to the function that takes the settings: optimize(config, rows=[...])."
    elif kind == "string_type" and isinstance(found, bool | int | float):
        fix = f'Put it in quotes: "{str(found).lower()}".'
    shown = repr(found) if len(repr(found)) <= _LONGEST_VALUE else repr(found)[: _LONGEST_VALUE - 1] + "…"
    said = f"{expected[:1].lower()}{expected[1:]}, found {shown}"
    return Problem("settings.bad-value", said, place_of(where, False), fix, settings)


def closest(name: str, fields: Mapping[str, FieldInfo], value: object) -> str | None:
    """Return the field that is meant by a misspelt name or its beginning: `targt` is target_field.

    Args:
        name: As it was written.
        fields: The known ones.
        value: What it was given. True and False are meant for a switch: `memory: false` is no_memory, and
            `memory: FILE` is memory_file.
    """
    switches = [known for known, field in fields.items() if field.annotation is bool]
    others = [known for known in fields if known not in switches]
    ordered = (switches, others) if isinstance(value, bool) else (others, switches)
    return next(filter(None, (_closest(name, names) for names in ordered)), None)


def _closest(name: str, names: Sequence[str]) -> str | None:
    heads = {one.partition("_")[0]: one for one in reversed(names)}
    close = get_close_matches(name, names, n=1)
    return close[0] if close else next((heads[one] for one in get_close_matches(name, heads, n=1)), None)


def known_keys(model: type[BaseModel], word: str = "key") -> str:
    """Return a sentence with the names that a record has."""
    return f"Known {word}s: {', '.join(model.model_fields)}."


def model_at(model: type[BaseModel], where: Sequence[int | str]) -> type[BaseModel] | None:
    """Return the record at a path of names and indices within another one; None if there is none."""
    at: type[BaseModel] | None = model
    for step in where:
        if isinstance(step, int):
            continue
        if at is None or step not in at.model_fields:
            return None
        at = model_in(at.model_fields[step].annotation)
    return at


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the record in a type such as `tuple[Record, ...] | None`; None if it has none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := model_in(part))), None)


def label_text(value: Any) -> Any:
    """Labels are compared with the text of the rows: `labels: [0, 1]` means "0" and "1"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def metric_name(value: Any) -> Any:
    """Return a function as a metric, by its name: a run that is resumed tomorrow must find it again."""
    if not callable(value):
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or getattr(sys.modules.get(module), name, None) is not value:
        shown = name or type(value).__name__
        said = f"{shown} has no name in a module, so a resumed run could not find it"
        fix = "Write a def at the top of a module, and put its options into {metric_options}."
        raise Refused(Problem("settings.nameless-metric", said, fix=fix, settings={"metric_options": None}))
    return f"python:{module}:{name}"


def traffic_name(value: Any) -> Any:
    """Refuse what is neither `cold`, nor `warm`, nor a number of calls per hour; see `llm.prices.Traffic`."""
    text = str(value).strip()
    try:
        is_known = text in ("cold", "warm") or 0 <= float(text) < math.inf
    except ValueError:
        is_known = False
    if not is_known or isinstance(value, bool):
        said = f"expected cold, warm or a number of calls per hour, found {text!r:.60}"
        raise Refused(Problem("settings.bad-value", said))
    return text


def at_once(value: Any) -> Any:
    """Refuse what is neither `auto` nor a number of requests."""
    text = str(value).strip()
    if text == "auto":
        return text
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        said = f"expected auto or a whole number from 1 on, found {value!r:.60}"
        raise Refused(Problem("settings.bad-value", said))
    return int(text)


def not_empty(value: Any) -> Any:
    """Refuse an empty text: it is a mistake, such as a shell variable that is not set, and not the default.

    As a path it is the working directory, and as an address or a model it was OpenAI's.
    """
    if isinstance(value, str) and not value.strip():
        raise Refused(EMPTY)
    return value


EMPTY = Problem("settings.empty-value", "the value is empty", fix="Give a value, or leave the setting out.")


def host(value: str) -> str:
    """Return a host as a URL has it, maybe with a port."""
    if not re.fullmatch(r"[^\s/@?#*]+", value):
        raise ValueError("expected HOST or HOST:PORT, e.g. localhost:8000")
    return value


EMPTY_PROMPT = Problem(
    "prompt.empty", "the prompt is empty", fix="Give its text, or `@` and the path of a file with it."
)


def not_blank(value: str) -> str:
    """Return a prompt as it is, if it says anything."""
    if not value.strip():
        raise Refused(EMPTY_PROMPT)
    return value


Host = Annotated[str, AfterValidator(host)]
Label = Annotated[str, BeforeValidator(label_text)]
FilePath = Annotated[Path, BeforeValidator(not_empty)]
Name = Annotated[str, BeforeValidator(not_empty)]
PromptText = Annotated[str, AfterValidator(not_blank)]
Address = Annotated[str, BeforeValidator(not_empty), AfterValidator(str.strip)]
Positive = Annotated[int, Field(gt=0)]
AtOnce = Annotated[Positive | Literal["auto"], BeforeValidator(at_once)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Panel(StrEnum):
    """The groups of settings, in the order of `--help` and docs/reference/settings.md."""

    START = "Start here"
    PROGRAM = "Programs and workflows"
    BUDGET = "Budget"
    DATA = "Data and scoring"
    MODELS = "Models"
    SEARCH = "Search"
    GATE = "Gate"
    EXPERIMENTS = "Experiments"
    OUTPUT = "Output"


def setting(default: Any, description: str, panel: Panel, *, shown: str = "") -> Any:
    """Return the pydantic field of a setting.

    Args:
        default: What it is if no source gives it.
        description: Its help text: a phrase that begins with a verb or a noun, without the default.
        panel: Where `--help` and docs/reference/settings.md list it.
        shown: The default in words, if the value does not tell it: `120; 600 for local models`.
    """
    return Field(default=default, description=description, json_schema_extra={"panel": panel, "shown": shown})


def panel_of(field: FieldInfo) -> Panel:
    """Return the panel of a setting."""
    return Panel(_extra(field)["panel"])


def shown_default(field: FieldInfo) -> str:
    """Return the default of a setting in words; "" if there is none, as with a switch that is off."""
    if shown := _extra(field)["shown"]:
        return str(shown)
    default = field.get_default(call_default_factory=True)
    return "" if default is None or default is False or default in ((), {}, "") else str(default)


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "not a field of `setting`"
    return extra


class Settings(BaseModel):
    """A record of settings: frozen, and a name that it does not know is an error.

    In Python a wrong setting raises ConfigError. Who reads settings from elsewhere uses `model_validate`,
    which raises pydantic's own error, and tells the place of each with `problems_of`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ConfigError(*problems_of(error, type(self), _argument)) from None

        __init__.__pydantic_base_init__ = True  # `model_validate` does not call it

        def __setattr__(self, name: str, value: Any) -> None:
            try:
                super().__setattr__(name, value)
            except ValidationError as error:
                raise ConfigError(*problems_of(error, type(self), _argument)) from None

    def __repr__(self) -> str:
        """Return the settings that were given."""
        named = (name for name in type(self).model_fields if name in self.model_fields_set)
        return brief_of(self, ((name, getattr(self, name)) for name in named))

    __str__ = __repr__

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and _is_number(cls.model_fields[info.field_name or ""].annotation):
            raise Refused(Problem("settings.bad-value", "expected a number, not true or false"))
        return value


def _argument(where: Loc, _: bool) -> Place:
    return Place(setting=".".join(map(str, where)) or None)


def _is_number(annotation: Any) -> bool:
    """Return whether a setting is a number, or may be left out: Python's `True` would be taken for 1."""
    if get_origin(annotation) in (dict, tuple):
        return False
    return annotation in (int, float) or any(map(_is_number, get_args(annotation)))
