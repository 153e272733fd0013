"""Virtual nodes as files have them: the documented examples, written out and as extractions."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import answer, error, fake_endpoint

from autoprompt.errors import EndpointError
from autoprompt.llm import ScriptedClient
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import RunSettings, Workflow, tool
from autoprompt.workflow.engine.events import Event, NodeEvent, NodeRunRetry, NodeRunStarted, NodeRunSucceeded

HEAD = """
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - id: llm1
    type: llm
    data:
      title: Talk
      model: {provider: openai, name: gpt-4, mode: chat, completion_params: {temperature: 0.7}}
      prompt_template:
        - {role: system, text: "Be short."}
        - {role: user, text: "{{#start.query#}}"}
  - id: tool1
    type: tool
    data:
      title: Search Tool
      tool_name: web_search
"""

WRITTEN_OUT = """
      virtual_nodes:
        - id: ext_1
          type: llm
          data:
            title: 提取搜索关键词
            model: {provider: openai, name: gpt-4o-mini}
            prompt_template:
              - {role: user, text: "{{#llm1.context#}}"}
              - {role: user, text: 只返回关键词}
        - id: ext_2
          type: llm
          data:
            title: 提取搜索范围
            model: {provider: openai, name: gpt-4o-mini}
            prompt_template:
              - {role: user, text: "{{#llm1.context#}}"}
              - {role: user, text: "搜索范围，不含 {{#ext_1.text#}}"}
      tool_parameters:
        query: {type: variable, value: [ext_1, text]}
        time_range: {type: variable, value: [ext_2, text]}
        limit: {type: constant, value: 10}
"""

AS_INPUT = """
      inputs:
        - name: query
          type: extraction
          value: {source_node_id: llm1, source_variable: context, extraction_prompt: 提取关键词}
"""

SHORTHAND = """
      tool_parameters:
        query: "@llm1.context | 提取关键词"
"""

searches: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def _search() -> None:
    searches.clear()

    @tool
    def web_search(query: str, time_range: str = "", limit: int = 5) -> str:
        """Search the web."""
        searches.append({"query": query, "time_range": time_range, "limit": limit})
        return f"search result for {query}"


def flow(tmp_path: Path, *parts: str) -> Workflow:
    path = tmp_path / "flow.yaml"
    path.write_text(HEAD + "".join(parts), encoding="utf-8")
    return Workflow.load(path)


def events_of(workflow: Workflow, client: ScriptedClient, **more: Any) -> list[Event]:
    return list(workflow.stream({"query": "cats"}, settings=RunSettings(client=client, **more)))


def of_tool(events: list[Event]) -> list[NodeEvent]:
    return [e for e in events if isinstance(e, NodeEvent) and e.node_id.startswith("tool1")]


def test_complete_example_runs_children_in_list_order_each_visible_to_the_next(tmp_path: Path) -> None:
    client = ScriptedClient(["I know cats.", "cats", "last week"])
    events = events_of(flow(tmp_path, WRITTEN_OUT), client)
    assert searches == [{"query": "cats", "time_range": "last week", "limit": 10}]
    assert [e.node_id for e in of_tool(events) if isinstance(e, NodeRunStarted)] == [
        "tool1.ext_1",
        "tool1.ext_2",
        "tool1",
    ]
    # The conversation comes in as messages, system messages left out; then the question.
    assert [(m.role, m.content) for m in client.calls[2]] == [
        ("user", "cats"),
        ("assistant", "I know cats."),
        ("user", "搜索范围，不含 cats"),
    ]


@pytest.mark.parametrize("form", [AS_INPUT, SHORTHAND], ids=["input", "shorthand"])
def test_event_order_is_child_then_parent_in_both_forms(tmp_path: Path, form: str) -> None:
    events = of_tool(events_of(flow(tmp_path, form), ScriptedClient(["I know cats.", "关键词"])))
    assert [(type(e).__name__, e.node_id, e.is_virtual, e.parent_node_id) for e in events] == [
        ("NodeRunStarted", "tool1.ext_1", True, "tool1"),
        ("NodeRunStreamChunk", "tool1.ext_1", True, "tool1"),
        ("NodeRunSucceeded", "tool1.ext_1", True, "tool1"),
        ("NodeRunStarted", "tool1", False, None),
        ("NodeRunStreamChunk", "tool1", False, None),
        ("NodeRunSucceeded", "tool1", False, None),
    ]
    child, parent = events[0].to_dict(), events[3].to_dict()
    assert (child["node_type"], child["node_title"]) == ("llm", "Extraction: 提取关键词")
    assert (child["extraction_source"], child["extraction_prompt"]) == ("llm1.context", "提取关键词")
    assert (parent["node_type"], parent["node_title"]) == ("tool", "Search Tool")
    assert events[1].to_dict()["selector"] == ["tool1.ext_1", "text"]
    assert events[4].to_dict()["selector"] == ["tool1", "text"]
    assert searches[0]["query"] == "关键词"


def test_written_out_extraction_tells_its_source_too(tmp_path: Path) -> None:
    client = ScriptedClient(["I know cats.", "cats", "last week"])
    events = of_tool(events_of(flow(tmp_path, WRITTEN_OUT), client))
    started = events[0].to_dict()
    assert started["node_title"] == "提取搜索关键词"
    assert (started["extraction_source"], started["extraction_prompt"]) == ("llm1.context", "只返回关键词")
    (result,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1.ext_1"]
    assert result.inputs["context_source"] == "llm1.context"
    assert result.process_data["prompt"] == "只返回关键词"
    assert result.metadata["total_tokens"] > 0


def test_parent_lists_its_extraction_nodes(tmp_path: Path) -> None:
    client = ScriptedClient(["I know cats.", "cats", "last week"])
    (parent,) = [
        e
        for e in events_of(flow(tmp_path, WRITTEN_OUT), client)
        if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1"
    ]
    assert parent.process_data["extraction_nodes"] == ["tool1.ext_1", "tool1.ext_2"]


def test_success_of_a_virtual_node_fires_no_edges(tmp_path: Path) -> None:
    edges = """
  - {id: answer, type: answer, data: {answer: "{{#tool1.text#}} / {{#tool1.ext_1.text#}}"}}
edges:
  - {source: start, target: llm1}
  - {source: llm1, target: tool1}
  - {source: tool1, target: answer}
"""
    events = events_of(flow(tmp_path, AS_INPUT, edges), ScriptedClient(["I know cats.", "cats"]))
    order = [e.node_id for e in events if isinstance(e, NodeRunStarted)]
    assert order == ["start", "llm1", "tool1.ext_1", "tool1", "answer"]
    assert events[-1].to_dict()["outputs"]["answer"] == "search result for cats / cats"


def test_retry_example_of_a_file_three_calls_at_the_endpoint(tmp_path: Path) -> None:
    retry = "      retry_config: {max_retries: 2, retry_interval: 1, retry_enabled: true}\n"
    with fake_endpoint() as endpoint:
        endpoint.replies.extend([answer("I know cats."), error(500), error(500), answer("cats")])
        settings = RunSettings(models=ModelSettings(base_url=endpoint.base_url, model="fake"))
        events = list(flow(tmp_path, AS_INPUT, retry).stream({"query": "cats"}, settings=settings))
        assert len(endpoint.requests) == 1 + 3
    retries = [e for e in events if isinstance(e, NodeRunRetry)]
    assert [(e.node_id, e.retry_index) for e in retries] == [("tool1.ext_1", 1), ("tool1.ext_1", 2)]
    assert type(events[-1]).__name__ == "GraphRunSucceeded"


def test_default_value_of_the_parent_lets_it_run_without_the_extraction(tmp_path: Path) -> None:
    strategy = """
      error_strategy: default-value
      default_value: [{key: text, type: string, value: nothing found}]
"""
    client = ScriptedClient(["I know cats.", EndpointError("gone")])
    events = events_of(flow(tmp_path, AS_INPUT, strategy), client)
    assert searches[0]["query"] == ""
    assert type(events[-1]).__name__ == "GraphRunPartialSucceeded"


def test_price_of_a_virtual_node_is_its_own(tmp_path: Path) -> None:
    with fake_endpoint() as endpoint:
        endpoint.replies.extend([answer("I know cats."), answer("cats")])
        prices = ModelSettings(base_url=endpoint.base_url, model="fake", price_input=1.0, price_output=2.0)
        flow_ = flow(tmp_path, AS_INPUT)
        events = list(flow_.stream({"query": "cats"}, settings=RunSettings(models=prices)))
    (child,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1.ext_1"]
    assert child.metadata == {
        "total_tokens": 14,
        "total_price": pytest.approx((11 * 1.0 + 3 * 2.0) / 1e6),
        "currency": "USD",
    }
    (parent,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "tool1"]
    assert not parent.metadata.get("total_tokens")


def test_mocks_of_a_file_need_no_tool_model_or_endpoint(tmp_path: Path) -> None:
    mocks = """
mocks:
  llm1: {outputs: {text: hi}}
  tool1.ext_1: {outputs: {text: k}, errors: [first attempt fails]}
  tool1: {outputs: {text: found}, delay_s: 0.001}
"""
    retry = "      retry_config: {max_retries: 1}\n"
    text = textwrap.dedent(HEAD.replace("web_search", "no_such_tool")) + AS_INPUT + retry + mocks
    path = tmp_path / "mocked.yaml"
    path.write_text(text, encoding="utf-8")
    events = list(Workflow.load(path).stream({"query": "cats"}))
    assert [type(e).__name__ for e in of_tool(events) if e.is_virtual] == [
        "NodeRunStarted",
        "NodeRunRetry",
        "NodeRunStreamChunk",
        "NodeRunSucceeded",
    ]
    (said,) = [e for e in events if isinstance(e, NodeRunSucceeded) and e.node_id == "llm1"]
    assert [turn["text"] for turn in said.outputs["context"]] == ["cats", "hi"]
    assert events[-1].to_dict()["outputs"]["text"] == "found"


def test_drawing_has_virtual_nodes_inside_their_parent(tmp_path: Path) -> None:
    drawn = flow(tmp_path, WRITTEN_OUT).graph()
    inside = drawn[drawn.index("subgraph") : drawn.index("end\n")]
    assert "tool1.ext_1: 提取搜索关键词 (llm)" in inside
    assert "tool1: Search Tool (tool)" in inside
    lines = flow(tmp_path, WRITTEN_OUT).graph("ascii").splitlines()
    at = lines.index("tool1: Search Tool (tool)")
    assert lines[at + 1] == "    * tool1.ext_1: 提取搜索关键词 (llm)"
