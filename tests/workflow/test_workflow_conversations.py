"""Conversations in the start variables of a workflow: as turns, as a text, and as `sys.query`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoprompt import Models, RunConfig, evaluate
from autoprompt.errors import DatasetError, InputError
from autoprompt.llm import ScriptedClient
from autoprompt.workflow.workflow import Workflow

FLOW = """\
name: chats
nodes:
  - {{id: start, type: start, data: {{variables: [{variable}]}}}}
  - id: ask
    type: llm
    data: {{prompt_template: [{{role: system, text: Sort.}}, {{role: user, text: "{user}"}}]}}
  - {{id: end, type: end, data: {{outputs: {{kind: [ask, text]}}}}}}
"""
TURNS = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "What is it?"},
    {"role": "user", "content": "A refund"},
]
TEXT = "User: Hi\nAssistant: What is it?\nUser: A refund"


def write(folder: Path, variable: str, user: str) -> Path:
    path = folder / "flow.yaml"
    path.write_text(FLOW.format(variable=variable, user=user), encoding="utf-8")
    return path


def asked(path: Path, value: Any, field: str = "chat") -> str:
    client = ScriptedClient(["billing"] * 2)
    config = RunConfig(
        workflow=path, input_field=field, runs_dir=path.parent, no_cache=True, labels=("billing", "tech")
    )
    evaluate(config, rows=[{field: value, "target": "billing"}], models=Models(client))
    return client.calls[0][-1].content


@pytest.mark.parametrize(
    ("variable", "user", "sent"),
    [
        ('{variable: chat, type: "array[object]"}', "{{#start.chat.2.content#}}", "A refund"),
        ('{variable: chat, type: "array[object]"}', "{{#sys.query#}}", "A refund"),
        ("{variable: chat, type: paragraph}", "{{#start.chat#}}", TEXT),
        ("{variable: ticket, type: text-input}", "{{#start.ticket#}}", TEXT),
        ("ticket", "{{#start.ticket#}}", TEXT),
        ('{variable: ticket, type: "array[object]"}', "{{#start.ticket.0.role#}}", "user"),
    ],
)  # fmt: skip
def test_a_variable_gets_turns_or_a_text(tmp_path: Path, variable: str, user: str, sent: str) -> None:
    assert asked(write(tmp_path, variable, user), TURNS) == sent


def test_the_answer_at_the_end_is_the_target_and_not_sent(tmp_path: Path) -> None:
    path = write(tmp_path, "{variable: chat, type: paragraph}", "{{#start.chat#}}")
    client = ScriptedClient(["billing"])
    config = RunConfig(workflow=path, input_field="chat", no_cache=True, labels=("billing", "tech"))
    rows = [{"chat": [*TURNS, {"role": "assistant", "content": "billing"}]}]
    report = evaluate(config, rows=rows, models=Models(client))
    assert (report.score, client.calls[0][-1].content) == (1.0, TEXT)


@pytest.mark.parametrize(
    ("variable", "field", "message"),
    [
        ("ticket", "chat", r"rows\[0\]: the input 'chat' is not a conversation: it is an object\. Name a"),
        ("{variable: ticket, type: paragraph}", "chat", r"'chat' is not a conversation: .* object\. Name a"),
        ("{variable: chat, type: paragraph}", "chat", r"input chat is .*, expected a text"),
        ("{variable: query}", "chat", "the input 'chat' is not a conversation: it is an object"),
    ],
)  # fmt: skip
def test_an_object_is_no_text(tmp_path: Path, variable: str, field: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        asked(write(tmp_path, variable, "{{#sys.query#}}"), {"a": 1}, field)


def test_a_run_of_the_file_alone_has_the_same_rule(tmp_path: Path) -> None:
    typed = Workflow.load(write(tmp_path, "{variable: chat, type: paragraph}", "{{#start.chat#}}"))
    with pytest.raises(
        InputError, match=r"input chat is \[1\], expected a text.* declare .* array\[object\]"
    ):
        typed.run({"chat": [1]})
    with pytest.raises(InputError, match="declare the variable as json_object"):
        typed.run({"chat": {"a": 1}})
