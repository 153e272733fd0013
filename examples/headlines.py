"""A LangGraph graph: a subgraph judges a headline, and a second node is asked if the answer is no label."""

import os
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model=os.environ.get("EXAMPLE_MODEL", "gpt-4.1-nano"), temperature=0, max_tokens=16)


class Headline(TypedDict, total=False):
    headline: str
    label: str


def classify(state: Headline) -> Headline:
    system = "Is this headline clickbait? Answer 1 for clickbait, 0 for news."
    answer = llm.invoke([("system", system), ("user", state["headline"])])
    return {"label": str(answer.content).strip()}


def shorten(state: Headline) -> Headline:
    system = "Which label does this answer mean, 0 or 1? Answer with the digit alone."
    answer = llm.invoke([("system", system), ("user", state["label"])])
    return {"label": str(answer.content).strip()}


def is_label(state: Headline) -> str:
    return "yes" if state["label"] in ("0", "1") else "no"


judge = StateGraph(Headline)
judge.add_node("classify", classify)
judge.add_edge(START, "classify")
judge.add_edge("classify", END)

builder = StateGraph(Headline)
builder.add_node("judge", judge.compile())
builder.add_node("shorten", shorten)
builder.add_edge(START, "judge")
builder.add_conditional_edges("judge", is_label, {"yes": END, "no": "shorten"})
builder.add_edge("shorten", END)
graph = builder.compile()
