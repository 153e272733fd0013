"""An endpoint that takes no long prompt: what is tried then, what is said, and what is not learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes import World, run_config, writer

from autoprompt import Models, optimize
from autoprompt.errors import RequestRefusedError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Message

WORLD = World(base=0.2, rule_gain=0.5, demo_gain=0.4)
ROOM = 20  # messages


def cramped(messages: list[Message], options: Options) -> Completion:
    if len(messages) > ROOM:
        raise RequestRefusedError("HTTP 400: the context is 300 tokens.", status=400)
    return WORLD.student(messages, options)


def test_what_is_too_long_for_the_endpoint_is_said_and_tried_with_less(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    models = Models(ScriptedClient(cramped, name="student"), ScriptedClient(writer, name="writer"))
    config = run_config(tmp_path, rows=300, preset="standard", max_calls=900, no_reasoning=True)
    result = optimize(config, models=models, on_event=events.append).to_dict()

    refused = [e for e in events if e["event"] == "candidate_settled" and e["refused"]]
    assert refused
    assert all(e["refused"] == e["rows"] and not e["accepted"] for e in refused)
    (said,) = [w["message"] for w in result["warnings"] if w["code"] == "model.prompt-too-long"]
    assert "the context is 300 tokens. Use max_prompt_tokens=" in said
    # 16 demonstrations are 34 messages. Smaller sets come in their place.
    demos = len(result["best"]["demos"])
    assert 2 <= demos <= (ROOM - 2) / 2
    assert result["best"]["score"] > result["original"]["score"]


def test_what_was_refused_is_known_to_a_resumed_run() -> None:
    record = {
        "id": "", "components": {"prompt": "p"}, "status": "rejected",
        "scores": {"r1": 0.0}, "refusals": {"r1": "too long"},
    }  # fmt: skip
    record["id"] = next(iter(Pool.from_records([record]).entries)).candidate.id
    (entry,) = Pool.from_records([record]).entries
    assert entry.is_refused
    assert Pool.from_records(Pool.from_records([record]).to_records([entry.candidate.id])).entries == (entry,)
