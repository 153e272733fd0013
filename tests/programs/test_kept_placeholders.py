"""A draft that breaks a placeholder is tried once more with the reason, and never reaches the program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from desk_model import desk_config, reply_to
from fake_endpoint import Reply, answer, fake_endpoint
from openai import OpenAI

import autoprompt
from autoprompt.programs.prompts import unformattable

ROUTE = autoprompt.Prompt("kept_route", "Route the ticket to {queues}.")
QUEUES = "billing, tech or sales"


def desk(text: str) -> str:
    import os

    turns: list[Any] = [
        {"role": "system", "content": ROUTE.format(queues=QUEUES)},
        {"role": "user", "content": f"Ticket: {text}"},
    ]
    with OpenAI(base_url=os.environ["DESK_URL"], api_key="key") as client:
        reply = client.chat.completions.create(model="m", messages=turns)
    return reply.choices[0].message.content or ""


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("Read closely, then route the ticket.", "it loses {queues}"),
        ("Read closely, then route the ticket of {tone} to {queues}.", "it adds {tone}"),
    ],
)
def test_a_lost_or_new_placeholder_is_put_right_at_the_second_try(
    first: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def reply(body: dict[str, Any]) -> Reply:
        request = body["messages"][-1]["content"]
        if body["model"] != "w" or "<current>" not in request:
            return reply_to(body)
        refused = re.search(r"was refused: (.*?)\. Write", request)
        told.extend(refused.groups() if refused else ())
        return answer(f"```\n{'Read closely, then route the ticket to {queues}.' if refused else first}\n```")

    with fake_endpoint(reply) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        result = autoprompt.optimize(desk_config(tmp_path), program=desk)
    assert set(told) == {reason}
    assert result.best.components["kept_route"] == "Read closely, then route the ticket to {queues}."
    asked = {body["messages"][0]["content"] for body in endpoint.requests if body["model"] == "m"}
    assert all(QUEUES in text and "{" not in text for text in asked)
    assert f"Read closely, then route the ticket to {QUEUES}." in asked


@pytest.mark.parametrize(
    ("original", "text", "why"),
    [
        ("Of {a}.", 'Of {a}, as {"k": 1}.', 'adds {"k"}'),
        ("Of {a}.", "Of {a} and {b}.", "adds {b}"),
        ("Of {a}.", "Of {a} and {.", "cannot be formatted: expected '}' before end of string"),
        ("Of {a}.", "Say {{k}} of {a}.", ""),
        ("Plain.", "As {", ""),
    ],
)
def test_a_text_that_cannot_be_formatted_is_told_from_one_that_can(
    original: str, text: str, why: str
) -> None:
    assert unformattable(original, text) == why
