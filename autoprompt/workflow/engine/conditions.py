"""When the conditions of branches and loops hold: comparisons, and conditions in one line.

Comparisons have Dify's operators. If two values are of different kinds, Dify refuses some comparisons; this
compares them if one can be brought to the kind of the other.

A condition in one line is `triage.class_name == "bug" and len(extract.items) > 2`. It is parsed, never
evaluated as Python: only what is listed here has a meaning. A name with dots, or `{{#node.variable#}}` if a
node's id is no identifier, is a variable of the workflow.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autoprompt.errors import InputError
from autoprompt.text import python_source
from autoprompt.text.files import json_value
from autoprompt.text.names import counted, cut_to
from autoprompt.workflow.engine.template import REFERENCE
from autoprompt.workflow.engine.variables import check_size, concatenated, product

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
    """Return whether `actual operator expected` holds.

    Args:
        actual: The variable's value; None if its node did not run.
        expected: The value of the condition, usually a text. It is read as a number, a truth value or a list
            if `actual` or the operator needs one.

    Raises:
        ComparisonError: The operator is unknown, or cannot compare these values.
    """
    name = canonical_operator(operator)
    if name is None:
        raise ComparisonError(f"operator {operator!r} is not known. Known operators: {', '.join(OPERATORS)}.")
    return _OPERATIONS[name](actual, expected)


def canonical_operator(operator: str) -> str | None:
    """Return Dify's spelling of an operator, None for one that is not known."""
    name = operator.strip().lower()
    name = _ALIASES.get(name, name)
    return name if name in _OPERATIONS else None


def combine(results: Sequence[bool], operator: LogicalOperator) -> bool:
    """Return whether all or any of the results hold.

    Without a condition it does not hold: an empty case is never taken.
    """
    if not results:
        return False
    return all(results) if operator == "and" else any(results)


def as_number(value: Any) -> int | float:
    """Return a number, or the number that a text holds. The texts "nan" and "inf" are not numbers here.

    Raises:
        ComparisonError: The value is not a number.
    """
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        raise ComparisonError(f"{_shown(value)} is not a number")
    if isinstance(value, int | float):
        return value
    try:
        number = int(value) if str(value).strip().lstrip("+-").isdecimal() else float(str(value))
    except ValueError as error:
        raise ComparisonError(f"{_shown(value)} is not a number") from error
    if not math.isfinite(number):
        raise ComparisonError(f"{_shown(value)} is not a number")
    return number


def as_bool(value: Any) -> bool:
    """Return a truth value, or the one that a text or a number stands for.

    Raises:
        ComparisonError: The text is neither true nor false.
    """
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
        read = json_value(value)
        return read if isinstance(read, list) else [part.strip() for part in value.split(",")]
    raise ComparisonError(f"{_shown(value)} is not a list")


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
        return bool(actual == json_value(expected))
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
    return cut_to(60, repr(value))


_MAX_LENGTH = 2000
_MAX_DIGITS = 100
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: concatenated,
    ast.Sub: operator.sub,
    ast.Mult: product,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _rounded(number: Any, digits: int = 0) -> Any:
    if abs(digits) > _MAX_DIGITS:  # `round(1, -10**9)` makes a number of so many digits
        raise ValueError(f"round to {counted(digits, 'digit')}, expected at most {_MAX_DIGITS}")
    return round(number, digits) if digits else round(number)


def _sized_text(value: Any) -> str:
    """Return the value as text, once its size is checked: TooLargeError for a value over the limit."""
    check_size(value)
    return str(value)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "sum": lambda numbers: sum(numbers),  # a second argument, a list, would take time by the square
    "abs": abs,
    "round": _rounded,
    "int": lambda value: int(value),  # digits to a base of 16 may be any number
    "float": float,
    "str": lambda value: _sized_text(value),
    "bool": bool,
    "any": any,
    "all": all,
    "lower": lambda text: _sized_text(text).lower(),
    "strip": lambda text: _sized_text(text).strip(),
    "startswith": lambda text, start: _sized_text(text).startswith(start),
    "endswith": lambda text, end: _sized_text(text).endswith(end),
}
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}

Selector = tuple[str, ...]


class ExpressionError(InputError):
    """A condition that cannot be read, or that its values make meaningless."""


@dataclass(frozen=True)
class Expression:
    """A condition that was read. `selectors`: the variables it asks for, in order of their first use."""

    text: str
    selectors: tuple[Selector, ...]
    _body: ast.expr
    _references: dict[str, Selector]

    def evaluate(self, lookup: Callable[[Selector], Any]) -> Any:
        """Return the value, with `lookup` giving that of a variable.

        Raises:
            ExpressionError: The condition cannot be computed from these values.
        """
        try:
            return _value(self._body, self._references, lookup)
        except RecursionError as error:
            raise ExpressionError(f"condition {self.text[:60]!r}: nested too deeply") from error
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise ExpressionError(f"condition {self.text!r}: {error}") from error


def parse_expression(text: str) -> Expression:
    """Read a condition.

    Raises:
        ExpressionError: The text is not a condition, or uses something that conditions do not allow.
    """
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(
            f"a condition of {counted(len(text), 'character')}, expected at most {_MAX_LENGTH}"
        )
    references: dict[str, Selector] = {}

    def named(match: Any) -> str:
        name = f"_reference_{len(references)}"
        references[name] = tuple(match.group(1).split("."))
        return name

    python = REFERENCE.sub(named, text.strip())
    try:
        body = python_source.parse_expression(python)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = getattr(error, "msg", None) or str(error)
        raise ExpressionError(f"condition {text!r} cannot be read: {said}") from error
    try:
        found = list(_selectors(body, references, text))
    except RecursionError as error:
        raise ExpressionError(f"condition {text[:60]!r}: nested too deeply") from error
    return Expression(text, tuple(dict.fromkeys(found)), body, references)


def _selectors(node: ast.expr, references: dict[str, Selector], text: str) -> Iterator[Selector]:
    """Yield the variables under a node; what is not allowed is refused here, before anything runs."""
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None):
            return
        case ast.Name() | ast.Attribute():
            if isinstance(node, ast.Name) and node.id.lower() in _CONSTANTS:
                return
            yield _selector(node, references, text)
            return
        case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            inner = parts
        case ast.UnaryOp(op=sign, operand=part) if type(sign) in _UNARY:
            inner = [part]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            inner = [left, right]
        case ast.Compare(left=left, ops=signs, comparators=others) if all(type(s) in _COMPARE for s in signs):
            inner = [left, *others]
        case ast.Subscript(value=base, slice=key) if not isinstance(key, ast.Slice):
            inner = [base, key]
        case ast.IfExp(test=test, body=then, orelse=other):
            inner = [test, then, other]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            inner = args
        case ast.Call(func=ast.Name(id=name)):
            known = ", ".join(_FUNCTIONS)
            raise ExpressionError(f"condition {text!r}: no function {name!r}. Known functions: {known}.")
        case _:
            raise ExpressionError(
                f"condition {text!r}: {ast.unparse(node)!r} is not allowed here. A condition has variables, "
                "texts, numbers, comparisons, and, or, not, + - * / %, and functions such as len()."
            )
    for part in inner:
        yield from _selectors(part, references, text)


def _selector(node: ast.expr, references: dict[str, Selector], text: str) -> Selector:
    steps: list[str] = []
    while isinstance(node, ast.Attribute):
        steps.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ExpressionError(f"condition {text!r}: {ast.unparse(node)!r} has no variables in it")
    if any(step.startswith("__") for step in steps):
        raise ExpressionError(f"condition {text!r}: names with __ are not allowed here")
    return (*references.get(node.id, (node.id,)), *steps)


def _value(node: ast.expr, references: dict[str, Selector], lookup: Callable[[Selector], Any]) -> Any:
    def value(part: ast.expr) -> Any:
        return _value(part, references, lookup)

    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name() | ast.Attribute():
            if isinstance(node, ast.Name) and node.id.lower() in _CONSTANTS:
                return _CONSTANTS[node.id.lower()]
            return lookup(_selector(node, references, ""))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(value(part) for part in parts)
        case ast.BoolOp(values=parts):
            return any(value(part) for part in parts)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [value(part) for part in parts]
        case ast.UnaryOp(op=sign, operand=part):
            return _UNARY[type(sign)](value(part))
        case ast.BinOp(left=left, op=sign, right=right):
            return _arithmetic(sign, value(left), value(right))
        case ast.Subscript(value=base, slice=key):
            return value(base)[value(key)]
        case ast.IfExp(test=test, body=then, orelse=other):
            return value(then) if value(test) else value(other)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*[value(part) for part in args])
        case ast.Compare(left=first, ops=signs, comparators=others):
            left = value(first)
            for comparison, other in zip(signs, others, strict=True):
                right = value(other)
                if not _COMPARE[type(comparison)](left, right):
                    return False
                left = right
            return True
    raise ExpressionError(f"{ast.unparse(node)!r} is not allowed here")


def _arithmetic(sign: ast.operator, left: Any, right: Any) -> Any:
    # `"a" * 10**9` and `"%999999999d" % 1` would take all memory.
    if not isinstance(sign, ast.Add) and not all(isinstance(side, int | float) for side in (left, right)):
        raise TypeError(f"{left!r:.60} and {right!r:.60} are not both numbers")
    return _BINARY[type(sign)](left, right)
