"""Answers that come in events: put together, and a local one read while it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import EndpointError
from autoprompt.llm.client import Options
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.llm.transport.stream import (
    LOOP_REPEATS,
    LOOP_TOKENS,
    WatchedAnswer,
    is_stream,
    loop_of,
    may_repeat,
    read_stream,
)
from autoprompt.measure.program import PromptProgram
from autoprompt.records import Candidate, Example, Message
from autoprompt.text.answers.reasoning import request
from tests.fake_endpoint import Reply, answer, fake_endpoint


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


ASK = [Message("user", "1 or 2?")]
ROW = Example("r", "x", "1", {"input": "x", "target": "1"})


def tokens_as_events(tokens: list[str], reason: str = "stop") -> list[bytes]:
    """What llama.cpp sends: a role, a piece for each token, the end."""
    timings = [{"cache_n": 30, "prompt_n": 11, "predicted_n": at + 1} for at in range(len(tokens))]
    sent: list[dict[str, Any]] = [{"choices": [{"delta": {"role": "assistant", "content": None}}]}]
    sent += [
        {"choices": [{"delta": {"content": token}, "finish_reason": None}], "model": "m", "timings": counted}
        for token, counted in zip(tokens, timings, strict=True)
    ]
    sent.append(
        {"choices": [{"delta": {}, "finish_reason": reason}], "timings": timings[-1] if timings else {}}
    )
    return [*(b"data: " + json.dumps(event).encode() + b"\n\n" for event in sent), b"data: [DONE]\n\n"]


def read_watched(pieces: Iterable[bytes], *, gives_up_after: int = 0) -> dict[str, Any]:
    answer = WatchedAnswer(gives_up_after)
    for piece in pieces:
        if answer.add(piece):
            break
    data: dict[str, Any] = json.loads(answer.content())
    return data


class Read:
    """A stream that tells how many of its pieces were taken."""

    def __init__(self, tokens: list[str], *, gives_up_after: int = 0, reason: str = "stop") -> None:
        self.taken = 0
        pieces = self._pieces(tokens_as_events(tokens, reason))
        self.data = read_watched(pieces, gives_up_after=gives_up_after)

    def _pieces(self, pieces: list[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.taken += 1
            yield piece

    @property
    def text(self) -> str:
        return str(self.data["choices"][0]["message"]["content"])

    @property
    def reason(self) -> str:
        return str(self.data["choices"][0]["finish_reason"])


def test_a_stream_is_read_as_the_answer_at_once_would_be() -> None:
    read = Read(["Hel", "lo ", "wörld"])
    assert (read.text, read.reason, read.data["model"]) == ("Hello wörld", "stop", "m")
    assert read.data["usage"] == {"prompt_tokens": 41, "completion_tokens": 3}


@given(st.lists(st.text(max_size=4), max_size=30), st.integers(1, 50))
def test_events_may_come_in_any_pieces(tokens: list[str], size: int) -> None:
    whole = b"".join(tokens_as_events(tokens))
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    data = read_watched(pieces)
    assert data["choices"][0]["message"]["content"] == "".join(tokens)


@pytest.mark.parametrize("unit", [["1", "\n"], ["1"], ["Answer", ":", " 1", "\n"], ["a ", "b ", "c "]])
def test_an_answer_that_only_repeats_itself_is_broken_off(unit: list[str]) -> None:
    read = Read(["So", ":", "\n", *unit * 500], reason="length")
    assert read.taken < 3 + max(LOOP_TOKENS, LOOP_REPEATS * len(unit)) + 20
    assert read.reason == "length"
    assert read.data["usage"]["completion_tokens"] < 200
    if "\n" in unit:
        assert read.text.endswith("\n")


ROWS = ["{", '"a"', ":", " 0", "}", ",", "\n"]


@pytest.mark.parametrize(
    "tokens",
    [
        [*ROWS * 13, "{", "}"],  # rows that are equal
        [part for n in range(80) for part in ("Step ", str(n), ": ", "forward", "\n")],
        ["0", ", "] * 40,
        ["-"] * 80,
        ["Take", " 1", " step", ".", "\n"] * 15,
        [str(n % 7) for n in range(90)],
    ],
)
def test_lists_steps_and_rows_are_read_to_their_end(tokens: list[str]) -> None:
    assert Read(tokens).text == "".join(tokens)


def test_an_answer_may_repeat_what_its_target_may() -> None:
    tokens = ROWS * 100
    assert Read(tokens, gives_up_after=len(tokens)).text == "".join(tokens)
    assert len(Read(tokens, gives_up_after=256).text) < len("".join(tokens))


@given(st.text("ab\n", max_size=60), st.text("ab1\n", min_size=1, max_size=9), st.integers(LOOP_REPEATS, 40))
def test_a_loop_begins_where_its_unit_does_or_before(head: str, unit: str, times: int) -> None:
    text = head + unit * times
    begin = loop_of(text)
    assert begin is not None
    assert begin <= len(head)


def test_thoughts_that_go_round_in_circles_end_too() -> None:
    thought = [{"choices": [{"delta": {"reasoning_content": "hm\n"}, "finish_reason": None}]}] * 500
    pieces = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in thought]
    message = read_watched(pieces)["choices"][0]["message"]
    assert message["content"] == ""
    assert 0 < len(message["reasoning_content"]) < 500
    pieces = [*pieces[:50], *tokens_as_events(["2"])]
    message = read_watched(pieces)["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("2", "hm\n" * 50)


def test_what_does_not_repeat_has_no_loop() -> None:
    assert loop_of("".join(f"{n}\n" for n in range(500))) is None
    assert loop_of("1\n" * (LOOP_REPEATS - 1)) is None


def test_answers_that_cannot_repeat_for_long_are_asked_for_at_once() -> None:
    assert may_repeat({"max_tokens": 512})
    assert may_repeat({})
    assert not may_repeat({"max_tokens": LOOP_TOKENS})
    assert not may_repeat({"max_tokens": 512, "grammar": "root ::= x"})
    assert not may_repeat({"max_tokens": 512, "tools": []})


def served(tokens: list[str], reason: str = "length") -> Reply:
    body = b"".join(tokens_as_events(tokens, reason)).decode()
    return Reply(body=body, headers={"Content-Type": "text/event-stream"})


def test_the_embedded_model_alone_is_asked_for_a_stream() -> None:
    with fake_endpoint(lambda body: served(["1"]) if body.get("stream") else answer("1")) as endpoint:
        for is_here, options in (
            (True, Options(repeats_after=0)),
            (True, Options(role="optimizer")),
            (True, Options()),
            (False, Options(repeats_after=0)),
        ):
            transport = HttpTransport(endpoint.base_url, "m", is_here=is_here)
            assert transport.complete(ASK, options).text == "1"
            transport.close()
    assert [bool(body.get("stream")) for body in endpoint.requests] == [True, True, False, False]


def test_an_error_inside_of_a_stream_is_an_error() -> None:
    body = 'data: {"error": {"code": 500, "message": "no room"}}\n\n'
    with fake_endpoint(lambda _: Reply(body=body, headers={"Content-Type": "text/event-stream"})) as endpoint:
        transport = HttpTransport(endpoint.base_url, "m", is_here=True)
        with pytest.raises(EndpointError, match="no room"):
            transport.complete(ASK, Options(repeats_after=0))
        transport.close()


@pytest.mark.parametrize(
    "tokens",
    [
        ["1", "\n"] * 256,
        ["Answer", ":", " 1", "\n"] * 128,
        ["It", " is", " even", ".", "\n", "Answer", ":", " 2", "\n", *["2", "\n"] * 200],
        ["x", "\n"] * 200,
    ],
)
def test_what_is_read_is_the_same_as_of_the_whole_answer(tokens: list[str]) -> None:
    """An answer that is worked out first, cut at the limit of its length or before."""
    values = []
    for is_here in (True, False):

        def reply(body: dict[str, Any]) -> Reply:
            whole = answer("".join(tokens), finish_reason="length")
            return served(tokens) if body.get("stream") else whole

        with fake_endpoint(reply) as endpoint:
            transport = HttpTransport(endpoint.base_url, "m", is_here=is_here)
            prompt = "Even?\n" + request("Even?", ("1", "2"))
            program = PromptProgram(transport, prompt, labels=("1", "2"), options=Options(repeats_after=0))
            values.append(program.run(ROW, Candidate({"prompt": prompt})).value)
            transport.close()
        assert bool(endpoint.requests[0].get("stream")) is is_here
    assert values[0] == values[1]
