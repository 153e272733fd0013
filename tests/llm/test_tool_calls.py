"""Tool calls through the layers of a client: what is sent, read, kept."""

from __future__ import annotations

import json
from pathlib import Path

from fake_endpoint import Reply, fake_endpoint

from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options, ToolSchema
from autoprompt.llm.kept.cache import ResponseCache, from_record, request_key, to_record
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import Shared, wrap
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.llm.transport.langchain import LangChainTransport
from autoprompt.records import Message, ToolCall

SEARCH = ToolSchema(
    "search", "Looks things up", '{"type": "object", "properties": {"q": {"type": "string"}}}'
)
CALL = ToolCall("c1", "search", '{"q": "tea"}')
TURNS = [
    Message("user", "find tea"),
    Message("assistant", "", (CALL,)),
    Message("tool", "found", tool_call_id="c1"),
]
REPLY = Reply(
    body={
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c2",
                            "type": "function",
                            "function": {"name": "search", "arguments": '{"q": "green tea"}'},
                        }
                    ],
                },
            }
        ]
    }
)


def test_both_transports_send_and_read_them() -> None:
    with fake_endpoint(lambda body: REPLY) as endpoint:
        for transport in (
            HttpTransport(endpoint.base_url, "m"),
            LangChainTransport(endpoint.base_url, "m", trust_env=False),
        ):
            answer = transport.complete(TURNS, Options(tools=(SEARCH,)))
            transport.close()
            (call,) = answer.tool_calls
            assert (call.id, call.name, json.loads(call.arguments)) == ("c2", "search", {"q": "green tea"})
            assert answer.text == ""
    for body in endpoint.requests:
        assert body["tools"][0]["function"]["name"] == "search"
        assert body["messages"][1]["tool_calls"][0]["id"] == "c1"
        assert body["messages"][2]["tool_call_id"] == "c1"


def test_they_are_part_of_the_key_and_plain_requests_keep_theirs() -> None:
    plain = [Message("user", "hi")]
    keys = {
        request_key("e", "m", "off", plain, Options()),
        request_key("e", "m", "off", plain, Options(tools=(SEARCH,))),
        request_key("e", "m", "off", TURNS, Options()),
        request_key("e", "m", "off", [Message(m.role, m.content) for m in TURNS], Options()),
    }
    assert len(keys) == 4


def test_they_are_kept_with_the_answer() -> None:
    answer = Completion("", tool_calls=(CALL,))
    assert from_record(json.loads(json.dumps(to_record(answer)))).tool_calls == (CALL,)
    assert "tool_calls" not in to_record(Completion("x"))


def test_an_answer_that_calls_a_tool_is_paid_once_in_all_runs(tmp_path: Path) -> None:
    model = ScriptedClient(lambda _: Completion("", tool_calls=(CALL,)), identity="m")
    for _ in range(2):
        cache = ResponseCache(tmp_path)
        client = wrap(model, Shared(BudgetMeter(), cache=cache))
        assert client.complete([Message("user", "find tea")], Options(tools=(SEARCH,))).tool_calls == (CALL,)
        cache.close()
    assert len(model.calls) == 1
