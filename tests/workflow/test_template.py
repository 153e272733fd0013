"""`{{#node.variable#}}` in texts, and that what a user or a document says is no template."""

from __future__ import annotations

from typing import Any

import pytest
from flow_runs import flow, run_flow

from autoprompt.workflow import VariableNotFoundError, VariablePool
from autoprompt.workflow.engine.template import only_reference, references, render, render_in

POOL = VariablePool(
    {
        "llm1": {"text": "hi", "list": [1, "二"], "none": None, "flag": True},
        "tool1.ext_1": {"text": "k"},
        "sys": {"query": "{{#llm1.text#}}"},
    }
)


def test_references_in_order_and_once() -> None:
    text = "{{#b.x#}} {{# a.y.z #}} {{#b.x#}} {{no}} {{#1754982121363.text#}}"
    assert references(text) == (("b", "x"), ("a", "y", "z"), ("1754982121363", "text"))


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{#llm1.text#}}!", "hi!"),
        ("{{#llm1.list#}}", "[1, '二']"),
        ("{{#llm1.list.1#}}", "二"),
        ("{{#llm1.none#}}", ""),
        ("{{#llm1.flag#}}", "True"),
        ("{{#tool1.ext_1.text#}}", "k"),
        ('{"a": {"b": 1}} {{ jinja }} {x}', '{"a": {"b": 1}} {{ jinja }} {x}'),
    ],
)
def test_render(text: str, filled: str) -> None:
    assert render(text, POOL) == filled


def test_a_value_is_not_looked_into() -> None:
    assert render("{{#sys.query#}}", POOL) == "{{#llm1.text#}}"


def test_a_variable_that_is_not_there_is_an_error_not_literal_text() -> None:
    with pytest.raises(VariableNotFoundError, match=r"llm1.txt .*llm1.text"):
        render("{{#llm1.txt#}}", POOL)


def test_inputs_of_a_node_by_name() -> None:
    assert render("{{#city#}}", POOL, {"city": "Kyiv"}) == "Kyiv"


def test_nested() -> None:
    assert render_in({"a": ["{{#llm1.text#}}", 3]}, POOL) == {"a": ["hi", 3]}


def test_only_reference() -> None:
    assert only_reference(" {{#a.b#}} ") == ("a", "b")
    assert only_reference("x {{#a.b#}}") is None


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
