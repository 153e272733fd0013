"""The programs in `examples/` are optimized without a key, as the command on their page does it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, answer, fake_endpoint

import autoprompt

ROOT = Path(autoprompt.__file__).parents[1]
TOLD = "Read it closely. "


def knows(text: str) -> int:
    """Whether the model gets a row right though it is not told to read closely."""
    return sha256(text.encode()).digest()[0] % 2


def headline_reply(body: dict[str, Any]) -> Reply:
    system, said = (turn["content"] for turn in body["messages"])
    if "Which label" in system:
        return answer(said[-1])
    rows = map(json.loads, (ROOT / "datasets" / "clickbait.jsonl").read_text("utf-8").splitlines())
    label = next(row["label"] for row in rows if row["headline"] == said)
    label = label if TOLD in system or knows(said) else 1 - label
    return answer(f"It is {label}" if len(said) % 3 == 0 else str(label))


def team_of(text: str) -> str:
    words = {"shipping": ("parcel", "arrived", "crushed"), "billing": ("charged", "invoice", "refund")}
    return next((team for team, known in words.items() if any(word in text for word in known)), "support")


def agent_reply(body: dict[str, Any]) -> Reply:
    system, ticket = (turn["content"] for turn in body["messages"][:2])
    if body["messages"][-1]["role"] != "tool":
        reply = answer(None)
        given = json.dumps({"number": "B2"})
        call = {"id": "c", "type": "function", "function": {"name": "find_order", "arguments": given}}
        reply.body["choices"][0]["message"]["tool_calls"] = [call]
        return reply
    return answer(team_of(ticket) if TOLD in system or knows(ticket) else "sales")


def function_reply(body: dict[str, Any]) -> Reply:
    system, said = (turn["content"] for turn in body["messages"])
    if "Route" not in system:
        return answer("late" if "topic" in system else "calm")
    ticket = said.partition("Ticket: ")[2]
    return answer(team_of(ticket) if TOLD in system or knows(ticket) else "sales")


def written(request: str, blamed: str) -> str:
    current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
    return f"[{blamed}] It does not read closely." if current is None else f"```\n{TOLD}{current[1]}\n```"


EXAMPLES: dict[str, tuple[str, str, str, str, Callable[[dict[str, Any]], Reply]]] = {
    "examples.headlines:graph": (
        "datasets/clickbait.jsonl",
        "headline",
        "label",
        "judge.classify.system",
        headline_reply,
    ),
    "examples.ticket_agent:agent": ("examples/tickets.jsonl", "text", "team", "model.system", agent_reply),
    "examples.ticket_function:route": (
        "examples/tickets.jsonl",
        "text",
        "team",
        "ask.system3",
        function_reply,
    ),
}


@pytest.mark.parametrize("address", EXAMPLES)
def test_an_example_is_optimized_to_a_confirmed_gain(address: str, tmp_path: Path) -> None:
    dataset, input_field, target_field, component, reply_to = EXAMPLES[address]

    def reply(body: dict[str, Any]) -> Reply:
        if body["model"] != "w":
            return reply_to(body)
        return answer(written(body["messages"][-1]["content"], component))

    rows = (ROOT / dataset).read_text("utf-8").splitlines(keepends=True)[:120]
    (tmp_path / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    command = [sys.executable, "-m", "autoprompt", "run", "--program", address]
    command += ["--dataset", str(tmp_path / "rows.jsonl"), "--input-field", input_field]
    command += ["--target-field", target_field, "--optimizer-model", "w", "--preset", "quick", "--json"]
    command += ["--no-memory", "--no-cache", "--runs-dir", str(tmp_path / "runs"), "--set", "max_demos=0"]
    with fake_endpoint(reply) as endpoint:
        variables = {**os.environ, "OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "key"}
        ended = subprocess.run(
            [*command, "--base-url", endpoint.base_url],
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    best = result["best"]["components"]
    assert result["verdict"] == "confirmed"
    assert [name for name, text in best.items() if TOLD in text] == [component]
