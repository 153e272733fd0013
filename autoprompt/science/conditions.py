"""Conditions on the rows of a table, as a model states them in prose and tests them in code."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

MOST_CONDITIONS = 24  # that are recounted
_QUOTED = re.compile(r"`+([^`\n]+)`+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_LABEL = re.compile(
    r"^\s*\**\s*(?:conditions?|cause|rows (?:where|with)|条件|原因)\**\s*[:：]?\s*", re.IGNORECASE
)
# Columns that are the outcome, alone or both together: a condition on them says nothing about its cause.
_OUTCOMES = (frozenset({"correct"}), frozenset({"prediction", "ground_truth"}))
_COMPARED = (ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Call)


def stated_conditions(text: str, columns: Collection[str]) -> list[str]:
    """Conditions in a conclusion, in their order: in backticks, or at the beginning of a line.

    Only what parses as a condition on columns is one; each comes as an expression over columns and `df`.
    """
    found = []
    for line in text.splitlines():
        pieces = _QUOTED.findall(line) or list(_beginnings(_LABEL.sub("", _BULLET.sub("", line))))
        found += [condition for piece in pieces if (condition := as_condition(piece, columns))]
    return list(dict.fromkeys(found))


def _beginnings(line: str) -> Iterator[str]:
    """The line up to each sign that may end an expression, the longest first."""
    ends = [match.start() for match in re.finditer(r"[:：|,，;]|->|=>|\bwrong\b|$", line)]
    yield from (line[:end] for end in reversed(ends) if line[:end].strip())


def coded_conditions(code: str, columns: Collection[str]) -> list[str]:
    """Conditions that code compares columns by, the whole before its parts."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, (ast.Compare, ast.BinOp, ast.Call)))
    found = (_normal(node, columns) for node in nodes)
    return list(dict.fromkeys(filter(None, found)))


def as_condition(text: str, columns: Collection[str]) -> str | None:
    """`text` as an expression that can be counted, None where it is no condition on columns.

    `length > 80 and words < 3` is taken for `(length > 80) & (words < 3)`, a single `=` for `==`.
    """
    text = re.sub(r"(?<![=<>!])=(?!=)", "==", text.strip().strip(".,;，。；").strip())
    for said, meant in (("≥", ">="), ("≤", "<="), ("≠", "!=")):
        text = text.replace(said, meant)
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        return None
    return _normal(node, columns)


def _normal(node: ast.expr, columns: Collection[str]) -> str | None:
    """The expression over columns and `df`; None where it is none, or speaks of the outcome."""
    if not isinstance(node, _COMPARED):
        return None
    try:
        rewritten = _Rewriter(columns).visit(ast.parse(ast.unparse(node), mode="eval").body)
    except (_NoConditionError, RecursionError):
        return None
    names = {n.id for n in ast.walk(rewritten) if isinstance(n, ast.Name)}
    used = names & set(columns)
    if not used or any(outcome <= used for outcome in _OUTCOMES) or not _is_truth_value(rewritten):
        return None
    return ast.unparse(rewritten)


def _is_truth_value(node: ast.expr) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_truth_value(left) and _is_truth_value(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_truth_value(operand)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _TRUTHS
    return False


_METHODS = ("contains", "startswith", "endswith", "match", "fullmatch", "isin", "between")
_COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
_CHARACTERS = ("isdigit", "isupper", "islower", "istitle", "isnumeric", "isalpha")
_TRUTHS = frozenset(_METHODS + _COMPARISONS + _CHARACTERS)


class _NoConditionError(Exception):
    pass


class _Rewriter(ast.NodeTransformer):
    """Columns of whatever frame become names, `and`, `or`, `not` become those of Series."""

    def __init__(self, columns: Collection[str]) -> None:
        self._columns = columns

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
            return self._column(node.slice.value) or self._generic(node)
        if (isinstance(node.value, ast.Attribute) and node.value.attr in ("loc", "iloc")) or isinstance(
            node.slice, ast.Compare | ast.BinOp | ast.UnaryOp
        ):
            raise _NoConditionError  # a part of the rows
        return self._generic(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id not in self._columns:
            return self._column(node.attr) or self._generic(node)
        return self._generic(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._columns or node.id in ("len", "str", "True", "False"):
            return node
        raise _NoConditionError  # a variable of its code

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        parts = [self.visit(value) for value in node.values]
        sign = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        joined: ast.expr = parts[0]
        for part in parts[1:]:
            joined = ast.BinOp(joined, sign, part)
        return joined

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        return ast.UnaryOp(ast.Invert() if isinstance(node.op, ast.Not) else node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            return self._membership(node)
        if len(node.ops) > 1:
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
            parts = [ast.Compare(left, [op], [right]) for left, op, right in pairs]
            return self.visit_BoolOp(ast.BoolOp(ast.And(), list(parts)))
        return self._generic(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            series = ast.Attribute(self.visit(node.args[0]), "str", ast.Load())
            return ast.Call(ast.Attribute(series, "len", ast.Load()), [], [])
        for method in ("startswith", "endswith"):
            match node.func:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                    name in self._columns and attr == method
                ):
                    series = ast.Attribute(ast.Name(name, ast.Load()), "str", ast.Load())
                    return ast.Call(ast.Attribute(series, method, ast.Load()), node.args, [])
        return self._generic(node)

    def _membership(self, node: ast.Compare) -> ast.expr:
        """`"?" in input`, and `prediction in ["A", "B"]`."""
        container = self.visit(node.comparators[0])
        if isinstance(node.left, ast.Constant):
            series = ast.Attribute(container, "str", ast.Load())
            keywords = [ast.keyword("regex", ast.Constant(False))]
            held: ast.expr = ast.Call(ast.Attribute(series, "contains", ast.Load()), [node.left], keywords)
        else:
            held = ast.Call(ast.Attribute(self.visit(node.left), "isin", ast.Load()), [container], [])
        return ast.UnaryOp(ast.Invert(), held) if isinstance(node.ops[0], ast.NotIn) else held

    def _column(self, name: object) -> ast.expr | None:
        return ast.Name(str(name), ast.Load()) if name in self._columns else None

    def _generic(self, node: ast.expr) -> ast.expr:
        visited = self.generic_visit(node)
        if not isinstance(visited, ast.expr):
            raise _NoConditionError
        return visited


def unique(conditions: Sequence[str]) -> list[str]:
    """Each once, the first MOST_CONDITIONS."""
    return list(dict.fromkeys(conditions))[:MOST_CONDITIONS]
