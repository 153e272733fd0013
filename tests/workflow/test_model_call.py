"""Requests of nodes to a model: what is told of an answer that broke off."""

from __future__ import annotations

from typing import Any

import pytest
from fake_endpoint import answer, fake_endpoint
from flow_runs import flow

from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import LLMNode, RunSettings, Workflow
from autoprompt.workflow.engine.events import WorkflowWarning

LETTER = """
    nodes:
      - {id: write, type: llm, data: {model: m, prompt_template: Write a letter.}}
      - {id: again, type: llm, data: {model: m, prompt_template: "Once more: {{#write.text#}}"}}
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
    assert [body["max_tokens"] for body in endpoint.requests] == [50, 9216]  # as docs/workflow-files.md says


def test_an_answer_that_breaks_off_is_told_with_what_gives_it_more_room() -> None:
    with fake_endpoint(lambda body: answer("Dear Mr", finish_reason="length")) as endpoint:
        said = warnings(
            Workflow.load(flow(LETTER)), models=ModelSettings(model="fake-1", base_url=endpoint.base_url)
        )
        assert len(endpoint.requests) == 2
    assert said == [
        f"{node}: an answer broke off at the limit of its length. More room: max_tokens in the "
        "completion_params of its model, or max_output_tokens for all nodes"
        for node in ("write", "again")
    ]


def test_it_is_told_once_for_a_node() -> None:
    content = flow("""
        nodes:
          - {id: start, type: start, data: {variables: [{variable: items, type: array, default: [a, b, c]}]}}
          - id: each
            type: iteration
            data:
              iterator_selector: [start, items]
              output_selector: [short, text]
              nodes:
                - {id: short, type: llm, data: {model: m, prompt_template: "{{#each.item#}}"}}
    """)
    client = ScriptedClient(lambda messages: Completion("so", finish_reason="length"))
    assert len(warnings(Workflow.load(content), client=client)) == 1


@pytest.mark.parametrize("limit", [None, 30])
def test_a_step_in_python_tells_it_too(limit: int | None) -> None:
    client = ScriptedClient([Completion("so", finish_reason="length")])
    (said,) = warnings(Workflow([LLMNode("ask", "Ask", "Say.", llm_client=client, max_output_tokens=limit)]))
    assert "broke off at the limit of its length" in said


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
