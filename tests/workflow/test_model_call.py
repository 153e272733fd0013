"""One request to a model for a node: what is sent, and the JSON in its answer."""

from __future__ import annotations

from typing import Any

import pytest
from fake_endpoint import answer, fake_endpoint
from flow_runs import flow, outputs_of, over_items, run_flow

from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, ToolSchema
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import LLMNode, RunSettings, Workflow
from autoprompt.workflow.engine.events import WorkflowWarning
from autoprompt.workflow.engine.model_call import read_json_answer, read_structured
from autoprompt.workflow.nodes.agent_model import written_calls

LETTER = """
    nodes:
      - {id: write, type: llm, data: {model: m, prompt_template: Write a letter.}}
      - {id: again, type: llm, data: {model: m, prompt_template: "Once more: {{#write.text#}}"}}
"""
ENDLESS = "[" * 100_000
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


def warnings(workflow: Workflow, **settings: Any) -> list[str]:
    events = list(workflow.stream({}, settings=RunSettings(**settings)))
    return [f"{e.node_id}: {e.message}" for e in events if isinstance(e, WorkflowWarning)]


def test_a_limit_of_the_file_is_sent_as_it_is_and_no_limit_leaves_room_for_thoughts() -> None:
    own = "model: {name: m, completion_params: {max_tokens: 50}}, prompt_template: Write"
    limited = LETTER.replace("model: m, prompt_template: Write", own)
    with fake_endpoint(lambda body: answer("Dear Sir")) as endpoint:
        models = ModelSettings(model="fake-1", base_url=endpoint.base_url)
        Workflow.load(flow(limited)).run({}, settings=RunSettings(models=models))
    assert [body["max_tokens"] for body in endpoint.requests] == [
        50,
        9216,
    ]  # as docs/reference/workflow-files.md says


def test_an_answer_that_breaks_off_is_told_with_what_gives_it_more_room() -> None:
    with fake_endpoint(lambda body: answer("Dear Mr", finish_reason="length")) as endpoint:
        said = warnings(
            Workflow.load(flow(LETTER)), models=ModelSettings(model="fake-1", base_url=endpoint.base_url)
        )
        assert len(endpoint.requests) == 2
    assert said == [
        f"{node}: an answer was cut off at its length limit. To raise it: max_tokens in the "
        "completion_params of its model, or max_output_tokens for all nodes"
        for node in ("write", "again")
    ]


def test_it_is_told_once_for_a_node() -> None:
    short = '- {id: short, type: llm, data: {model: m, prompt_template: "{{#each.item#}}"}}'
    content = over_items(short, "short.text")
    content["nodes"][0]["data"]["variables"][0]["default"] = ["a", "b", "c"]
    client = ScriptedClient(lambda messages: Completion("so", finish_reason="length"))
    assert len(warnings(Workflow.load(content), client=client)) == 1


@pytest.mark.parametrize("limit", [None, 30])
def test_a_step_in_python_tells_it_too(limit: int | None) -> None:
    client = ScriptedClient([Completion("so", finish_reason="length")])
    (said,) = warnings(Workflow([LLMNode("ask", "Ask", "Say.", llm_client=client, max_output_tokens=limit)]))
    assert "cut off at its length limit" in said


def test_a_class_is_whole_whatever_ended_it() -> None:
    content = flow("""
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - id: sort
            type: question-classifier
            data: {model: m, query_variable_selector: [start, q], classes: [bug, question]}
          - {id: say, type: answer, data: {answer: done}}
        edges:
          - {source: start, target: sort}
          - {source: sort, sourceHandle: bug, target: say}
          - {source: sort, sourceHandle: question, target: say}
    """)
    client = ScriptedClient([Completion("bug", finish_reason="length")])
    events = list(Workflow.load(content).stream({"q": "It breaks."}, settings=RunSettings(client=client)))
    assert not [e for e in events if isinstance(e, WorkflowWarning)]


@pytest.mark.parametrize("answer", [ENDLESS, f"Here it is: {ENDLESS}", f"```json\n{ENDLESS}\n```"])
def test_brackets_without_an_end_are_no_json(answer: str) -> None:
    with pytest.raises(ValueError, match="holds no JSON"):
        read_json_answer(answer)


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
