"""A shop's agent with three tools, and a model that picks tools by the words of their descriptions.

`track_parcel` has a misleading description, and the parameter of `find_invoice` a bad one. The model passes
what a parameter's description names: a number, a customer, a product. It knows nothing else of the tools.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fake_endpoint import Reply, answer
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

SYSTEM = "Answer the customer in a word. Use the tools."
CITIES = ("Lyon", "Graz", "Turku", "Porto", "Ghent")
PRODUCTS = ("lamp", "chair", "table", "shelf", "mirror")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve")
# Words of a customer that say the same as words of a description.
_MEANING = {
    "parcel": ("parcel", "parcels", "shipment", "delivery"),
    "invoice": ("invoice", "invoices", "bill"),
    "price": ("price", "prices", "costs"),
}
GOOD = {
    "track_parcel": "Tells in which city the parcel of an order is. Not for invoices or prices.",
    "find_invoice.number": "The number of the invoice, digits alone.",
}
MISLEADING = "Tells the weather along a road."
BAD_PARAMETER = "The name of the customer."


def track_parcel(order: Annotated[str, "The number of the order, digits alone."]) -> str:
    """Tells the weather along a road."""
    return CITIES[int(order) % 5] if order.isdigit() else "no such order"


def find_invoice(number: Annotated[str, "The name of the customer."]) -> str:
    """Finds the amount of an invoice."""
    return f"{int(number) % 90 + 10} euros" if number.isdigit() else "no such invoice"


def find_price(product: Annotated[str, "The product, as the customer calls it."]) -> str:
    """Finds the price of a product of the shop."""
    return f"{7 * len(product)} euros" if product in PRODUCTS else "no such product"


def make_agent() -> Any:
    llm = ChatOpenAI(model="m", base_url=os.environ["SHOP_URL"], api_key="key")  # type: ignore[arg-type]
    return create_agent(llm, [track_parcel, find_invoice, find_price], system_prompt=SYSTEM)


def write_questions(path: Path, count: int = 300) -> Path:
    rows = []
    for n in range(count):
        number, name, product = 1000 + 37 * n, NAMES[n % 5], PRODUCTS[n // 3 % 5]
        asked = (
            (f"{name} asks where the parcel of order {number} is.", track_parcel(str(number))),
            (f"{name} asks what invoice {number} comes to.", find_invoice(str(number))),
            (f"{name} asks what price the {product} has, in mail {number}.", find_price(product)),
        )
        rows.append(dict(zip(("text", "reply"), asked[n % 3], strict=True)))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def _picked(question: str, tools: Mapping[str, Any]) -> str | None:
    """The tool whose description has most to do with the question; None if none has."""
    asked = [means for topic, means in _MEANING.items() if topic in _words(question)]

    def weight(name: str) -> int:
        said = tools[name]["description"].lower().partition("not for")[0]
        return sum(bool(_words(said) & set(means)) for means in asked)

    best = max(tools, key=weight)
    return best if weight(best) else None


def _passed(question: str, description: str) -> str:
    said = _words(description)
    if said & {"number", "digits"}:
        return re.findall(r"\d+", question)[-1]
    if "customer" in said and "name" in said:
        return question.split()[0]
    return next((product for product in PRODUCTS if product in question), question)


def reply_to(body: dict[str, Any]) -> Reply:
    turns = body["messages"]
    if body["model"] == "w":
        return answer(written(turns[-1]["content"]))
    if turns[-1]["role"] == "tool":
        return answer(turns[-1]["content"])
    tools = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    question = turns[-1]["content"]
    name = _picked(question, tools)
    if name is None:
        return answer("I do not know")
    parameters = tools[name]["parameters"]["properties"]
    given = {key: _passed(question, value["description"]) for key, value in parameters.items()}
    reply = answer(None)
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    reply.body["choices"][0]["message"]["tool_calls"] = [call]
    return reply


def written(request: str) -> str:
    """Describes what it is asked to describe, knows what two descriptions lack, and blames no text itself."""
    current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
    if current is None:
        return "Some answers are wrong."
    tool = re.search(r"the description of the tool `(\w+)`", request)
    parameter = re.search(r"the description of the parameter `(\w+)` of the tool `(\w+)`", request)
    name = f"{parameter[2]}.{parameter[1]}" if parameter else tool[1] if tool else ""
    return f"```\n{GOOD.get(name) or current[1] + ' Take care.'}\n```"
