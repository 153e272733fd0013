"""Demonstrations reach Dify: what its engine builds from an exported file is what the run sent.

`turns/NAME.yml` is the export of `NAME.yml` with the demonstrations below; `benchmarks/dify_turns.py` records
beside it the messages that graphon 0.8.0 builds from that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt.evaluation.checks import demo_warnings
from autoprompt.llm import ScriptedClient
from autoprompt.records import Candidate, Demo, Example
from autoprompt.settings.records import RunConfig
from autoprompt.workflow import Workflow
from autoprompt.workflow.program import WorkflowProgram
from autoprompt.workflow.task import open_workflow

DIFY = Path(__file__).parent / "dify"
TURNS = DIFY / "turns"
NODE = "1750000000002"
NAMES = ["llm_end", "llm_empty_system", "llm_one_message"]
# What YAML and templates take for their own: quotes, line ends, braces, blanks, signs beyond ASCII.
SHOWN = [
    ('it\'s "fine": {{x}} - {y} #1', "subjective"),
    ("line one\n\n  line two\t.", "objective"),
    ("一部 “好” 电影 \U0001f600", "subjective\nsurely"),
]


def candidate(name: str) -> Candidate:
    texts = dict(Workflow.load(DIFY / f"{name}.yml").components)
    component = next(iter(texts))
    asked = "Subjective or objective? " if name == "llm_empty_system" else ""
    demos = [Demo(asked + user, answer, component=component) for user, answer in SHOWN]
    return Candidate(texts, tuple(demos))


def rows() -> list[str]:
    inputs = json.loads((TURNS / "inputs.json").read_text(encoding="utf-8"))
    return [row["1750000000001.text"] for row in inputs]


def exported(name: str) -> str:
    return open_workflow(RunConfig(), DIFY / f"{name}.yml").file_with(candidate(name))


def sent(workflow: Workflow, shown: Candidate, text: str) -> list[dict[str, Any]]:
    client = ScriptedClient(["subjective"])
    program = WorkflowProgram(workflow, client, "result")
    row = Example("1", text, "subjective", {"text": text})
    assert program.run(row, shown).text == "subjective"
    return [message.to_dict() for message in client.calls[0]]


def recorded(name: str) -> list[list[dict[str, str]]]:
    read: list[list[dict[str, str]]] = json.loads(
        (TURNS / f"{name}.messages.json").read_text(encoding="utf-8")
    )
    return read


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_the_one_that_was_recorded(name: str) -> None:
    assert exported(name) == (TURNS / f"{name}.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_dify_builds_the_messages_that_the_run_sent(name: str) -> None:
    workflow = Workflow.load(DIFY / f"{name}.yml")
    assert [sent(workflow, candidate(name), row) for row in rows()] == recorded(name)


@pytest.mark.parametrize("name", NAMES)
def test_so_does_the_exported_file_here(name: str) -> None:
    workflow = Workflow.load(TURNS / f"{name}.yml")
    plain = Candidate(dict(workflow.components))
    assert [sent(workflow, plain, row) for row in rows()] == recorded(name)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_the_file_shows_are_told_when_it_is_scored(name: str) -> None:
    config = RunConfig()
    opened = open_workflow(config, TURNS / f"{name}.yml")
    shown = Example("1", SHOWN[1][0], "objective", {"text": SHOWN[1][0]})
    other = Example("2", "It was a long day for all.", "subjective", {"text": "It was a long day for all."})
    (warning,) = demo_warnings(opened, Candidate(opened.texts), [shown, other], (), config)
    assert warning.code == "prompt.rows-shown"
    assert "1 of the rows is in the prompt, in its text or as demonstrations" in str(warning)
    assert demo_warnings(opened, Candidate(opened.texts), [other], (), config) == []


def test_turns_are_messages_of_the_node() -> None:
    roles = [message["role"] for message in recorded("llm_end")[0]]
    assert roles == ["system", *["user", "assistant"] * 3, "user"]


def test_without_a_message_of_the_user_the_text_holds_them() -> None:
    ((message, *rest), *_) = recorded("llm_one_message")
    assert rest == []
    assert message["content"] == (
        "Say whether the sentence is subjective or objective.\n\nExamples:\n\n"
        'Input: it\'s "fine": {{x}} - {y} #1\nAnswer: subjective\n\n'
        "Input: line one\n\n  line two\t.\nAnswer: objective\n\n"
        "Input: 一部 “好” 电影 \U0001f600\nAnswer: subjective\nsurely\n\n"
        f"Sentence: {rows()[0]}\nAnswer with one word."
    )
