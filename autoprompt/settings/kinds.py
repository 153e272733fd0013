"""What settings are made of: the record that refuses what it does not know, and the kinds of values."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

_UNKNOWN = "extra_forbidden"  # pydantic's word, which those who read YAML know it by


def label_text(value: Any) -> Any:
    """Labels are compared with the text of the rows: `labels: [0, 1]` means "0" and "1"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def metric_name(value: Any) -> Any:
    """A function as a metric, by its name: a run that goes on tomorrow must find it again."""
    if not callable(value):
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or getattr(sys.modules.get(module), name, None) is not value:
        shown = name or type(value).__name__
        raise ValueError(
            f"{shown} has no name in a module, by which a resumed run could find it. Write a def at the top "
            "of a module; its options go into metric_options"
        )
    return f"python:{module}:{name}"


def given(value: Any) -> Any:
    """An empty text is a mistake, a shell variable that is not set, say, and not the default.

    As a path it is the working directory, and as an address or a model it was OpenAI's.
    """
    if isinstance(value, str) and not value.strip():
        raise ValueError("it is empty: give a value, or leave it out")
    return value


Label = Annotated[str, BeforeValidator(label_text)]
Place = Annotated[Path, BeforeValidator(given)]
Name = Annotated[str, BeforeValidator(given)]
Address = Annotated[str, BeforeValidator(given), AfterValidator(str.strip)]
Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """A record of settings: frozen, and a name that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and _is_number(cls.model_fields[info.field_name or ""].annotation):
            raise ValueError("expected a number, not true or false")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _unknown_names_are_told_the_nearest(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            if all(details["type"] != _UNKNOWN for details in error.errors()):
                raise
            found = [_with_nearest(details, cls.model_fields) for details in error.errors()]
            raise ValidationError.from_exception_data(error.title, found) from None


def _is_number(annotation: Any) -> bool:
    """Whether a setting is a number, or may be left out: Python's `True` would be taken for 1."""
    if get_origin(annotation) in (dict, tuple):
        return False
    return annotation in (int, float) or any(map(_is_number, get_args(annotation)))


def _with_nearest(details: ErrorDetails, known: Iterable[str]) -> InitErrorDetails:
    """A fault as it is, but that of an unknown name says which is meant, or which there are."""
    kind: str | PydanticCustomError = details["type"]
    where, context = details["loc"], details.get("ctx", {})
    if kind == _UNKNOWN and len(where) == 1:
        close = get_close_matches(str(where[0]), known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
        kind = PydanticCustomError(_UNKNOWN, "{said}", {"said": f"Unknown setting. {hint}"})
    elif kind == _UNKNOWN:  # of a record in this one, which has said it
        kind = PydanticCustomError(_UNKNOWN, "{said}", {"said": details["msg"]})
    return InitErrorDetails(type=kind, loc=where, input=details["input"], ctx=context)
