"""The model of the ticket desk: right if it is told to read closely, else wrong every second time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, fake_endpoint

from autoprompt import RunConfig

TOPICS = {"billing": "the invoice is wrong", "tech": "the app crashes", "sales": "more seats please"}


def write_tickets(path: Path, count: int = 120) -> Path:
    queues = list(TOPICS)
    rows = [
        {"text": f"Ticket {n * 7919 % 1000}: {TOPICS[queues[n % 3]]}, day {n}", "queue": queues[n % 3]}
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _said(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(part["text"] for part in content or ())


def reply_to(body: dict[str, Any]) -> Reply:
    turns = body["messages"]
    system = " ".join(_said(turn) for turn in turns if turn["role"] == "system")
    user = _said(turns[-1])
    if body["model"] == "w":
        return answer(_written(user))
    if "oute the ticket" in system:
        text = _routed(system, user)
    elif "Thank" in system:
        text = "Thank you!"
    else:
        text = f"about {user.partition(':')[0]}"
    return _stream(text) if body.get("stream") else answer(text)


def _routed(system: str, user: str) -> str:
    right = next(queue for queue, topic in TOPICS.items() if topic in user)
    ticket = user.partition("Ticket: ")[2]
    is_right = "closely" in system or sha256(ticket.encode()).digest()[0] % 2
    return right if is_right else {"billing": "tech", "tech": "sales", "sales": "billing"}[right]


def _written(request: str) -> str:
    current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
    if current is None:
        names = re.findall(r"\[([\w.]+)\]", request)
        wrong = next((name for name in names if "route" in name and name.endswith("system")), "route")
        return f"[{wrong}] Tickets go to the wrong queue."
    return f"```\n{current[1].replace('Route', 'Read closely, then route')}\n```"


def _stream(text: str) -> Reply:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake-1"}
    pieces = [{"delta": {"content": piece}, "finish_reason": None} for piece in re.findall(r"\S+\s*", text)]
    chunks = [
        {**head, "choices": [{"index": 0, **piece}]}
        for piece in [*pieces, {"delta": {}, "finish_reason": "stop"}]
    ]
    chunks[-1]["usage"] = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return Reply(body="".join([*lines, "data: [DONE]\n\n"]), headers={"Content-Type": "text/event-stream"})


@contextmanager
def desk_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    """The endpoint at work, where the desk asks it."""
    with fake_endpoint(reply_to) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        yield endpoint


def desk_config(folder: Path, **changes: Any) -> RunConfig:
    settings: dict[str, Any] = {
        "dataset": write_tickets(folder / "tickets.jsonl"),
        "input_field": "text",
        "target_field": "queue",
        "base_url": os.environ["DESK_URL"],
        "optimizer_model": "w",
        "preset": "quick",
        "max_demos": 0,
        "no_memory": True,
        "no_cache": True,
        "runs_dir": folder / "runs",
    }
    return RunConfig(**{**settings, **changes})
