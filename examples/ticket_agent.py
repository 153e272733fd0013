"""A tool agent: `create_agent` with tools that look up an order. It finds the team that a ticket is for."""

import os
from typing import Annotated

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

ORDERS = {"A1": "delivered", "B2": "lost", "C3": "paid twice"}


def find_order(number: Annotated[str, "Number of the order."]) -> str:
    """Looks up an order."""
    return ORDERS.get(number, "no such order")


def find_team(status: Annotated[str, "What is wrong."]) -> str:
    """Says who takes care of what."""
    return {"lost": "shipping", "paid twice": "billing"}.get(status, "support")


agent = create_agent(
    ChatOpenAI(model=os.environ.get("EXAMPLE_MODEL", "gpt-4.1-nano"), temperature=0),
    [find_order, find_team],
    system_prompt="Answer with the team that the ticket is for: shipping, billing or support.",
)
