"""JSON in the answer of a model that repeats itself."""

from __future__ import annotations

from typing import Any

import pytest
from flow_runs import outputs_of, run_flow

from autoprompt.llm.client import ToolSchema
from autoprompt.workflow.engine.json_answer import read_json_answer, read_structured
from autoprompt.workflow.nodes.agent_model import written_calls

ENDLESS = "[" * 100_000


@pytest.mark.parametrize("answer", [ENDLESS, f"Here it is: {ENDLESS}", f"```json\n{ENDLESS}\n```"])
def test_brackets_without_an_end_are_no_json(answer: str) -> None:
    with pytest.raises(ValueError, match="holds no JSON"):
        read_json_answer(answer)


ROME = {"city": "Rome"}
BEHIND_OTHERS = [
    'The format is {"city": "X"}. Answer: {"city": "Rome"}',
    'According to [1], the answer is {"city": "Rome"}',
    'The answer is {"city": "Rome"}, see [1].',
    '```json\n{"city": "X"}\n```\nis the form, so:\n```json\n{"city": "Rome"}\n```',
    "Of the sets {x}, " * 300 + 'the answer is {"city": "Rome"}',
]
EXTRACTOR = """
    nodes:
      - {id: start, type: start, data: {variables: [q]}}
      - id: x
        type: parameter-extractor
        data: {model: m, query: [start, q], parameters: [{name: city, type: string, required: true}]}
"""
STRUCTURED = """
    nodes:
      - id: ask
        type: llm
        data:
          model: m
          prompt_template: Which city?
          retry_config: {max_retries: 1, retry_interval: 0}
          structured_output_enabled: true
          structured_output:
            schema: {type: object, properties: {city: {type: string}}, required: [city]}
"""


@pytest.mark.parametrize("said", BEHIND_OTHERS)
def test_of_several_values_the_answer_is_the_last_of_the_kind_that_is_asked_for(said: str) -> None:
    assert outputs_of(EXTRACTOR, {"q": "?"}, [said])["city"] == "Rome"
    assert run_flow(STRUCTURED, answers=[said]).node("ask").outputs["structured_output"] == ROME


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ('["Rome"]', "expected object, found array: '[\"Rome\"]'"),
        ('{"town": "Rome"}', 'the answer has no city: \'{"town": "Rome"}\''),
        ("Rome", "the answer holds no JSON: 'Rome'"),
    ],
)
def test_an_answer_that_does_not_fit_its_schema_fails_the_node(said: str, fault: str) -> None:
    again = run_flow(STRUCTURED, answers=[said, '{"city": "Rome"}'])
    assert again.node("ask").outputs["structured_output"] == ROME
    assert fault in str(run_flow(STRUCTURED, answers=[said, said]).error)


@pytest.mark.parametrize(
    ("schema", "said", "value"),
    [
        ({"type": "array"}, 'Of {"a": 1}: [1, 2], as in {"a": 2}', [1, 2]),
        ({"type": ["object", "null"]}, "null", None),
        ({"type": "number"}, "5", 5),
        ({"type": "integer"}, "5.0", 5),
        ({"properties": {"a": {}}}, '{"a": 1} as in [2]', {"a": 1}),
        ({"type": "boolean"}, "true", True),
        ({"type": "of its own"}, "[1]", [1]),
        ({}, "[1]", [1]),
    ],
)
def test_what_fits_is_taken(schema: dict[str, Any], said: str, value: Any) -> None:
    assert read_structured(said, schema) == value


@pytest.mark.parametrize("said", ["true", "1.5", '"1"'])
def test_what_is_no_integer_does_not_fit_as_one(said: str) -> None:
    with pytest.raises(ValueError, match="expected integer"):
        read_structured(said, {"type": "integer"})


def test_brackets_without_an_end_call_no_tool() -> None:
    tools = [ToolSchema("look", "Looks.", "{}")]
    assert written_calls('<tool_call>{"name": ' + ENDLESS + "}</tool_call>", tools, 1) == ()
