from __future__ import annotations

import json
from typing import Any

import pytest

from autoprompt.llm.transport.stream import is_stream, read_stream


def events(*pieces: Any, end: str = "\n\n", done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(piece, ensure_ascii=False)}{end}" for piece in pieces]
    return "".join([*lines, *(["data: [DONE]" + end] if done else [])]).encode()


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


HELLO = (
    delta(role="assistant", content=""),
    delta(content="Hel"),
    delta(content="lo"),
    delta("stop"),
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
)


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\n"])
def test_the_pieces_become_one_answer(end: str) -> None:
    content = b": keep-alive" + end.encode() + events(*HELLO, end=end)
    assert is_stream(content)
    whole = read_stream(content)
    assert whole["choices"] == [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]
    assert (whole["usage"], whole["model"]) == ({"prompt_tokens": 5, "completion_tokens": 2}, "m")


def test_thoughts_refusals_and_probabilities_are_put_together_too() -> None:
    told = {"token": "a", "logprob": 0.0}
    first, second = delta(reasoning_content="I "), delta(reasoning_content="think", refusal="N")
    for piece in (first, second):
        piece["choices"][0]["logprobs"] = {"content": [told]}
    choice = read_stream(events(first, second, delta("stop", refusal="o")))["choices"][0]
    assert choice["message"] == {"reasoning_content": "I think", "refusal": "No"}
    assert choice["logprobs"] == {"content": [told, told]}


def test_a_tool_call_comes_in_pieces() -> None:
    def call(**function: str) -> dict[str, Any]:
        return delta(
            tool_calls=[{"index": 0, "function": function, **({"id": "c1"} if "name" in function else {})}]
        )

    content = events(
        call(name="look", arguments=""), call(arguments='{"a":'), call(arguments="1}"), delta("tool_calls")
    )
    calls = read_stream(content)["choices"][0]["message"]["tool_calls"]
    assert calls == [{"id": "c1", "function": {"name": "look", "arguments": '{"a":1}'}}]


@pytest.mark.parametrize(
    "calls",
    [5, "x", ["x"], [None], [{"index": -5}], [{"index": 10**9}], [{"index": "0"}], [{"index": 1.5}]],
)
def test_tool_calls_that_are_none_are_a_broken_answer(calls: object) -> None:
    piece = {"choices": [{"delta": {"tool_calls": calls}}]}
    with pytest.raises(ValueError, match="tool"):
        read_stream(f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode())


def test_of_several_answers_the_first_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert read_stream(events(HELLO[1], other, HELLO[3]))["choices"][0]["message"]["content"] == "Hel"


def test_an_error_in_the_stream_is_the_answer() -> None:
    fault = {"message": "overloaded", "code": 503}
    assert read_stream(events(HELLO[1], {"error": fault}, done=False)) == {"error": fault}
    assert read_stream(b'event: error\ndata: {"message": "no", "code": 429}\n\n') == {
        "error": {"message": "no", "code": 429}
    }


@pytest.mark.parametrize("content", [events(HELLO[1], done=False), b"data: {\n\n", b"data: 1\n\n"])
def test_a_stream_that_breaks_off_is_no_answer(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own
        read_stream(content)


def test_a_line_separator_in_a_text_ends_no_line() -> None:
    content = events(delta("stop", content="a\u2028b"))
    assert read_stream(content)["choices"][0]["message"]["content"] == "a\u2028b"


@pytest.mark.parametrize("content", [b'{"choices": []}', b"", b"<html>", b'"data:"'])
def test_what_is_no_stream(content: bytes) -> None:
    assert not is_stream(content)
