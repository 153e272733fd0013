"""Texts of tools are blamed for how rows that went wrong used tools, and for nothing else."""

from __future__ import annotations

import json

from autoprompt.optimizer.propose.steps import blame_of, tool_blame
from autoprompt.records import EvaluatedRow, Step, ToolCall

TOOLS = {
    "m.tool.track": "track",
    "m.tool.invoice": "invoice",
    "m.tool.invoice.number": "invoice.number",
    "m.tool.price": "price",
}
NAMES = ("m.system", *TOOLS)


def row(n: int, is_right: bool, tool: str = "", **arguments: str) -> EvaluatedRow:
    """A row whose model asked for this tool, if any, then answered."""
    calls = (ToolCall("c", tool, json.dumps(arguments)),) if tool else ()
    steps = (
        Step("m", NAMES, "asked", json.dumps([tool]), tool_calls=calls),
        Step("m", NAMES, "found", "yes"),
    )
    answer = "yes" if is_right else "no"
    return EvaluatedRow(
        str(n), f"item {n}", answer, "yes", is_right, float(is_right), trace=steps[: 1 + bool(tool)]
    )


def test_rows_that_use_tools_alike_blame_none() -> None:
    rows = [row(n, n % 2 == 0, ("track", "price")[n // 2 % 2]) for n in range(40)]
    assert tool_blame(rows, TOOLS) == {}
    blame = blame_of(rows, NAMES, {}, TOOLS)
    assert blame == {"m.system": 1.0}


def test_a_tool_that_wrong_rows_call_is_blamed_most() -> None:
    rows = [row(n, True, "price") for n in range(15)] + [row(n, False, "track") for n in range(15, 30)]
    blamed = tool_blame(rows, TOOLS)
    assert max(blamed, key=blamed.__getitem__) == "m.tool.track"
    assert "m.tool.invoice.number" not in blamed


def test_a_tool_that_nobody_calls_is_blamed_if_wrong_rows_call_none() -> None:
    rows = [row(n, True, "price") for n in range(15)] + [row(n, False) for n in range(15, 30)]
    blamed = tool_blame(rows, {name: tool for name, tool in TOOLS.items() if "invoice" not in tool})
    assert max(blamed, key=blamed.__getitem__) == "m.tool.track"


def test_a_parameter_is_blamed_for_the_shape_of_its_arguments() -> None:
    rows = [row(n, True, "invoice", number=str(n)) for n in range(15)]
    rows += [row(n, False, "invoice", number="Ada") for n in range(15, 30)]
    assert set(tool_blame(rows, TOOLS)) == {"m.tool.invoice.number"}
    alone = tool_blame(rows[15:], TOOLS)
    assert set(alone) >= {"m.tool.invoice", "m.tool.invoice.number"}


def test_the_analyst_may_blame_a_tool_too() -> None:
    rows = [row(n, n % 2 == 0, "track") for n in range(40)]
    assert blame_of(rows, NAMES, {"m.tool.price": 1}, TOOLS)["m.tool.price"] == 0.5
