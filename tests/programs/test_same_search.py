"""One task as a function, a coroutine, a graph and a workflow: the same search, the same winner."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest
from desk_model import TOPICS, desk_config, desk_model
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from openai import AsyncOpenAI, OpenAI

import autoprompt
from autoprompt import Prompt

SUMMARIZE = "Say in a line what the ticket is about."
ROUTE = "Route the ticket to billing, tech or sales."
# Named as the texts of the workflow's nodes are.
ABOUT, QUEUE = Prompt("summarize.system", SUMMARIZE), Prompt("route.system", ROUTE)
FLOW = f"""\
nodes:
  - {{id: start, type: start, data: {{variables: [{{variable: text, type: paragraph}}]}}}}
  - id: summarize
    type: llm
    data:
      prompt_template: [{{role: system, text: "{SUMMARIZE}"}}, {{role: user, text: "{{{{#start.text#}}}}"}}]
  - id: route
    type: llm
    data:
      prompt_template:
        - {{role: system, text: "{ROUTE}"}}
        - {{role: user, text: "{{{{#summarize.text#}}}}\\n{{{{#start.text#}}}}"}}
edges: [{{source: start, target: summarize}}, {{source: summarize, target: route}}]
"""


def settings() -> dict[str, Any]:
    return {"base_url": os.environ["DESK_URL"], "api_key": "key"}


def request(system: str, user: str) -> dict[str, Any]:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"model": "m", "messages": turns}


def make_function(client: OpenAI) -> Callable[[str], str]:
    def ask(system: str, user: str) -> str:
        return str(client.chat.completions.create(**request(system, user)).choices[0].message.content)

    return lambda text: ask(QUEUE.text, f"{ask(ABOUT.text, text)}\n{text}")


def make_coroutine(client: AsyncOpenAI) -> Callable[[str], Coroutine[Any, Any, str]]:
    async def ask(system: str, user: str) -> str:
        reply = await client.chat.completions.create(**request(system, user))
        return str(reply.choices[0].message.content)

    async def coroutine(text: str) -> str:
        return await ask(QUEUE.text, f"{await ask(ABOUT.text, text)}\n{text}")

    return coroutine


class State(TypedDict, total=False):
    text: str
    summary: str
    queue: str


def make_graph() -> Any:
    llm = ChatOpenAI(model="m", **settings())

    def ask(system: str, user: str) -> str:
        return str(llm.invoke(request(system, user)["messages"]).content)

    graph: Any = StateGraph(State)
    graph.add_node("summarize", lambda state: {"summary": ask(ABOUT.text, state["text"])})
    graph.add_node("route", lambda state: {"queue": ask(QUEUE.text, f"{state['summary']}\n{state['text']}")})
    graph.add_edge(START, "summarize")
    graph.add_edge("summarize", "route")
    graph.add_edge("route", END)
    return graph.compile()


@contextmanager
def made(form: str) -> Iterator[Any]:
    """The program; of a workflow None."""
    if form == "function":
        with OpenAI(**settings()) as client:
            yield make_function(client)
    elif form == "coroutine":
        client = AsyncOpenAI(**settings())
        yield autoprompt.Program(make_coroutine(client), shutdown=client.close)
    else:
        yield make_graph() if form == "graph" else None


@pytest.fixture
def prompts() -> Iterator[None]:
    """Leave no trace of a reading: LangGraph reads what a node names when it compiles the graph."""
    yield
    for prompt in (ABOUT, QUEUE):
        prompt.read_at = None


@pytest.mark.usefixtures("prompts")
def test_four_forms_of_one_task_have_the_same_winner_for_as_many_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, data = tmp_path / "flow.yaml", tmp_path / "rows.jsonl"
    flow.write_text(FLOW, encoding="utf-8")
    topics = list(TOPICS.items())
    rows = [
        {"text": f"Ticket {n}: Ticket: {topics[n % 3][1]}, day {n}", "queue": topics[n % 3][0]}
        for n in range(42)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found: dict[str, tuple[dict[str, str], int, int]] = {}
    for form in ("function", "coroutine", "graph", "workflow"):
        own = {"workflow": flow, "model": "m"} if form == "workflow" else {}
        with desk_model(monkeypatch) as endpoint, made(form) as program:
            # One at a time: a connection that breaks is a call more.
            more = {"concurrency": 1, "no_cache": False, "cache_dir": tmp_path / form, "seed": 3}
            result = autoprompt.optimize(desk_config(tmp_path, dataset=data, **more, **own), program=program)
            found[form] = dict(result.best.components), result.to_dict()["calls"], len(endpoint.requests)
    texts, calls, sent = found["function"]
    assert texts == {
        "summarize.system": SUMMARIZE,
        "route.system": "Read closely, then route the ticket to billing, tech or sales.",
    }
    assert calls == sent
    assert found == dict.fromkeys(found, found["function"])
