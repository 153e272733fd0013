"""Templates of nodes and prompts: what they may take, and which node is named when they take more."""

from __future__ import annotations

import time
from typing import Any

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.records import Message
from autoprompt.workflow import NodeError, RunSettings, Workflow, WorkflowDefinitionError
from autoprompt.workflow.file.validation import validate

START = {"id": "start", "type": "start", "data": {"variables": [{"variable": "q", "type": "paragraph"}]}}
VARIABLES = [{"variable": "q", "value_selector": ["start", "q"]}]
ENDLESS = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
LARGE = "{{ q.ljust(2000000000) }}"


def transform(template: str) -> dict[str, Any]:
    return {
        "id": "fill",
        "type": "template-transform",
        "data": {"template": template, "variables": VARIABLES},
    }


def prompt(template: str) -> dict[str, Any]:
    message = {"role": "user", "edition_type": "jinja2", "jinja2_text": template}
    config = {"jinja2_variables": VARIABLES}
    return {
        "id": "fill",
        "type": "llm",
        "data": {"model": "m", "prompt_template": [message], "prompt_config": config},
    }


def run(node: dict[str, Any], client: ScriptedClient | None = None, **settings: Any) -> dict[str, Any]:
    made = RunSettings(client=client or ScriptedClient(["fine"]), **settings)
    return Workflow.load({"nodes": [START, node]}).run({"q": "hello"}, settings=made)


def test_nodes_and_prompts_are_filled() -> None:
    assert run(transform("{{ q|upper }}")) == {"output": "HELLO"}
    client = ScriptedClient(["fine"])
    run(prompt("Say {{ q }}"), client)
    assert client.calls[0][-1] == Message("user", "Say hello")


@pytest.mark.parametrize(
    ("made", "template", "limit"),
    [
        (transform, ENDLESS, "takes longer than 5 s"),
        (prompt, LARGE, "needs more than 512 MB of memory"),
    ],
    ids=["time of a node", "memory of a prompt"],
)
def test_the_error_names_the_node_and_the_limit(made: Any, template: str, limit: str) -> None:
    client = ScriptedClient(["fine"])
    with pytest.raises(NodeError, match=rf"^node 'fill': the template {limit}"):
        run(made(template), client)
    assert client.calls == []


def test_an_error_strategy_copes_with_it() -> None:
    node = transform(LARGE)
    node["data"] |= {
        "error_strategy": "default-value",
        "default_value": [{"key": "output", "type": "string", "value": "-"}],
    }
    assert run(node)["output"] == "-"


def test_a_candidates_template_is_limited_like_the_files() -> None:
    with pytest.raises(NodeError, match="node 'fill': the template needs more than 512 MB"):
        run(prompt("Say {{ q }}"), components={"fill.user": LARGE})


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ " + "(" * 2000 + "1", "the template is nested too deeply"),
        ("{% if 1 %}" * 2000, "the template is nested too deeply"),
        ("{{ q }", "line 1 of the template"),
        ("{{ " + "1" * 5000 + " }}", "4300 digits"),
        ("x" * 400_001, "a template of 400,001 characters, expected at most 400,000"),
    ],
)
def test_a_template_that_cannot_be_read_is_told_before_a_run(template: str, said: str) -> None:
    (fault,) = validate({"nodes": [START, transform(template)]})
    assert (fault.node_id, said in fault.message) == ("fill", True)
    with pytest.raises(WorkflowDefinitionError, match="fill"):
        Workflow.load({"nodes": [START, transform(template)]})


@pytest.mark.parametrize(
    "template",
    ["{{ q }}" * 57_000, "{{ 1" + "+1" * 190_000 + " }}", "{% set a = 1 %}" * 26_000, "{#" * 190_000],
)
def test_a_long_template_is_checked_in_seconds(template: str) -> None:
    begun = time.process_time()
    validate({"nodes": [START, transform(template)]})
    assert time.process_time() - begun < 20
