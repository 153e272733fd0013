"""`autoprompt program show`: what a program sends, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from endpoint import Endpoint
from typer.testing import CliRunner

from autoprompt.cli import app

PROGRAM = """
import os
from openai import OpenAI

def desk(text):
    client = OpenAI(base_url=os.environ["DESK_URL"], api_key="sk-of-the-tests-0123456789")
    turns = [{"role": "system", "content": "Is the message urgent?"}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=turns).choices[0].message.content
"""


@pytest.fixture
def here(tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The working directory of a program that asks the endpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DESK_URL", endpoint.base_url)
    rows = ({"input": f"message {n}", "target": "urgent" if n % 2 else "normal"} for n in range(20))
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return monkeypatch


def show(here: pytest.MonkeyPatch, program: str, source: str) -> list[str]:
    """Write the module of a program; return the arguments that show it."""
    module = program.partition(":")[0]
    here.delitem(sys.modules, module, raising=False)
    Path(f"{module}.py").write_text(source)
    return ["program", "show", program, "--dataset", "rows.jsonl", "--no-cache"]


def test_a_program_is_shown_with_its_prompts_and_what_a_row_takes(here: pytest.MonkeyPatch) -> None:
    command = show(here, "shown_desk:desk", PROGRAM)
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "shown_desk:desk: calls per row: 1 on average, 1 at most (8 rows tried)" in shown.output
    assert "trial: 8 of 8 rows" in shown.stderr
    line = next(line for line in shown.output.splitlines() if line.startswith("desk.system"))
    assert line.split(maxsplit=3) == [
        "desk.system",
        "instruction",
        "shown_desk.py:8",
        "Is the message urgent?",
    ]
    assert "got message 0" in shown.output
    data = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [(c["name"], c["kind"]) for c in data["components"]] == [("desk.system", "instruction")]
    assert (data["mean_calls"], data["most_calls"], data["rows"]) == (1.0, 1, 8)
    assert not Path("runs").exists()


def test_a_program_that_is_not_named_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOPROMPT_PROGRAM", raising=False)
    Path("rows.jsonl").write_text('{"input": "a", "target": "b"}\n')
    found = CliRunner().invoke(app, ["program", "show", "--dataset", "rows.jsonl"])
    assert found.exit_code == 3
    assert "no program is given" in found.output


GRAPHS = """
import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict
from langchain.agents import create_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

llm = ChatOpenAI(model="m", base_url=os.environ["DESK_URL"], api_key="sk-of-the-tests-0123456789")
turns = ChatPromptTemplate.from_messages([("system", "Is the message urgent?"), ("user", "{input}")])

class Mail(TypedDict):
    input: str
    target: str

def sync_node(state):
    return {"target": (turns | llm).invoke(state).content}  # sync_graph

async def async_node(state):
    return {"target": (await (turns | llm).ainvoke(state)).content}  # async_graph

def graph_of(node):
    built = StateGraph(Mail)
    built.add_node("sort", node)
    built.add_edge(START, "sort")
    return built.compile()

sync_graph = graph_of(sync_node)
async_graph = graph_of(async_node)
chain = turns | llm  # chain
agent = create_agent(llm, tools=[], system_prompt="Is the message urgent?")  # agent

async def asks_agent(input):
    found = await agent.ainvoke({"messages": [("user", input)]})  # asks_agent
    return found["messages"][-1].content

async def gathers(input):
    (found,) = await asyncio.gather((turns | llm).ainvoke({"input": input}))  # gathers
    return found.content

def hands_over(input):
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit((turns | llm).invoke, {"input": input}).result()  # hands_over
    return found.content
"""


@pytest.mark.parametrize(
    "name", ["sync_graph", "async_graph", "chain", "agent", "asks_agent", "gathers", "hands_over"]
)
def test_each_call_has_its_place_also_if_a_package_makes_it_in_a_task_or_thread(
    name: str, here: pytest.MonkeyPatch
) -> None:
    command = show(here, f"shown_graphs:{name}", GRAPHS)
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    lines = GRAPHS.splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {name}"))
    (row,) = (row for row in shown.output.splitlines() if row.endswith("Is the message urgent?"))
    assert row.split()[1:3] == ["instruction", f"shown_graphs.py:{line}"]
