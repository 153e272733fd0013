"""Descriptions of tools and their parameters are components: blamed ones change, schemas stay."""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from desk_model import TOPICS, desk_config
from fake_endpoint import Reply, answer, fake_endpoint
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

import autoprompt

SYSTEM = "Answer with the queue of the ticket. Use the tools."


def find_queue(topic: Annotated[str, "Some thing or other."]) -> str:
    """Tells the weather of a town."""
    return next((queue for queue, words in TOPICS.items() if words in topic), "unknown")


def find_customer(name: Annotated[str, "Name of the customer."]) -> str:
    """Finds a customer by name."""
    return "no such customer"


def find_price(product: Annotated[str, "Name of the product."]) -> str:
    """Finds the price of a product."""
    return "no such product"


def make_agent() -> Any:
    llm = ChatOpenAI(model="m", base_url=os.environ["DESK_URL"], api_key="key")  # type: ignore[arg-type]
    return create_agent(llm, [find_queue, find_customer, find_price], system_prompt=SYSTEM)


def reply_to(body: dict[str, Any]) -> Reply:
    """Uses the tool if its description is about queues; with the right topic half of the time, or if told."""
    turns = body["messages"]
    if body["model"] == "w":
        return answer(written(turns[-1]["content"]))
    if turns[-1]["role"] == "tool":
        return answer(turns[-1]["content"])
    described = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    ticket = turns[-1]["content"]
    even = int(re.search(r"day (\d+)", ticket)[1]) % 2  # type: ignore[index]
    if "queue" not in described["find_queue"]["description"] and even:
        return answer("unknown")
    call = {"name": "find_queue", "arguments": json.dumps({"topic": ticket})}
    reply = answer(None)
    reply.body["choices"][0]["message"]["tool_calls"] = [{"id": "c", "type": "function", "function": call}]
    return reply


def written(request: str) -> str:
    current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
    if current is None:
        return "[model.tool.find_queue] The description does not say what the tool is for."
    if "weather" in current[1]:
        return "```\nFinds the queue of a ticket by its topic.\n```"
    return f"```\n{current[1]} Be careful.\n```"


def without_texts(tools: Any) -> Any:
    bare = copy.deepcopy(tools)
    for tool in bare:
        del tool["function"]["description"]
        for parameter in tool["function"]["parameters"]["properties"].values():
            parameter.pop("description", None)
    return bare


def test_the_blamed_tool_is_described_anew_and_its_schema_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_endpoint(reply_to) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        config = desk_config(tmp_path, locked=("model.system",))
        result = autoprompt.optimize(config, program=make_agent())
    assert set(result.original.components) == {
        "model.system",
        *(f"model.tool.{name}" for name in ("find_queue", "find_customer", "find_price")),
        "model.tool.find_queue.topic",
        "model.tool.find_customer.name",
        "model.tool.find_price.product",
    }
    assert result.to_dict()["verdict"] == "confirmed"
    assert result.best.components["model.tool.find_queue"] == "Finds the queue of a ticket by its topic."
    assert result.best.components["model.system"] == SYSTEM
    asked = [body for body in endpoint.requests if body["model"] == "m"]
    assert {body["messages"][0]["content"] for body in asked} == {SYSTEM}
    shapes = {json.dumps(without_texts(body["tools"])) for body in asked}
    assert len(shapes) == 1
    assert any("Finds the queue" in json.dumps(body["tools"]) for body in asked)
