"""Reasoning models: what they think before they answer is no part of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.workflow import LLMNode, RunSettings, Workflow
from autoprompt.workflow.engine.tools import tool

TRIED = '<think>Is it {"fare": 1}? No.</think>\n\n'
UNOPENED = 'Is it {"fare": 1}? No.\n</think>\n\n'  # of chat templates that open the thought in the prompt

CHANNELS = (
    '<|channel|>analysis<|message|>Is it {"fare": 1}? No.<|end|><|start|>assistant<|channel|>final<|message|>'
)


def outputs_of(node: dict[str, Any], answers: Sequence[str], **more: Any) -> dict[str, Any]:
    start = {"id": "start", "type": "start", "data": {"variables": ["q"]}}
    flow = Workflow.load({"nodes": [start, node], **more})
    return flow.run({"q": "the fare?"}, settings=RunSettings(client=ScriptedClient(list(answers))))


@pytest.mark.parametrize("thought", [TRIED, UNOPENED, CHANNELS])
def test_parameters_are_not_taken_from_a_thought(thought: str) -> None:
    data = {"query": ["start", "q"], "parameters": [{"name": "fare", "type": "number"}]}
    node = {"id": "x", "type": "parameter-extractor", "data": data}
    assert outputs_of(node, [thought + '{"fare": 2}'])["fare"] == 2


@pytest.mark.parametrize("thought", [TRIED, UNOPENED, CHANNELS])
def test_structured_output_and_the_thought_apart(thought: str) -> None:
    schema = {"type": "object", "properties": {"fare": {"type": "number"}}}
    data = {
        "prompt_template": "{{#start.q#}}",
        "structured_output_enabled": True,
        "structured_output": {"schema": schema},
        "reasoning_format": "separated",
    }
    found = outputs_of({"id": "x", "type": "llm", "data": data}, [thought + '{"fare": 2}'])
    assert found["structured_output"] == {"fare": 2}
    assert (found["text"], found["reasoning_content"]) == ('{"fare": 2}', 'Is it {"fare": 1}? No.')


def test_a_text_in_the_final_channel_alone_is_without_its_marks() -> None:
    data = {"prompt_template": "{{#start.q#}}", "reasoning_format": "separated"}
    found = outputs_of({"id": "x", "type": "llm", "data": data}, ["<|channel|>final<|message|>2<|return|>"])
    assert (found["text"], found["reasoning_content"]) == ("2", "")


def test_json_of_a_python_node() -> None:
    node = LLMNode(
        "x",
        "X",
        "{q}",
        "rating",
        ScriptedClient([TRIED + '{"fare": 2}']),
        output_format="json",
        output_keys=["fare"],
    )
    assert Workflow([node]).run({"q": "?"})["fare"] == 2


def test_an_extraction_hands_on_the_answer_alone() -> None:
    asked = []

    @tool("search_of_thoughts")
    def search(query: str) -> str:
        asked.append(query)
        return "found"

    ask = {"id": "ask", "type": "llm", "data": {"model": "m", "prompt_template": "{{#start.q#}}"}}
    given = {"query": "@ask.context | Keywords"}
    data = {"tool_name": "search_of_thoughts", "tool_parameters": given, "virtual_nodes": [ask]}
    node = {"id": "look", "type": "tool", "data": data}
    outputs_of(node, ["hello", "<think>Hm.</think>\n\nmean fare"])
    assert asked == ["mean fare"]


def test_a_call_in_a_thought_is_not_made() -> None:
    called = []

    @tool("delete_of_thoughts")
    def delete(name: str) -> str:
        called.append(name)
        return "gone"

    data = {"model": "m", "query": "{{#start.q#}}", "tools": ["delete_of_thoughts"]}
    call = '<tool_call>{"name": "delete_of_thoughts", "arguments": {"name": "all"}}</tool_call>'
    outputs_of({"id": "x", "type": "agent", "data": data}, [f"<think>{call}? No.</think>It is kept."])
    assert called == []
