"""A ticket desk as people write one: two calls to a model, in several forms. It knows nothing of us."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from openai import AsyncOpenAI, OpenAI

SUMMARIZE = "Say in a line what the ticket is about."
ROUTE = "Route the ticket to billing, tech or sales."


def _settings() -> dict[str, Any]:
    return {"base_url": os.environ["DESK_URL"], "api_key": "key"}


def _turns(system: str, user: str) -> list[Any]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def desk(text: str) -> str:
    with OpenAI(**_settings()) as client:

        def ask(system: str, user: str) -> str:
            reply = client.chat.completions.create(model="m", messages=_turns(system, user))
            return reply.choices[0].message.content or ""

        def summarize() -> str:
            return ask(SUMMARIZE, text)

        with ThreadPoolExecutor(1) as pool:
            summary = pool.submit(summarize).result()
        return ask(ROUTE, f"About: {summary}\nTicket: {text}")


async def async_desk(text: str) -> str:
    async with AsyncOpenAI(**_settings()) as client:
        pieces = []
        stream = await client.chat.completions.create(
            model="m", messages=_turns(SUMMARIZE, text), stream=True
        )
        async for chunk in stream:
            pieces.append(chunk.choices[0].delta.content or "" if chunk.choices else "")
        user = f"About: {''.join(pieces)}\nTicket: {text}"
        reply = await client.chat.completions.create(model="m", messages=_turns(ROUTE, user))
        return reply.choices[0].message.content or ""


class Ticket(TypedDict, total=False):
    text: str
    summary: str
    queue: str


def make_graph() -> Any:
    llm = ChatOpenAI(model="m", **_settings())

    def summarize(state: Ticket) -> Ticket:
        return {"summary": str(llm.invoke(_turns(SUMMARIZE, state["text"])).content)}

    def route(state: Ticket) -> Ticket:
        user = f"About: {state['summary']}\nTicket: {state['text']}"
        return {"queue": str(llm.invoke(_turns(ROUTE, user)).content)}

    def thank(state: Ticket) -> Ticket:
        user = f"Queue: {state['queue']}\nTicket: {state['text']}"
        llm.invoke(_turns("Thank the customer in one short sentence.", user))
        return {}

    inner = StateGraph(Ticket)
    inner.add_node("route", route)
    inner.add_edge(START, "route")
    inner.add_edge("route", END)
    graph = StateGraph(Ticket)
    graph.add_node("summarize", summarize)
    graph.add_node("desk", inner.compile())
    graph.add_node("thank", thank)
    graph.add_edge(START, "summarize")
    graph.add_edge("summarize", "desk")
    graph.add_conditional_edges("desk", lambda state: "thank" if state["queue"] == "sales" else END)
    graph.add_edge("thank", END)
    return graph.compile()
