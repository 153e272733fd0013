"""Conditions written as one line: `triage.class_name == "bug" and len(extract.items) > 2`.

The line is parsed, never evaluated as Python: only what is listed here has a meaning. A name with dots, or
`{{#node.variable#}}` where a node's id is no identifier, is a variable of the workflow.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autoprompt.errors import InputError
from autoprompt.text.names import counted
from autoprompt.workflow.engine.template import REFERENCE
from autoprompt.workflow.engine.variables import check_size, concatenated, product

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


def _text(value: Any) -> str:
    """Return the value as text. Raises TooLargeError."""
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
    "str": lambda value: _text(value),
    "bool": bool,
    "any": any,
    "all": all,
    "lower": lambda text: _text(text).lower(),
    "strip": lambda text: _text(text).strip(),
    "startswith": lambda text, start: _text(text).startswith(start),
    "endswith": lambda text, end: _text(text).endswith(end),
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
        """The value, with `lookup` giving that of a variable. Raises ExpressionError."""
        try:
            return _value(self._body, self._references, lookup)
        except RecursionError as error:
            raise ExpressionError(f"condition {self.text[:60]!r}: nested too deeply") from error
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise ExpressionError(f"condition {self.text!r}: {error}") from error


def parse_expression(text: str) -> Expression:
    """Read a condition. Raises ExpressionError that names what has no meaning in one, and what has."""
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
        body = ast.parse(python, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = getattr(error, "msg", None) or str(error)
        raise ExpressionError(f"condition {text!r} cannot be read: {said}") from error
    try:
        found = list(_selectors(body, references, text))
    except RecursionError as error:
        raise ExpressionError(f"condition {text[:60]!r}: nested too deeply") from error
    return Expression(text, tuple(dict.fromkeys(found)), body, references)


def _selectors(node: ast.expr, references: dict[str, Selector], text: str) -> Iterator[Selector]:
    """The variables under a node; what is not allowed is refused here, before anything runs."""
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
