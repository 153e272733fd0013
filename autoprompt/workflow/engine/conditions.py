"""The comparison operators of Dify's branches and loops, over plain values.

Where Dify refuses a comparison of kinds (a number with `is`, a text with `=`), this compares when the two
sides can be brought to one kind and refuses otherwise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from autoprompt.errors import InputError

LogicalOperator = Literal["and", "or"]

# Other spellings that people and older exports use.
_ALIASES = {
    "==": "=",
    "!=": "≠",
    "<>": "≠",
    ">=": "≥",
    "<=": "≤",
    "starts with": "start with",
    "ends with": "end with",
    "is empty": "empty",
    "is not empty": "not empty",
    "is null": "null",
    "is not null": "not null",
    "not exist": "not exists",
}


class ComparisonError(InputError):
    """Two values that an operator cannot compare."""


def compare(operator: str, actual: Any, expected: Any = None) -> bool:
    """Whether `actual operator expected` holds.

    actual: the variable's value, None where its node did not run. expected: the value of the condition, a
    text mostly; it is read as a number, a truth value or a list where `actual` or the operator asks for one.
    Raises ComparisonError for values that cannot be compared so, and for an operator that is none.
    """
    name = canonical_operator(operator)
    if name is None:
        raise ComparisonError(f"operator {operator!r} is not known. Known operators: {', '.join(OPERATORS)}.")
    return _OPERATIONS[name](actual, expected)


def canonical_operator(operator: str) -> str | None:
    """Dify's spelling of an operator, None for one that is not known."""
    name = operator.strip().lower()
    name = _ALIASES.get(name, name)
    return name if name in _OPERATIONS else None


def combine(results: Sequence[bool], operator: LogicalOperator) -> bool:
    """All of them or any of them. No condition at all does not hold: an empty case is never taken."""
    if not results:
        return False
    return all(results) if operator == "and" else any(results)


def as_number(value: Any) -> int | float:
    """A number, or a text that is one, which "nan" and "inf" are not here. Raises ComparisonError."""
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        raise ComparisonError(f"{_shown(value)} is no number")
    if isinstance(value, int | float):
        return value
    try:
        number = int(value) if str(value).strip().lstrip("+-").isdecimal() else float(str(value))
    except ValueError as error:
        raise ComparisonError(f"{_shown(value)} is no number") from error
    if not math.isfinite(number):
        raise ComparisonError(f"{_shown(value)} is no number")
    return number


def as_bool(value: Any) -> bool:
    """A truth value, or a text or number that stands for one. Raises ComparisonError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value)
    text = str(value).strip().lower()
    if text in ("true", "1"):
        return True
    if text in ("false", "0", ""):
        return False
    raise ComparisonError(f"{_shown(value)} is neither true nor false")


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str):
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, list):
            return read
        return [part.strip() for part in value.split(",")]
    raise ComparisonError(f"{_shown(value)} is no list")


def _contains(actual: Any, expected: Any) -> bool:
    if actual is None or actual in ("", [], {}):
        return False
    if isinstance(actual, str):
        return str(expected) in actual
    if isinstance(actual, dict):
        return str(expected) in actual
    if isinstance(actual, list):
        return any(_equal(item, expected) for item in actual)
    raise ComparisonError(f"'contains' asks for a text or a list, found {_shown(actual)}")


def _equal(actual: Any, expected: Any) -> bool:
    """Equal after `expected`, a text mostly, was brought to the kind of `actual`."""
    if isinstance(actual, bool):
        return actual == as_bool(expected)
    if isinstance(actual, int | float):
        try:
            return actual == as_number(expected)
        except ComparisonError:
            return False
    if isinstance(actual, str):
        return actual == (expected if isinstance(expected, str) else _text(expected))
    if isinstance(actual, list | dict) and isinstance(expected, str):
        try:
            return bool(actual == json.loads(expected))
        except (ValueError, RecursionError):
            return False
    return bool(actual == expected)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _text_of(actual: Any, operator: str) -> str:
    if not isinstance(actual, str):
        raise ComparisonError(f"{operator!r} asks for a text, found {_shown(actual)}")
    return actual


def _is(actual: Any, expected: Any) -> bool:
    return actual is not None and _equal(actual, expected)


def _is_not(actual: Any, expected: Any) -> bool:
    return actual is not None and not _equal(actual, expected)


def _numeric(actual: Any, expected: Any) -> tuple[float, float]:
    if isinstance(actual, bool):
        return float(actual), float(as_bool(expected))
    return as_number(actual), as_number(expected)


def _ordered(holds: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    # An absent value is in no order with any number, as in Dify.
    return lambda actual, expected: actual is not None and holds(*_numeric(actual, expected))


def _in(actual: Any, expected: Any) -> bool:
    return any(_equal(actual, item) for item in _as_list(expected))


def _all_of(actual: Any, expected: Any) -> bool:
    return bool(actual) and all(_contains(actual, item) for item in _as_list(expected))


_OPERATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "contains": _contains,
    "not contains": lambda actual, expected: not _contains(actual, expected),
    "start with": lambda actual, expected: (
        bool(actual) and _text_of(actual, "start with").startswith(_text(expected))
    ),
    "end with": lambda actual, expected: (
        bool(actual) and _text_of(actual, "end with").endswith(_text(expected))
    ),
    "is": _is,
    "is not": _is_not,
    "empty": lambda actual, _: not actual,
    "not empty": lambda actual, _: bool(actual),
    "in": lambda actual, expected: bool(actual) and _in(actual, expected),
    "not in": lambda actual, expected: not actual or not _in(actual, expected),
    "all of": _all_of,
    "=": _ordered(lambda actual, expected: actual == expected),
    "≠": _ordered(lambda actual, expected: actual != expected),
    ">": _ordered(lambda actual, expected: actual > expected),
    "<": _ordered(lambda actual, expected: actual < expected),
    "≥": _ordered(lambda actual, expected: actual >= expected),
    "≤": _ordered(lambda actual, expected: actual <= expected),
    "null": lambda actual, _: actual is None,
    "not null": lambda actual, _: actual is not None,
    "exists": lambda actual, _: actual is not None,
    "not exists": lambda actual, _: actual is None,
}
OPERATORS = tuple(_OPERATIONS)
UNARY_OPERATORS = frozenset({"empty", "not empty", "null", "not null", "exists", "not exists"})


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
