"""Variable extraction, its virtual nodes and their events."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import answer, error, fake_endpoint
from pydantic import Field

from autoprompt.errors import EndpointError, Problem
from autoprompt.llm import ScriptedClient
from autoprompt.records import Message
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import (
    ExtractionError,
    InvalidVariableTypeError,
    LLMInvocationError,
    ModelConfigNotFoundError,
    NodeError,
    RunSettings,
    SourceNodeNotFoundError,
    VariableNotFoundError,
    Workflow,
    WorkflowDefinitionError,
    register_node_type,
)
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import Definition, GraphEdge, GraphNode, NodeResult, NodeTypeBase
from autoprompt.workflow.engine.events import (
    Event,
    GraphRunFailed,
    GraphRunPartialSucceeded,
    NodeEvent,
    NodeRunException,
    NodeRunFailed,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunStreamChunk,
    NodeRunSucceeded,
)
from autoprompt.workflow.engine.extraction import check, desugar
from autoprompt.workflow.engine.model_call import call_model
from autoprompt.workflow.engine.models import ModelSpec
from autoprompt.workflow.file import building
from autoprompt.workflow.file.checker import Checker
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.reading import read_workflow

MODEL = {"provider": "openai", "name": "gpt-4o-mini"}


class AskData(NodeData):
    model: ModelSpec | None = None
    prompt: str = ""


class Ask(NodeTypeBase):
    """A model node made small: one message, `text` and `context`."""

    data_model = AskData

    def execute(self, data: AskData, context: NodeContext) -> NodeResult:
        reply = call_model(context, [Message("user", data.prompt)], data.model)
        return NodeResult(
            {"text": reply.text, "context": reply.context}, {}, reply.process_data, reply.metadata
        )


class LookUpData(NodeData):
    tool_parameters: dict[str, Any] = Field(default_factory=dict)
    fails: int = 0


class LookUp(NodeTypeBase):
    """A tool made small: says what it was given; fails the first `fails` times."""

    data_model = LookUpData
    attempts = 0

    def execute(self, data: LookUpData, context: NodeContext) -> NodeResult:
        given = dict(context.inputs)
        for name, parameter in data.tool_parameters.items():
            is_variable = parameter["type"] == "variable"
            given[name] = context.pool.get(parameter["value"]) if is_variable else parameter["value"]
        type(self).attempts += 1
        if type(self).attempts <= data.fails:
            raise ValueError("the search is down")
        text = f"found {given}"
        context.chunk(text)
        return NodeResult({"text": text, **given}, inputs=given)


@pytest.fixture(autouse=True)
def _types() -> None:
    register_node_type("test-ask", Ask())
    register_node_type("test-look-up", LookUp())
    LookUp.attempts = 0


def extraction(**more: Any) -> dict[str, Any]:
    value = {
        "source_node_id": "llm1",
        "source_variable": "context",
        "extraction_prompt": "提取关键词",
        **more,
    }
    return {"name": "query", "type": "extraction", "value": value}


def graph_node(node_id: str, type_: str, data: Mapping[str, Any]) -> GraphNode:
    """The node of a file, which need not name nodes that there are."""
    file, faults = read_workflow({"nodes": [{"id": node_id, "type": type_, "data": data}]})
    checked = Checker(file, faults).graph(file.graph).nodes[node_id]
    assert faults.all == []
    return building.Builder({}, {}).node(checked)


def workflow(tool: Mapping[str, Any], llm: Mapping[str, Any] | None = None, **more: Any) -> Workflow:
    nodes = (
        graph_node(
            "llm1", "test-ask", {"title": "Talk", "model": MODEL, "prompt": "I look for cats", **(llm or {})}
        ),
        graph_node("tool1", "test-look-up", {"title": "Search Tool", **tool}),
    )
    return Workflow.of(Definition(nodes, (GraphEdge("llm1", "tool1"),), **more))


def events_of(flow: Workflow, client: ScriptedClient, **settings: Any) -> list[Event]:
    return list(flow.stream({}, settings=RunSettings(client=client, **settings)))


def names(events: list[Event], of: str) -> list[str]:
    return [type(e).__name__ for e in events if isinstance(e, NodeEvent) and e.node_id == of]


def named(events: list[Event]) -> list[tuple[str, str]]:
    return [(type(e).__name__, e.node_id) for e in events if isinstance(e, NodeEvent) and e.node_id != "llm1"]


def test_event_order_of_an_extraction_is_child_then_parent() -> None:
    events = events_of(workflow({"inputs": [extraction()]}), ScriptedClient(["Fine.", "关键词"]))
    assert named(events) == [
        ("NodeRunStarted", "tool1.ext_1"),
        ("NodeRunStreamChunk", "tool1.ext_1"),
        ("NodeRunSucceeded", "tool1.ext_1"),
        ("NodeRunStarted", "tool1"),
        ("NodeRunStreamChunk", "tool1"),
        ("NodeRunSucceeded", "tool1"),
    ]


def test_events_of_an_extraction_have_all_fields() -> None:
    events = events_of(workflow({"inputs": [extraction()]}), ScriptedClient(["Fine.", "关键词"]))
    mine = [e.to_dict() for e in events if isinstance(e, NodeEvent) and e.node_id.startswith("tool1")]
    started, chunk, succeeded, parent_started, parent_chunk, parent_succeeded = mine
    virtual = {"is_virtual": True, "parent_node_id": "tool1", "node_type": "llm"}
    for event in (started, chunk, succeeded):
        assert virtual.items() <= event.items()
        assert event["node_title"] == "Extraction: 提取关键词"
        assert event["id"] == started["id"]
    assert started["extraction_source"] == "llm1.context"
    assert started["extraction_prompt"] == "提取关键词"
    assert started["start_at"].startswith("20")
    assert (chunk["selector"], chunk["chunk"]) == (["tool1.ext_1", "text"], "关键词")
    assert succeeded["outputs"] == {"text": "关键词"}
    assert {
        "is_virtual": False,
        "parent_node_id": None,
        "node_title": "Search Tool",
    }.items() <= parent_started.items()
    assert parent_started["extraction_source"] is None
    assert parent_chunk["selector"] == ["tool1", "text"]
    assert parent_succeeded["outputs"]["query"] == "关键词"
    assert parent_succeeded["process_data"]["extraction_nodes"] == ["tool1.ext_1"]


def test_messages_are_the_sources_context_then_the_prompt() -> None:
    client = ScriptedClient(["Fine.", "cats"])
    events_of(workflow({"inputs": [extraction()]}), client)
    assert client.calls[1] == [
        Message("user", "I look for cats"),
        Message("assistant", "Fine."),
        Message("user", "提取关键词"),
    ]


def test_variables_in_the_prompt_are_filled() -> None:
    client = ScriptedClient(["Fine.", "关键词"])
    flow = workflow({"inputs": [extraction(extraction_prompt="In {{#llm1.text#}}, what is meant?")]})
    flow.run({}, settings=RunSettings(client=client))
    assert client.calls[1][-1] == Message("user", "In Fine., what is meant?")


def test_a_variable_of_the_prompt_that_is_not_there_fails_the_extraction() -> None:
    flow = workflow({"inputs": [extraction(extraction_prompt="In {{#llm1.nope#}}?")]})
    with pytest.raises(VariableNotFoundError, match=r"llm1\.nope"):
        flow.run({}, settings=RunSettings(client=ScriptedClient(["Fine."])))


def test_an_unknown_node_in_the_prompt_gets_a_suggestion() -> None:
    flow = workflow({"inputs": [extraction(extraction_prompt="In {{#lm1.context#}}?")]})
    with pytest.raises(VariableNotFoundError, match=r"lm1\.context has no value\. Did you mean 'llm1"):
        flow.run({}, settings=RunSettings(client=ScriptedClient(["Fine."])))


def test_result_of_a_virtual_node_is_its_own() -> None:
    events = events_of(workflow({"inputs": [extraction()]}), ScriptedClient(["Fine.", "cats"]))
    (result,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1.ext_1"]
    assert result.inputs == {"context_source": "llm1.context", "extraction_prompt": "提取关键词"}
    assert {
        "source": "llm1.context",
        "prompt": "提取关键词",
        "model_mode": "chat",
    }.items() <= result.process_data.items()
    assert [turn["role"] for turn in result.process_data["prompts"]] == ["user", "assistant", "user"]
    usage = result.process_data["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert result.metadata == {"total_tokens": usage["total_tokens"], "total_price": 0.0, "currency": "USD"}


def test_title_is_the_first_30_characters_of_the_prompt() -> None:
    flow = workflow({"inputs": [extraction(extraction_prompt="x" * 40)]})
    assert next(iter(flow.definition.all_nodes())).title == "Talk"
    assert [n.title for n in flow.definition.all_nodes()][1] == "Extraction: " + "x" * 30


def test_shorthand_means_the_same_as_the_extraction_entry() -> None:
    short = {
        "tool_parameters": {"query": "@llm1.context | 提取关键词", "limit": {"type": "constant", "value": 10}}
    }
    client = ScriptedClient(["Fine.", "cats"])
    events = events_of(workflow(short), client)
    assert names(events, "tool1.ext_1") == ["NodeRunStarted", "NodeRunStreamChunk", "NodeRunSucceeded"]
    assert client.calls[1][-1].content == "提取关键词"
    (result,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1"]
    assert result.inputs == {"query": "cats", "limit": 10}


def test_extractions_are_numbered_around_ids_that_are_taken() -> None:
    data = {
        "virtual_nodes": [{"id": "ext_1", "type": "llm", "data": {}}],
        "inputs": [extraction(), {"name": "b", "type": "mixed", "value": "@llm1.context | second"}],
        "tool_parameters": {
            "c": {"type": "mixed", "value": "@tool0.ext_1.context | third\nline"},
            "d": "@ not one",
        },
    }
    plain, found = desugar("tool1", data)
    assert [spec.local_id for spec in found] == ["ext_2", "ext_3", "ext_4"]
    assert plain["inputs"][0] == {"name": "query", "type": "variable", "value": ["ext_2", "text"]}
    assert plain["tool_parameters"] == {
        "c": {"type": "variable", "value": ["ext_4", "text"]},
        "d": "@ not one",
    }
    assert (found[2].source_node_id, found[2].extraction_prompt) == ("tool0.ext_1", "third\nline")
    assert data["inputs"][0]["type"] == "extraction"  # the file's own data is let be


def test_model_is_the_extractions_own_else_the_sources() -> None:
    asked: list[str] = []

    class FakeModels:
        overrides = False

        def client(self, spec: ModelSpec | None, slot: str) -> ScriptedClient:
            asked.append(spec.name if spec is not None else "none")
            return ScriptedClient(["answer"])

        def warnings(self) -> list[Problem]:
            return []

        def close(self) -> None: ...

    from autoprompt.workflow.engine import runner

    for own, expected in ((None, "gpt-4o-mini"), ({"provider": "openai", "name": "other"}, "other")):
        asked.clear()
        flow = workflow({"inputs": [extraction(model=own)]})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runner, "_models", lambda *_: FakeModels())
            flow.run({})
        assert asked == ["gpt-4o-mini", expected]


def test_two_virtual_nodes_run_in_list_order_and_see_each_other() -> None:
    second = {
        "id": "second",
        "type": "test-look-up",
        "data": {"tool_parameters": {"seen": {"type": "variable", "value": ["first", "text"]}}},
    }
    tool = {
        "virtual_nodes": [
            {"id": "first", "type": "test-ask", "data": {"prompt": "p", "model": MODEL}},
            second,
        ],
        "tool_parameters": {
            "near": {"type": "variable", "value": ["second", "seen"]},
            "far": {"type": "variable", "value": ["tool1.first", "text"]},
        },
    }
    events = events_of(workflow(tool), ScriptedClient(["Fine.", "one"]))
    order = [node_id for name, node_id in named(events) if name == "NodeRunStarted"]
    assert order == ["tool1.first", "tool1.second", "tool1"]
    (result,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1"]
    assert (result.outputs["near"], result.outputs["far"]) == ("one", "one")


def test_virtual_outputs_are_seen_elsewhere_by_global_id_only() -> None:
    def later(selector: list[str]) -> Workflow:
        first = workflow({"inputs": [extraction()]}).definition
        look = {"tool_parameters": {"q": {"type": "variable", "value": selector}}}
        nodes = (*first.nodes, graph_node("tool2", "test-look-up", look))
        return Workflow.of(Definition(nodes, (GraphEdge("llm1", "tool1"), GraphEdge("tool1", "tool2"))))

    for selector in (["tool1.ext_1", "text"], ["tool1", "ext_1", "text"]):
        settings = RunSettings(client=ScriptedClient(["Fine.", "cats"]))
        assert later(selector).run({}, settings=settings)["q"] == "cats"
    with pytest.raises(VariableNotFoundError, match=r"ext_1\.text"):
        later(["ext_1", "text"]).run({}, settings=RunSettings(client=ScriptedClient(["Fine.", "cats"])))


def test_a_node_named_like_a_virtual_one_is_not_virtual() -> None:
    nodes = (
        graph_node("tool1_ext_1", "test-ask", {"model": MODEL, "prompt": "p"}),
        graph_node("a.b", "test-look-up", {}),
    )
    flow = Workflow.of(Definition(nodes, (GraphEdge("tool1_ext_1", "a.b"),)))
    events = events_of(flow, ScriptedClient(["x"]))
    assert {e.is_virtual for e in events if isinstance(e, NodeEvent)} == {False}


# --- retries and errors ---


def test_retry_example_gives_two_retries_then_success_and_three_calls() -> None:
    tool = {"inputs": [extraction()], "retry_config": {"max_retries": 2}}
    with fake_endpoint() as endpoint:
        endpoint.replies.extend([answer("Fine."), error(500), error(500), answer("cats")])
        settings = RunSettings(models=ModelSettings(base_url=endpoint.base_url, model="fake"))
        events = list(workflow(tool).stream({}, settings=settings))
        assert len(endpoint.requests) == 1 + 3
    child = [e for e in events if isinstance(e, NodeEvent) and e.node_id == "tool1.ext_1"]
    assert [type(e).__name__ for e in child] == [
        "NodeRunStarted",
        "NodeRunRetry",
        "NodeRunRetry",
        "NodeRunStreamChunk",
        "NodeRunSucceeded",
    ]
    assert [e.retry_index for e in child if isinstance(e, NodeRunRetry)] == [1, 2]


def test_parents_retries_do_not_run_a_child_again() -> None:
    client = ScriptedClient(["Fine.", EndpointError("busy"), EndpointError("busy"), "cats"])
    tool = {"inputs": [extraction()], "retry_config": {"max_retries": 2}, "fails": 2}
    events = events_of(workflow(tool), client)
    assert len(client.calls) == 1 + 3
    assert names(events, "tool1.ext_1").count("NodeRunStarted") == 1
    assert names(events, "tool1") == [
        "NodeRunStarted",
        "NodeRunRetry",
        "NodeRunRetry",
        "NodeRunStreamChunk",
        "NodeRunSucceeded",
    ]


@pytest.mark.parametrize(
    ("config", "calls"),
    [({"max_retries": 3, "retry_enabled": False}, 1), ({"max_retries": 1}, 2), ({"retry_enabled": True}, 1)],
)
def test_retry_enabled_is_obeyed(config: dict[str, Any], calls: int) -> None:
    client = ScriptedClient(["Fine.", *[EndpointError("busy")] * 5])
    events = events_of(workflow({"inputs": [extraction()], "retry_config": config}), client)
    assert len(client.calls) == 1 + calls
    assert isinstance(events[-1], GraphRunFailed)
    assert isinstance(events[-1].cause, LLMInvocationError)


def test_only_a_failed_request_is_tried_again() -> None:
    client = ScriptedClient(["Fine."])
    tool = {"inputs": [extraction(source_variable="text")], "retry_config": {"max_retries": 3}}
    events = events_of(workflow(tool), client)
    assert names(events, "tool1.ext_1") == ["NodeRunStarted", "NodeRunFailed"]
    assert isinstance(events[-1], GraphRunFailed)
    assert isinstance(events[-1].cause, InvalidVariableTypeError)


def test_a_failed_child_fails_its_parent() -> None:
    events = events_of(workflow({"inputs": [extraction()]}), ScriptedClient(["Fine.", EndpointError("gone")]))
    assert named(events) == [
        ("NodeRunStarted", "tool1.ext_1"),
        ("NodeRunFailed", "tool1.ext_1"),
        ("NodeRunStarted", "tool1"),
        ("NodeRunFailed", "tool1"),
    ]
    failed = next(e for e in events if isinstance(e, NodeRunFailed))
    assert (failed.error_type, failed.parent_node_id) == ("LLMInvocationError", "tool1")
    assert str(events[-1].cause) == "node 'tool1.ext_1': LLM invocation failed: gone"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("own", "expected"), [({}, ""), ({"default_value": "dogs"}, "dogs")])
def test_default_value_strategy_gives_the_parent_an_empty_text_or_the_default(
    own: dict[str, Any], expected: str
) -> None:
    tool = {"inputs": [extraction(**own)], "error_strategy": "default-value"}
    events = events_of(workflow(tool), ScriptedClient(["Fine.", EndpointError("gone")]))
    assert names(events, "tool1.ext_1") == ["NodeRunStarted", "NodeRunFailed"]
    (result,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1"]
    assert result.inputs == {"query": expected}
    assert isinstance(events[-1], GraphRunPartialSucceeded)
    assert events[-1].exceptions_count == 1


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_child_that_was_taken_up_is_told_though_its_parent_is_tried_again(
    tmp_path: Path, is_kept: bool
) -> None:
    data = {
        "inputs": [extraction()],
        "error_strategy": "default-value",
        "retry_config": {"max_retries": 1, "retry_interval": 0},
    }
    events = list(
        workflow(data).stream(
            {"query": "Tell."},
            runs_dir=tmp_path if is_kept else None,
            settings=RunSettings(
                client=ScriptedClient(["Fine.", EndpointError("gone"), EndpointError("gone")]),
                mocks={"tool1": {"errors": ["not yet"], "outputs": {"text": "x"}}},
            ),
        )
    )
    assert [e.node_id for e in events if isinstance(e, NodeRunRetry)] == ["tool1.ext_1", "tool1"]
    assert isinstance(events[-1], GraphRunPartialSucceeded)
    assert events[-1].exceptions_count == 1


def test_fail_branch_of_the_parent_takes_up_a_failed_child() -> None:
    first = workflow({"inputs": [extraction()], "error_strategy": "fail-branch"}).definition
    nodes = (*first.nodes, graph_node("good", "test-look-up", {}), graph_node("bad", "test-look-up", {}))
    edges = (
        GraphEdge("llm1", "tool1"),
        GraphEdge("tool1", "good", "success-branch"),
        GraphEdge("tool1", "bad", "fail-branch"),
    )
    events = events_of(
        Workflow.of(Definition(nodes, edges)), ScriptedClient(["Fine.", EndpointError("gone")])
    )
    assert [e.node_id for e in events if isinstance(e, NodeRunStarted)] == [
        "llm1",
        "tool1.ext_1",
        "tool1",
        "bad",
    ]
    (taken_up,) = [e for e in events if isinstance(e, NodeRunException)]
    assert taken_up.outputs == {
        "error_message": "LLM invocation failed: gone",
        "error_type": "LLMInvocationError",
    }


def test_an_empty_answer_is_an_error_by_default() -> None:
    events = events_of(workflow({"inputs": [extraction()]}), ScriptedClient(["Fine.", " \n"]))
    assert isinstance(events[-1], GraphRunFailed)
    assert isinstance(events[-1].cause, ExtractionError)
    assert "null_strategy" in str(events[-1].cause)


def test_use_default_takes_the_default_for_an_empty_answer() -> None:
    tool = {"inputs": [extraction(null_strategy="use_default", default_value="cats")]}
    assert (
        workflow(tool).run({}, settings=RunSettings(client=ScriptedClient(["Fine.", " "])))["query"] == "cats"
    )


def test_source_node_that_is_not_there() -> None:
    with pytest.raises(SourceNodeNotFoundError, match="llm9"):
        workflow({"inputs": [extraction(source_node_id="llm9")]}).run(
            {}, settings=RunSettings(client=ScriptedClient(["x"]))
        )


def test_no_model_anywhere() -> None:
    look = {"inputs": [extraction(source_node_id="plain")]}
    talk = {"context": {"type": "constant", "value": [{"role": "user", "text": "hi"}]}}
    plain = graph_node("plain", "test-look-up", {"tool_parameters": talk})
    nodes = (plain, graph_node("tool1", "test-look-up", look))
    flow = Workflow.of(Definition(nodes, (GraphEdge("plain", "tool1"),)))
    with pytest.raises(ModelConfigNotFoundError, match="plain"):
        flow.run({}, settings=RunSettings(client=ScriptedClient([])))


def test_check_finds_what_the_file_shows() -> None:
    nodes: dict[str, Any] = {"llm1": {"model": MODEL}, "llm2": {}, "start": {}}
    types = {"llm1": "llm", "llm2": "llm", "start": "start"}

    def fault(**value: Any) -> type | None:
        _, (spec,) = desugar("", {"inputs": [extraction(**value)]})
        found = check(spec, nodes, types)
        return type(found) if found is not None else None

    assert fault() is None
    assert fault(source_node_id="llm9") is SourceNodeNotFoundError
    assert fault(source_variable="text") is InvalidVariableTypeError
    assert fault(source_variable="contxt") is VariableNotFoundError
    assert fault(source_node_id="llm2") is ModelConfigNotFoundError
    assert fault(source_node_id="llm2", model=MODEL) is None
    with pytest.raises(WorkflowDefinitionError, match="extraction_prompt"):
        desugar("t", {"inputs": [{"name": "q", "type": "extraction", "value": {"source_node_id": "a"}}]})


def test_errors_are_one_family() -> None:
    for kind in (
        VariableNotFoundError,
        InvalidVariableTypeError,
        SourceNodeNotFoundError,
        ModelConfigNotFoundError,
        LLMInvocationError,
    ):
        assert issubclass(kind, ExtractionError)
    assert issubclass(ExtractionError, NodeError)


# --- mocks, components, records ---


def test_mocks_run_without_a_model_and_raise_their_errors_first() -> None:
    tool = {"inputs": [extraction()], "retry_config": {"max_retries": 1}}
    mocks = {
        "llm1": {"outputs": {"text": "hi", "context": [{"role": "assistant", "text": "hi"}]}},
        "tool1.ext_1": {"outputs": {"text": "k"}, "errors": ["first attempt fails"]},
        "tool1": {"outputs": {"text": "found"}},
    }
    events = list(workflow(tool).stream({}, settings=RunSettings(mocks=mocks)))
    assert named(events) == [
        ("NodeRunStarted", "tool1.ext_1"),
        ("NodeRunRetry", "tool1.ext_1"),
        ("NodeRunStreamChunk", "tool1.ext_1"),
        ("NodeRunSucceeded", "tool1.ext_1"),
        ("NodeRunStarted", "tool1"),
        ("NodeRunStreamChunk", "tool1"),
        ("NodeRunSucceeded", "tool1"),
    ]
    assert [e.chunk for e in events if isinstance(e, NodeRunStreamChunk)] == ["hi", "k", "found"]


def test_the_extraction_prompt_is_a_component() -> None:
    flow = workflow({"inputs": [extraction()]})
    assert flow.components == {"tool1.ext_1.user": "提取关键词"}
    client = ScriptedClient(["Fine.", "cats"])
    events_of(flow, client, components={"tool1.ext_1.user": "Only the keywords"})
    assert client.calls[1][-1].content == "Only the keywords"


def test_executions_are_rows_of_the_runs_sqlite_table(tmp_path: Path) -> None:
    client = ScriptedClient(["Fine.", "cats"])
    workflow({"inputs": [extraction()]}).run(
        {}, run_id="one", runs_dir=tmp_path, settings=RunSettings(client=client)
    )
    with sqlite3.connect(tmp_path / "one" / "checkpoints.sqlite") as connection:
        rows = connection.execute(
            "SELECT node_id, node_type, title, status, is_virtual, parent_node_id, outputs "
            "FROM workflow_node_executions ORDER BY number"
        ).fetchall()
    connection.close()
    assert [row[:1] + row[3:6] for row in rows] == [
        ("llm1", "succeeded", 0, None),
        ("tool1.ext_1", "succeeded", 1, "tool1"),
        ("tool1", "succeeded", 0, None),
    ]
    assert rows[1][1:3] == ("llm", "Extraction: 提取关键词")
    assert rows[1][6] == '{"text": "cats"}'
