"""What settings are made of: the record that refuses what it does not know, and the kinds of values."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

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

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.settings.faults import Loc, Refused, problems_of


def label_text(value: Any) -> Any:
    """Labels are compared with the text of the rows: `labels: [0, 1]` means "0" and "1"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def metric_name(value: Any) -> Any:
    """A function as a metric, by its name: a run that is resumed tomorrow must find it again."""
    if not callable(value):
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or getattr(sys.modules.get(module), name, None) is not value:
        shown = name or type(value).__name__
        said = f"{shown} has no name in a module, so a resumed run could not find it"
        fix = "Write a def at the top of a module, and put its options into {metric_options}."
        raise Refused(Problem("settings.nameless-metric", said, fix=fix, settings={"metric_options": None}))
    return f"python:{module}:{name}"


def given(value: Any) -> Any:
    """Refuse an empty text: it is a mistake, such as a shell variable that is not set, and not the default.

    As a path it is the working directory, and as an address or a model it was OpenAI's.
    """
    if isinstance(value, str) and not value.strip():
        raise Refused(EMPTY)
    return value


def memory_file(value: Any) -> Any:
    """Refuse a truth value: who writes `memory: false` wants no memory."""
    if value is False or value is True:
        said, fix = f"expected a path, found {str(value).lower()}", "To use no memory: {no_memory}."
        raise Refused(Problem("settings.bad-value", said, fix=fix, settings={"no_memory": True}))
    return given(value)


EMPTY = Problem("settings.empty-value", "the value is empty", fix="Give a value, or leave the setting out.")


def host(value: str) -> str:
    """Return a host as a URL has it, maybe with a port."""
    if not re.fullmatch(r"[^\s/@?#*]+", value):
        raise ValueError("expected HOST or HOST:PORT, e.g. localhost:8000")
    return value


Host = Annotated[str, AfterValidator(host)]
Label = Annotated[str, BeforeValidator(label_text)]
FilePath = Annotated[Path, BeforeValidator(given)]
MemoryPath = Annotated[Path, BeforeValidator(memory_file)]
Name = Annotated[str, BeforeValidator(given)]
Address = Annotated[str, BeforeValidator(given), AfterValidator(str.strip)]
Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Panel(StrEnum):
    """The groups of settings, in the order of `--help` and docs/config.md."""

    START = "Start here"
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
        panel: Where `--help` and docs/config.md list it.
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

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and _is_number(cls.model_fields[info.field_name or ""].annotation):
            raise Refused(Problem("settings.bad-value", "expected a number, not true or false"))
        return value


def _argument(where: Loc, _: bool) -> Place:
    return Place(setting=".".join(map(str, where)) or None)


def _is_number(annotation: Any) -> bool:
    """Whether a setting is a number, or may be left out: Python's `True` would be taken for 1."""
    if get_origin(annotation) in (dict, tuple):
        return False
    return annotation in (int, float) or any(map(_is_number, get_args(annotation)))
