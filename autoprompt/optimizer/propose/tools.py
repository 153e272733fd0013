"""Which texts of tools the traces blame: rows that went wrong used tools otherwise than rows that went right.

A tool may be called where it should not be, or not be called where it should; its description is to blame. Or
it is called with arguments of another shape; then the parameter's is. What wrong and right rows do alike is
not to blame.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoprompt.records import EvaluatedRow

# Standard errors that a difference must exceed: a tenth of the tools that are not to blame are taken for it.
_ERRORS = 1.64
_FEW_WORDS = 3  # of an argument


def tool_blame(rows: Sequence[EvaluatedRow], tools: Mapping[str, str]) -> dict[str, float]:
    """Return component -> how much rows that went wrong differ by it, in (0, 1]; those without are left out.

    tools: component -> the tool, or `tool.parameter`. rows: of those that were offered tools.
    """
    offered = [row for row in rows if any(name in tools for step in row.trace for name in step.components)]
    wrong, right = [row for row in offered if row.is_wrong], [row for row in offered if row.is_correct]
    if not wrong:
        return {}
    called = {tool: _gap(wrong, right, _calls(tool)) for tool in tools.values()}
    idle = _gap(wrong, right, lambda row: not _called(row))
    misled = max(0.0, idle, *called.values())  # how far wrong rows call another tool, or none
    ever = {tool for row in offered for tool in _called(row)}
    blamed: dict[str, float] = {}
    for name, tool in tools.items():
        owner, _, parameter = tool.partition(".")
        if parameter:
            found = _argument_gap(wrong, right, owner, parameter)
        elif tool not in ever:
            found = misled
        else:  # that right rows call it oftener may only say that it does its work
            found = called[tool] if called[tool] > 0 else -called[tool] / 2
        if found > 0:
            blamed[name] = found
    return blamed


def _gap(
    wrong: Sequence[EvaluatedRow], right: Sequence[EvaluatedRow], has: Callable[[EvaluatedRow], bool]
) -> float:
    """Return how much oftener wrong rows have something than right ones, less what chance explains.

    Negative for less often. Without right rows, the share of the wrong ones.
    """
    if not wrong:
        return 0.0
    if not right:
        return sum(map(has, wrong)) / len(wrong)
    shares = [(sum(map(has, rows)) + 0.5) / (len(rows) + 1) for rows in (wrong, right)]
    error = math.sqrt(sum(p * (1 - p) / n for p, n in zip(shares, map(len, (wrong, right)), strict=True)))
    difference = shares[0] - shares[1]
    return max(0.0, abs(difference) - _ERRORS * error) * (1 if difference > 0 else -1)


def _argument_gap(
    wrong: Sequence[EvaluatedRow], right: Sequence[EvaluatedRow], tool: str, parameter: str
) -> float:
    """Return how much the shape of an argument differs between wrong and right rows that call the tool."""
    failed, ended = ([row for row in rows if tool in _called(row)] for rows in (wrong, right))
    if not failed:
        return 0.0
    if not ended:  # no call of it ends right
        return len(failed) / len(wrong)
    shapes = {shape for row in (*failed, *ended) for shape in _shapes(row, tool, parameter)}
    return max((abs(_gap(failed, ended, _has(tool, parameter, shape))) for shape in shapes), default=0.0)


def _has(tool: str, parameter: str, shape: str) -> Callable[[EvaluatedRow], bool]:
    return lambda row: shape in _shapes(row, tool, parameter)


def _calls(tool: str) -> Callable[[EvaluatedRow], bool]:
    return lambda row: tool in _called(row)


def _called(row: EvaluatedRow) -> set[str]:
    return {call.name for step in row.trace for call in step.tool_calls}


def _shapes(row: EvaluatedRow, tool: str, parameter: str) -> set[str]:
    """What the arguments look like, whatever they say: type, length, digits, and whether the row has them."""
    found = set()
    for call in (call for step in row.trace for call in step.tool_calls if call.name == tool):
        value = _at(call.arguments, parameter)
        if not isinstance(value, str):
            found.add("nothing" if value is None else type(value).__name__)
            continue
        words = len(value.split())
        size = "none" if not words else "one" if words == 1 else "few" if words <= _FEW_WORDS else "many"
        digits = "digits" if any(map(str.isdigit, value)) else "letters"
        found.add(f"{size} {digits} {'quoted' if value.casefold() in row.full_text.casefold() else 'new'}")
    return found


def _at(arguments: str, parameter: str) -> Any:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    for name in parameter.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
