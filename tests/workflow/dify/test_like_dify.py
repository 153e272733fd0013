"""Values and whole exports come out as on Dify's own engine: benchmarks/dify_record.py made the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import script
from fake_endpoint import LOCAL
from flow_runs import FlowRun, run_flow

from autoprompt.llm import ScriptedClient

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "values.json").read_text(encoding="utf-8"))
RUNS = json.loads((HERE / "outputs.json").read_text(encoding="utf-8"))
SOURCE, PLACE = TABLE["source"], "1719000000004"
NOT_TAKEN = "of a branch that was not taken"
CELLS = [
    (name, kind) for name, place in TABLE["places"].items() for kind in place["cells"] if kind != NOT_TAKEN
]
Served = tuple[str, list[str]]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with script("dify_record.py").server() as found:
        yield found


def put(name: str, kind: str, served: Served) -> tuple[FlowRun, Any]:
    """A run in which a place is given a value of this kind, and what came to the place."""
    address, came = served
    node = dict(TABLE["places"][name]["node"])
    if "url" in node:
        node["url"] = address
    case = {"case_id": "true", "if": "sys.query == 'never'"}
    nodes = [
        {"id": "start", "type": "start", "data": {"variables": []}},
        {"id": "branch", "type": "if-else", "data": {"cases": [case]}},
        {"id": SOURCE, "type": "tool", "data": {"tool_name": "none"}},
        {"id": PLACE, "data": node},
    ]
    ways = [["start", "branch"], ["branch", SOURCE, "true"], [SOURCE, PLACE], ["branch", PLACE, "false"]]
    if kind != NOT_TAKEN:
        ways = [["start", SOURCE], [SOURCE, PLACE]]
        del nodes[1]
    mocks = {SOURCE: {"outputs": {"value": TABLE["values"].get(kind)}}}
    client = ScriptedClient(lambda messages: "{}")
    done = run_flow(
        {"nodes": nodes, "edges": ways, "mocks": mocks}, {"query": "Q"}, client, allow_private_hosts=LOCAL
    )
    if done.error is not None:
        return done, None
    if name == "query":
        return done, done.node(PLACE).inputs["query"]
    if "url" in node:
        return done, came[-1]
    return done, client.calls[-1][-1].content if client.calls else next(
        iter(done.node(PLACE).outputs.values())
    )


@pytest.mark.parametrize(("name", "kind"), CELLS)
def test_a_value_is_what_dify_makes_of_it(name: str, kind: str, served: Served) -> None:
    recorded = TABLE["places"][name]["cells"][kind]
    done, got = put(name, kind, served)
    if "error" in recorded:
        assert "the context holds" in str(done.error)
        return
    assert done.error is None
    assert got == recorded["got"]


@pytest.mark.parametrize("name", TABLE["places"])
def test_a_variable_of_another_branch_is_what_dify_makes_of_it(name: str, served: Served) -> None:
    recorded = TABLE["places"][name]["cells"][NOT_TAKEN]
    done, got = put(name, NOT_TAKEN, served)
    if "error" in recorded or name in ("body", "form", "parameter"):  # where Dify sends the variable's name
        assert f"Node {SOURCE!r} did not run" in str(done.error)
        return
    assert done.error is None
    assert got == recorded["got"]


def test_the_table_holds_every_value_in_every_place() -> None:
    assert len(CELLS) == 12 * 22 + 7 * 2
    assert {kind for _, kind in CELLS} == set(TABLE["values"])


def upper(answers: list[str]) -> ScriptedClient:
    left = list(answers)
    return ScriptedClient(lambda messages: left.pop(0) if left else messages[-1].content.upper())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['file']}-{next(iter(run['inputs'].values()))}")
def test_an_export_gives_what_dify_gives(run: dict[str, Any]) -> None:
    done = run_flow(HERE / run["file"], run["inputs"], upper(run["answers"]))
    assert done.error is None
    # A user of the chat is shown the streamed text, from which a variable of another branch is left out.
    expected = {**run["outputs"], "answer": run["shown"]} if "shown" in run else run["outputs"]
    assert done.outputs == expected
