"""Kinds of numbers, and events as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
)

from autoprompt.errors import Problem

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """Make a class an immutable dataclass that is cheap to create. For what each row or request creates.

    Type checkers refuse to change an instance; nothing does at run time. A class with `frozen=True` would
    refuse there, too, but its `__init__` sets each field by `object.__setattr__`: 2.4 microseconds for 13
    fields instead of 0.2, and a row creates about twenty records.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)


class Range(NamedTuple):
    """The values that a number can have, for the schemas. Nothing checks it: a mean may be 1 + 2e-16."""

    least: float
    most: float | None = None


Share = Annotated[float, Range(0, 1)]  # a score or a probability
Mean = Annotated[float, Range(0)]  # of scores; with weights of rows it can be above 1
Difference = Annotated[float, Range(-1, 1)]  # of two scores
Count = Annotated[int, Range(0)]
Seconds = Annotated[float, Range(0)]
Part = Literal["train", "val", "test"]  # of a dataset
ExportFormat = Literal["text", "yaml", "langchain", "openai"]  # of a prompt
EXPORT_FORMATS: tuple[str, ...] = get_args(ExportFormat)
Event = dict[str, Any]  # a step of a run as plain data; its kind is under "event"
OnEvent = Callable[[Event], None]


class RunEvent:
    """Something that happened in a run. kind: the value of the key `event` in its JSON."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_dict(self) -> Event:
        """Return it as a line of `events.jsonl` has it; `runs.events.read_event` reads it."""
        return {"event": self.kind} | plain(self)


def plain(record: Any) -> dict[str, Any]:
    """Return the fields of a record as JSON; its parts by their `to_dict`, if they have one."""
    return {part.name: _plain(getattr(record, part.name)) for part in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if hasattr(value, "to_dict") and not isinstance(value, RunEvent):  # a part is no event of its own
        return value.to_dict()
    return plain(value) if is_dataclass(value) else value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a record, made when it is first needed: making one takes milliseconds."""
    from pydantic import TypeAdapter  # not for the rows of a sandbox

    return TypeAdapter(kind)


def validated(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return a record of `kind` with the values of `data`, as `plain` gave them.

    Raises:
        ValueError: If one is not of its type.
    """
    record: T = _adapter(cast("Any", kind)).validate_python(data)
    return record


def warning_event(problem: Problem | str, **more: Any) -> Event:
    """Return the event of a warning. more: further keys, such as `about`."""
    if isinstance(problem, str):
        problem = Problem.plain(problem)
    return {"event": "warning", **more, **problem.to_dict()}
