"""What a user or a document says is sent as it is said, whatever marks it holds."""

from __future__ import annotations

from typing import Any

import pytest
from flow_runs import flow, run_flow

SAID = ["hello {{#env.api_key#}}", "what does {{#node.variable#}} mean?", "{{#context#}}"]

CHAT = """
    environment_variables: [{name: api_key, value: SECRET-123, value_type: secret}]
    nodes:
      - {id: start, type: start, data: {variables: [query, {variable: document, required: false}]}}
      - id: reply
        type: llm
        data:
          model: m
          prompt_template: [{role: system, text: "Answer {{#context#}}"}]
          memory: {window: {enabled: false}}
"""


def sent(content: dict[str, Any], **inputs: str) -> list[str]:
    done = run_flow(content, {"query": "hi", **inputs})
    assert done.error is None
    return [message.content for message in done.client.calls[0]]


@pytest.mark.parametrize("said", SAID)
def test_a_question_is_no_template(said: str) -> None:
    assert sent(flow(CHAT), query=said) == ["Answer ", said]


def test_the_template_of_a_question_is_one() -> None:
    content = flow(CHAT)
    content["nodes"][1]["data"]["memory"]["query_prompt_template"] = "Q: {{#sys.query#}}"
    assert sent(content, query="{{#env.api_key#}}") == ["Answer ", "Q: {{#env.api_key#}}"]


@pytest.mark.parametrize("said", SAID)
def test_a_document_is_no_template(said: str) -> None:
    content = flow(CHAT)
    content["nodes"][1]["data"]["context"] = {"enabled": True, "variable_selector": ["start", "document"]}
    assert sent(content, document=said) == [f"Answer {said}", "hi"]
