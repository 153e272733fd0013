"""Extractions that are written nearly right, their models, and what their errors and events carry."""

from __future__ import annotations

import json
import sqlite3
import textwrap
from pathlib import Path
from typing import Any

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.workflow import (
    ExtractionError,
    LLMNode,
    RunSettings,
    SourceNodeNotFoundError,
    StartNode,
    Workflow,
    WorkflowDefinitionError,
    tool,
)
from autoprompt.workflow.engine.events import NodeRunFailed, NodeRunSucceeded
from autoprompt.workflow.engine.extraction import PartialModel, model_asked
from autoprompt.workflow.engine.models import ModelSpec
from autoprompt.workflow.file.faults import Fault
from autoprompt.workflow.file.validation import validate

TALK: dict[str, Any] = {
    "provider": "anthropic",
    "name": "large",
    "mode": "chat",
    "completion_params": {"temperature": 0.7},
}


@tool
def forms_search(query: str) -> str:
    return f"found {query}"


def flow(query: Any = None, *, say: str = "ok", inputs: Any = None, mocks: Any = None) -> dict[str, Any]:
    data: dict[str, Any] = {"tool_name": "forms_search"}
    if query is not None:
        data["tool_parameters"] = {"query": query}
    if inputs is not None:
        data |= {"inputs": inputs, "tool_parameters": {"query": "x"}}
    return {
        "nodes": [
            {"id": "start", "type": "start", "data": {"variables": ["query"]}},
            {"id": "llm1", "type": "llm", "data": {"model": TALK, "prompt_template": "{{#start.query#}}"}},
            {"id": "tool1", "type": "tool", "data": data},
            {"id": "say", "type": "answer", "data": {"answer": say}},
        ],
        **({"mocks": mocks} if mocks else {}),
    }


def errors(content: dict[str, Any]) -> list[Fault]:
    return [fault for fault in validate(content) if fault.severity == "error"]


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("@llm1.context", '"@llm1.context | QUESTION"'),
        ("  @llm1.context  ", '"@llm1.context | QUESTION"'),
        ("@llm1.context |", '"@llm1.context | QUESTION"'),
        ("@llm1.context |   ", '"@llm1.context | QUESTION"'),
        ("@llm1.context ｜ 提取关键词", '"@llm1.context | 提取关键词"'),
        ("@llm1.context the keywords", '"@llm1.context | the keywords"'),
        ("@llm1 | the keywords", '"@llm1.context | the keywords"'),
        ("@llm1|", '"@llm1.context | QUESTION"'),
        ("＠llm1.context | the keywords", '"@llm1.context | the keywords"'),
    ],
)
@pytest.mark.parametrize("form", ["text", "mixed", "inputs"])
def test_a_shorthand_that_is_nearly_right_is_reported_with_the_right_form(
    written: str, right: str, form: str
) -> None:
    if form == "inputs":
        content = flow(inputs=[{"name": "query", "value": written}])
    else:
        content = flow(written if form == "text" else {"type": "mixed", "value": written})
    (fault,) = errors(content)
    assert (fault.code, fault.node_id) == ("workflow.extraction", "tool1")
    assert f"Write {right}" in fault.message
    assert written.strip() in fault.message
    with pytest.raises(WorkflowDefinitionError, match="Write "):
        Workflow.load(content)


@pytest.mark.parametrize(
    "text",
    ["me@llm1.context", "@nobody.context", "@llm1", "@llm1 please look", "@here | all", "see @llm1.context"],
)
def test_texts_with_an_at_sign_are_texts(text: str) -> None:
    assert errors(flow(text)) == []


@pytest.mark.parametrize("name", ["tool1_ext_1", "ext_1"])
def test_another_name_of_a_virtual_node_points_to_its_own(name: str) -> None:
    (fault,) = errors(flow("@llm1.context | kw", say=f"{{{{#{name}.text#}}}}"))
    assert fault.message == f"{name}.text: no node {name!r}. Did you mean 'tool1.ext_1'?"
    assert errors(flow("@llm1.context | kw", say="{{#tool1.ext_1.text#}}")) == []


def test_a_mock_of_another_name_points_to_the_virtual_node() -> None:
    (fault,) = errors(flow("@llm1.context | kw", mocks={"tool1_ext_1": {"outputs": {"text": "k"}}}))
    assert fault.message.startswith("mocks: no node 'tool1_ext_1'. Did you mean 'tool1.ext_1'?")


def extraction(**more: Any) -> dict[str, Any]:
    value = {"source_node_id": "llm1", "source_variable": "context", "extraction_prompt": "kw", **more}
    return {"name": "query", "type": "extraction", "value": value}


@pytest.mark.parametrize("prompt", ["", "  ", "\n"])
def test_an_empty_question_is_refused(prompt: str) -> None:
    (fault,) = errors(flow(inputs=[extraction(extraction_prompt=prompt)]))
    assert fault.code == "workflow.extraction"
    assert "extraction_prompt: the question is empty. Write what to take out of the conv" in fault.message


def test_two_inputs_of_one_name_are_refused() -> None:
    (fault,) = errors(flow(inputs=[extraction(), {"name": "other", "value": "x"}, extraction()]))
    assert (fault.code, fault.node_id) == ("workflow.doubled-input", "tool1")
    assert fault.message == "two inputs are named 'query'. Rename one of them."


def test_a_misspelt_node_without_a_variable_is_told_the_right_form() -> None:
    (fault,) = errors(flow("@lml1 | the keywords"))
    said = "query: '@lml1 | the keywords' names no node. Did you mean \"@llm1.context | the keywords\"?"
    assert fault.message == said


def test_a_node_of_python_tells_its_usage_too() -> None:
    ask = LLMNode("ask", "Ask", "Say {word}", "said", ScriptedClient(["hello"]))
    stream = Workflow([StartNode("start", "Start", ["word"]), ask]).stream({"word": "x"})
    found = {e.node_id: e for e in stream if isinstance(e, NodeRunSucceeded)}
    usage = found["ask"].llm_usage
    assert usage is not None
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert (found["start"].llm_usage, found["ask"].predecessor_node_id) == (None, "start")


# --- the source that is not there


def test_a_wrong_source_is_its_own_error_at_load_and_names_the_missing_node(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: llm1, type: llm, data: {model: m, prompt_template: Hello}}
          - {id: look, type: tool, data: {tool_name: find, tool_parameters: {query: "@llm9.context | kw"}}}
          - {id: say, type: answer, data: {answer: "{{#nothing.text#}}"}}
    """
    path = tmp_path / "flow.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    with pytest.raises(SourceNodeNotFoundError) as caught:
        Workflow.load(path)
    error = caught.value
    assert isinstance(error, WorkflowDefinitionError)
    assert isinstance(error, ExtractionError)
    assert (error.node_id, error.reader_node_id, error.exit_code) == ("llm9", "look.ext_1", 3)
    first, second = str(error).splitlines()
    assert first.startswith(f"{path} line 4: node 'look.ext_1': source node llm9 is not in the workflow.")
    assert second.startswith(f"{path} line 5: node 'say': nothing.text: no node 'nothing'.")
    codes = [(problem.code, problem.place.line) for problem in error.problems]
    assert codes == [("workflow.no-source-node", 4), ("workflow.fault", 5)]


def test_other_faults_stay_plain_definition_errors() -> None:
    with pytest.raises(WorkflowDefinitionError) as caught:
        Workflow.load(flow(say="{{#nothing.text#}}"))
    assert type(caught.value) is WorkflowDefinitionError


def test_the_reader_is_told_where_a_run_finds_it() -> None:
    error = SourceNodeNotFoundError("llm9", ["llm1"])
    error.happened_in("tool1.ext_1")
    assert (error.node_id, error.reader_node_id) == ("llm9", "tool1.ext_1")
    assert str(error).startswith("node 'tool1.ext_1': source node llm9 is not in the workflow.")


# --- models


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        (None, TALK),
        ({"name": "small"}, {**TALK, "name": "small"}),
        ("small", {**TALK, "name": "small"}),
        ({"completion_params": {"temperature": 0}}, {**TALK, "completion_params": {"temperature": 0}}),
        ({"provider": "openai"}, {**TALK, "provider": "openai"}),
        (
            {"provider": "openai", "name": "small"},
            {"provider": "openai", "name": "small", "mode": "chat", "completion_params": {}},
        ),
    ],
)
def test_a_partial_model_is_completed_from_the_source(written: Any, asked: dict[str, Any]) -> None:
    more = {} if written is None else {"model": written}
    loaded = Workflow.load(flow(inputs=[extraction(**more)])).definition
    nodes = {node.id: node for node in loaded.all_nodes()}
    found = model_asked(nodes["tool1.ext_1"].data, nodes["llm1"].data)
    assert found is not None
    names = ("provider", "name", "mode", "completion_params")
    assert {name: getattr(found, name) for name in names} == asked
    assert errors(flow(inputs=[extraction(**more)])) == []


def test_a_partial_model_without_a_name_anywhere_is_no_model() -> None:
    partial = PartialModel.model_validate({"completion_params": {"temperature": 0}})
    assert partial.over(None) is None
    assert PartialModel(name="small").over(None) == PartialModel(name="small")
    assert partial.over(ModelSpec(name="large")) == ModelSpec(
        name="large", completion_params={"temperature": 0}
    )


def test_the_completed_model_is_what_is_asked_with() -> None:
    seen: list[Any] = []

    def model(messages: Any, options: Any) -> str:
        seen.append(options.temperature)
        return "answer"

    content = flow(inputs=[extraction(model={"name": "small"})])
    Workflow.load(content).run({"query": "q"}, settings=RunSettings(client=ScriptedClient(model)))
    assert seen == [0.7, 0.7]


# --- events and results


def test_events_and_records_have_usage_and_predecessor(tmp_path: Path) -> None:
    content = flow("@llm1.context | kw", say="{{#tool1.text#}}")
    content["nodes"].insert(3, {"id": "other", "type": "template-transform", "data": {"template": "t"}})
    content["edges"] = [
        {"source": "start", "target": "llm1"},
        {"source": "llm1", "target": "tool1"},
        {"source": "llm1", "target": "other"},
        {"source": "other", "target": "say"},
        {"source": "tool1", "target": "say"},
    ]
    client = ScriptedClient(["Hello", "kw"])
    stream = Workflow.load(content).stream(
        {"query": "q"}, runs_dir=tmp_path, run_id="r", settings=RunSettings(client=client)
    )
    events = [event.to_dict() for event in stream]
    before = {
        "start": None,
        "llm1": "start",
        "tool1.ext_1": None,
        "tool1": "llm1",
        "other": "llm1",
        "say": "other",
    }
    for kind in ("NodeRunStarted", "NodeRunSucceeded"):
        assert {e["node_id"]: e["predecessor_node_id"] for e in events if e["event"] == kind} == before
    usage = {e["node_id"]: e["llm_usage"] for e in events if e["event"] == "NodeRunSucceeded"}
    assert {name for name, found in usage.items() if found is not None} == {"llm1", "tool1.ext_1"}
    spent = next(e for e in events if e["event"] == "NodeRunSucceeded" and e["node_id"] == "llm1")
    tokens = spent["process_data"]["usage"]
    assert usage["llm1"] == {**tokens, "total_price": spent["metadata"]["total_price"], "currency": "USD"}
    assert tokens["total_tokens"] > 0
    with sqlite3.connect(tmp_path / "r" / "checkpoints.sqlite") as connection:
        query = "SELECT node_id, predecessor_node_id, llm_usage IS NOT NULL FROM workflow_node_executions"
        rows = {name: (came_from, bool(used)) for name, came_from, used in connection.execute(query)}
    assert rows == {name: (before[name], usage[name] is not None) for name in before}


def test_a_failed_node_tells_what_it_had_used_and_what_led_to_it(tmp_path: Path) -> None:
    content = {
        "nodes": [
            {"id": "start", "type": "start", "data": {"variables": ["query"]}},
            {
                "id": "sort",
                "type": "question-classifier",
                "data": {"query_variable_selector": ["start", "query"], "classes": ["bug", "question"]},
            },
        ]
    }
    client = ScriptedClient(["no class at all"])
    settings = RunSettings(client=client)
    events = list(
        Workflow.load(content).stream({"query": "q"}, runs_dir=tmp_path, run_id="r", settings=settings)
    )
    (failed,) = [event for event in events if isinstance(event, NodeRunFailed)]
    assert failed.predecessor_node_id == "start"
    assert failed.llm_usage is not None
    used = failed.llm_usage
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"] > 0
    assert used["currency"] == "USD"
    with sqlite3.connect(tmp_path / "r" / "checkpoints.sqlite") as connection:
        query = "SELECT llm_usage FROM workflow_node_executions WHERE node_id = 'sort'"
        ((written,),) = connection.execute(query).fetchall()
    assert json.loads(written) == used


def test_in_list_order_the_predecessor_is_the_node_before() -> None:
    content = flow("@llm1.context | kw")
    client = ScriptedClient(["Hello", "kw"])
    events = [
        e.to_dict()
        for e in Workflow.load(content).stream({"query": "q"}, settings=RunSettings(client=client))
    ]
    found = {e["node_id"]: e["predecessor_node_id"] for e in events if e["event"] == "NodeRunStarted"}
    assert found == {"start": None, "llm1": "start", "tool1.ext_1": None, "tool1": "llm1", "say": "tool1"}
