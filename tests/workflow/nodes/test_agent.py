"""`agent`: the tool-calling loop, over endpoints with tool calls and models that write them as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fake_endpoint import Reply, answer, fake_endpoint
from flow_runs import flow, outputs_of, run_flow
from langchain_core.tools import tool as langchain_tool

from autoprompt.llm import Completion, ScriptedClient
from autoprompt.llm.client import Options, ToolSchema
from autoprompt.llm.traits import traits_of
from autoprompt.llm.transport.wire import Parameters
from autoprompt.records import Message, ToolCall
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import RunSettings, Workflow, tool
from autoprompt.workflow.engine.tools import register_tool
from autoprompt.workflow.file.validation import validate

AGENT = """
    nodes:
      - {id: start, type: start, data: {variables: [query]}}
      - id: agent
        type: agent
        data:
          model: m
          instruction: Help with prices.
          query: "{{#start.query#}}"
          tools: [price_of]
          max_iterations: 3
"""


@pytest.fixture(autouse=True)
def price_of() -> Iterator[list[str]]:
    asked: list[str] = []

    @tool
    def price_of(item: str, count: int = 1) -> str:
        """Price of an item in euro."""
        if item == "gold":
            raise ValueError("not for sale")
        asked.append(item)
        return str({"tea": 3, "bread": 4}[item] * count)

    yield asked
    from autoprompt.workflow.engine import tools

    tools._registered.pop("price_of", None)


def native(name: str, **arguments: Any) -> Completion:
    return Completion("", tool_calls=(ToolCall("c1", name, json.dumps(arguments)),))


class Asked(ScriptedClient):
    """Keeps the options of its requests too."""

    def __init__(self, responses: Any) -> None:
        super().__init__(responses)
        self.options: list[Options] = []

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        self.options.append(options)
        return super().complete(messages, options)


def test_tool_calls_of_the_endpoint(price_of: list[str]) -> None:
    client = ScriptedClient([native("price_of", item="tea", count=2), "It costs 6 euro."])
    done = run_flow(AGENT, {"query": "Two teas?"}, client)
    assert price_of == ["tea"]
    outputs = done.node("agent").outputs
    assert outputs["text"] == "It costs 6 euro."
    assert outputs["json"] == [{"tool": "price_of", "arguments": {"item": "tea", "count": 2}, "result": "6"}]
    second = client.calls[1]
    assert [message.role for message in second] == ["system", "user", "assistant", "tool"]
    assert second[-1].content == "6"
    assert second[-1].tool_call_id == second[-2].tool_calls[0].id == "c1"


@pytest.mark.parametrize(
    "written",
    [
        '{"tool": "price_of", "arguments": {"item": "tea"}}',
        '```json\n{"name": "price_of", "parameters": {"item": "tea"}}\n```',
        'I look it up. <tool_call>\n{"name": "price_of", "arguments": {"item": "tea"}}\n</tool_call>',
        '{"type": "function", "function": {"name": "price_of", "arguments": {"item": "tea"}}}',
        '[{"type": "function", "function": {"name": "price_of", "arguments": "{\\"item\\": \\"tea\\"}"}}]',
        '{"function": "price_of", "parameters": {"item": "tea"}}',
    ],
)
def test_tool_calls_written_as_text(written: str, price_of: list[str]) -> None:
    client = ScriptedClient([written, "3 euro"])
    assert outputs_of(AGENT, {"query": "Tea?"}, client)["text"] == "3 euro"
    assert price_of == ["tea"]
    assert client.calls[1][-1].content == "Result of price_of: 3"


@pytest.mark.parametrize(
    "said",
    ['{"name": ["price_of"]}', '{"tool": {"name": "price_of"}}', '{"function": {"name": {}}}'],
)
def test_what_is_no_call_is_the_answer(said: str, price_of: list[str]) -> None:
    assert outputs_of(AGENT, {"query": "Tea?"}, ScriptedClient([said]))["text"] == said
    assert price_of == []


def test_context_is_the_conversation_without_system_messages(price_of: list[str]) -> None:
    client = ScriptedClient([native("price_of", item="tea"), "3 euro"])
    outputs = run_flow(AGENT, {"query": "Tea?"}, client).node("agent").outputs
    assert outputs["context"] == [
        {"role": "user", "text": "Tea?", "files": []},
        {"role": "assistant", "text": "3 euro", "files": []},
    ]
    assert outputs["usage"]["total_tokens"] > 0


def test_a_tool_that_fails_is_told_to_the_model(price_of: list[str]) -> None:
    client = ScriptedClient([native("price_of", item="gold"), "We have none."])
    assert outputs_of(AGENT, {"query": "Gold?"}, client)["text"] == "We have none."
    assert client.calls[1][-1].content == "error: ValueError: not for sale"


def test_max_iterations_ends_in_an_answer(price_of: list[str]) -> None:
    client = ScriptedClient([native("price_of", item="tea")] * 3 + ["I give up."])
    done = run_flow(AGENT, {"query": "Tea?"}, client)
    assert done.node("agent").outputs["text"] == "I give up."
    assert len(client.calls) == 4
    assert client.calls[3][-1].content == "Answer now, without calling a tool."
    assert price_of == ["tea"] * 3


def test_the_instruction_is_a_component(price_of: list[str]) -> None:
    assert Workflow.load(flow(AGENT)).components == {"agent.instruction": "Help with prices."}
    client = ScriptedClient(["hi"])
    outputs_of(AGENT, {"query": "?"}, client, components={"agent.instruction": "Be brief."})
    assert client.calls[0][0].content == "Be brief."


def test_a_langchain_tool(price_of: list[str]) -> None:
    @langchain_tool
    def price_of_lc(item: str) -> str:
        """Price of an item."""
        return f"{item}: 9"

    register_tool(price_of_lc)
    content = flow(AGENT)
    content["nodes"][1]["data"]["tools"] = ["price_of_lc"]
    client = ScriptedClient([native("price_of_lc", item="tea"), "9"])
    assert outputs_of(content, {"query": "?"}, client)["text"] == "9"
    assert client.calls[1][-1].content == "tea: 9"


def test_an_agent_of_an_export(price_of: list[str]) -> None:
    parameters = {
        "instruction": {"type": "constant", "value": "Help {{#start.query#}}"},
        "query": {"type": "constant", "value": "{{#start.query#}}"},
        "model": {
            "type": "constant",
            "value": {"provider": "x/openai/openai", "model": "gpt", "mode": "chat"},
        },
        "maximum_iterations": {"type": "constant", "value": 2},
        "tools": {
            "type": "constant",
            "value": [
                {"enabled": True, "tool_name": "price_of", "provider_name": "p", "type": "builtin"},
                {"enabled": False, "tool_name": "gone", "provider_name": "p", "type": "builtin"},
            ],
        },
    }
    content = flow(AGENT)
    content["nodes"][1]["data"] = {"agent_strategy_name": "function_calling", "agent_parameters": parameters}
    client = ScriptedClient([native("price_of", item="tea"), "3"])
    assert outputs_of(content, {"query": "Tea?"}, client)["text"] == "3"
    assert price_of == ["tea"]


def test_over_an_endpoint_with_tool_calls(price_of: list[str]) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        asks = body["messages"][-1]["role"] == "user"
        call = {
            "id": "x1",
            "type": "function",
            "function": {"name": "price_of", "arguments": '{"item": "tea"}'},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        if not asks:
            message = {"role": "assistant", "content": f"costs {body['messages'][-1]['content']}"}
        return Reply(body={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    with fake_endpoint(answer) as endpoint:
        models = ModelSettings(model="m", base_url=endpoint.base_url, constrain="off")
        result = Workflow.load(flow(AGENT)).run({"query": "Tea?"}, settings=RunSettings(models=models))
    assert result["text"] == "costs 3"
    first, second = endpoint.requests
    assert [message["content"] for message in first["messages"]] == ["Help with prices.", "Tea?"]
    assert first["tools"][0]["function"]["name"] == "price_of"
    assert first["tools"][0]["function"]["parameters"]["properties"]["item"]["type"] == "string"
    assert second["messages"][-2]["tool_calls"][0]["id"] == second["messages"][-1]["tool_call_id"] == "x1"


WORDS = (
    "Help with prices.\n\nYou may call tools. The tools are:\n"
    "- price_of(item: string, count: integer): Price of an item in euro.\nTo call one, answer with "
)
WRITTEN = '{"tool": "price_of", "arguments": {"item": "tea"}}'


def test_an_endpoint_that_takes_no_tools_is_told_in_words(price_of: list[str]) -> None:
    def refusing(body: dict[str, Any]) -> Reply:
        if "tools" in body:
            message = "tools is not supported by this model"
            return Reply(400, {"error": {"message": message, "param": "tools"}})
        return answer("3 euro" if body["messages"][-1]["content"].startswith("Result") else WRITTEN)

    with fake_endpoint(refusing) as endpoint:
        models = ModelSettings(model="m", base_url=endpoint.base_url, constrain="off")
        result = Workflow.load(flow(AGENT)).run({"query": "Tea?"}, settings=RunSettings(models=models))
    assert result["text"] == "3 euro"
    assert price_of == ["tea"]
    refused, *told = endpoint.requests
    assert refused["messages"][0]["content"] == "Help with prices."
    assert ["tools" in body for body in told] == [False, False]
    assert all(body["messages"][0]["content"].startswith(WORDS) for body in told)


def test_with_the_strategy_react_a_model_writes_its_calls(price_of: list[str]) -> None:
    content = flow(AGENT)
    content["nodes"][1]["data"]["agent_strategy_name"] = "ReAct"
    client = Asked([WRITTEN, "3 euro"])
    assert outputs_of(content, {"query": "Tea?"}, client)["text"] == "3 euro"
    assert price_of == ["tea"]
    assert all(messages[0].content.startswith(WORDS) for messages in client.calls)
    assert [options.tools for options in client.options] == [(), ()]


def test_the_embedded_model_is_told_in_words() -> None:
    assert traits_of(ModelSettings(model="local"), "task").refused == ("tools",)
    parameters = Parameters("grammar")
    parameters.drop("tools")
    tools = (ToolSchema("price_of", "Price of an item.", '{"properties": {"item": {"type": "string"}}}'),)
    messages = [Message("user", "Tea?")]
    told = parameters.turns(messages, Options(tools=tools))
    assert [message.role for message in told] == ["system", "user"]
    assert "- price_of(item: string): Price of an item.\n" in told[0].content
    assert parameters.turns(messages, Options()) == messages


@pytest.mark.parametrize(
    "tool_entry",
    [
        {"tool_parameters": {"count": "2", "item": "", "currency": "EUR"}},  # of an app without a graph
        {"settings": {"count": {"value": 2}}, "parameters": {"item": {"auto": 1, "value": None}}},
        {"parameters": {"count": {"auto": 0, "value": {"type": "variable", "value": ["start", "n"]}}}},
    ],
    ids=["app", "setting", "variable"],
)
def test_arguments_that_the_file_sets_are_not_the_model_s(
    tool_entry: dict[str, Any], price_of: list[str]
) -> None:
    content = flow(AGENT)
    content["nodes"][0]["data"]["variables"] = ["query", {"variable": "n", "type": "number", "default": 2}]
    content["nodes"][1]["data"]["tools"] = [{"tool_name": "price_of", **tool_entry}]
    client = Asked([native("price_of", item="tea"), "6 euro"])
    done = run_flow(content, {"query": "Two teas?"}, client)
    (called,) = done.node("agent").outputs["json"]
    assert called == {"tool": "price_of", "arguments": {"item": "tea", "count": 2}, "result": "6"}
    (schema,) = client.options[0].tools
    assert list(json.loads(schema.parameters)["properties"]) == ["item"]


def test_a_preset_argument_that_names_nothing_is_a_fault() -> None:
    content = flow(AGENT)
    value = {"type": "variable", "value": ["nobody", "n"]}
    content["nodes"][1]["data"]["tools"] = [
        {"tool_name": "price_of", "parameters": {"count": {"value": value}}}
    ]
    assert any("no node 'nobody'" in fault.message for fault in validate(content, needs_model=False))
