"""How long `autoprompt.use` takes a call: a request of a program with and without a winner in it.

    python benchmarks/use_overhead.py [CALLS]

The endpoint is a transport in this process, so what is left is the client's own time and ours. The program
has 6 components at one call site, a system text of 2,000 characters, 4 tools, and 16 demonstrations.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import httpx

import autoprompt
from autoprompt.records import Candidate, Demo, Origin

SYSTEM = "Route the ticket to billing, tech or sales. " * 45
USER = "About: {summary}\nTicket: {text}"
TOOLS = [
    {"type": "function", "function": {"name": f"tool{n}", "description": f"Tool {n} finds an order."}}
    for n in range(4)
]
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "tech"}}]}


def route(client: httpx.Client, number: int) -> str:
    user = USER.format(summary=f"ticket {number}", text=f"the app crashes, day {number}")
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
    body = {"model": "m", "messages": turns, "tools": TOOLS}
    return str(client.post("http://model/v1/chat/completions", json=body).json()["choices"][0]["message"])


def winner() -> Candidate:
    def place(name: str, role: str, original: str, **more: object) -> dict[str, object]:
        kind = {"tool": "tool", "user": "template"}.get(role, "instruction")
        return {"name": name, "kind": kind, "site": "route", "role": role, "original": original, **more}

    places = [place("route.system", "system", SYSTEM), place("route.user", "user", USER)]
    places += [
        place(f"route.tool.tool{n}", "tool", f"Tool {n} finds an order.", tool=f"tool{n}") for n in range(4)
    ]
    texts = {str(p["name"]): f"Read closely. {p['original']}" for p in places}
    demos = tuple(Demo(f"About: {n}", "tech", component="route.system") for n in range(16))
    return Candidate(components=texts, demos=demos, origin=Origin("benchmark", places=tuple(places)))


def median_ms(call: Callable[[int], object], calls: int) -> float:
    taken = []
    for number in range(calls):
        began = time.process_time()
        call(number)
        taken.append(time.process_time() - began)
    return 1000 * sorted(taken)[calls // 2]


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent[:] = [request]
        return httpx.Response(200, json=ANSWER)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        plain = median_ms(lambda number: route(client, number), calls)
        autoprompt.use(winner())
        used = median_ms(lambda number: route(client, number), calls)
        assert all(text in sent[0].content for text in (b"Read closely. Route", b"Read closely. Tool 3"))
        autoprompt.use(None)
        after = median_ms(lambda number: route(client, number), calls)
    print(f"CPU a call, median of {calls}: {plain:.3f} ms without, {used:.3f} with, {after:.3f} afterwards")
    print(f"a call takes {used - plain:.3f} ms more")


if __name__ == "__main__":
    main()
