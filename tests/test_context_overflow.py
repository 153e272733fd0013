"""Endpoints whose window is too small for what a run sends: it sends less, in every role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, error, fake_endpoint
from fakes import JUDGED, World, grader, run_config, writer

from autoprompt import RunConfig, RunResult, optimize
from autoprompt.errors import ContextOverflowError
from autoprompt.llm.client import Completion, Options, first_that_fits, halves, shortened
from autoprompt.llm.transport.failures import is_overflow
from autoprompt.records import Message, Usage

WORLD = World(base=0.4, rule_gain=0.0, demo_gain=0.55)
SAID = "This model's maximum context length is exceeded. Please reduce the length of the messages."


def endpoint_with(windows: dict[str, int]) -> Any:
    """Answers of the fake world by model; a request longer than its model's window is refused."""

    def reply(body: dict[str, Any]) -> Reply:
        model, messages = body["model"], [Message(m["role"], m["content"]) for m in body["messages"]]
        if sum(len(message.content) for message in messages) > windows.get(model, 10**9):
            return error(400, SAID, code="context_length_exceeded", type="invalid_request_error")
        answering = {"task": WORLD.student, "writer": writer, "judge": grader(lambda _: False)}[model]
        return answer(answering(messages, Options()).text)

    return fake_endpoint(reply)


def run(folder: Path, endpoint: FakeEndpoint, **more: Any) -> tuple[RunResult, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    config = run_config(
        folder,
        model="task",
        optimizer_model="writer",
        base_url=endpoint.base_url,
        no_reasoning=True,
        no_memory=True,
        **{"rows": 200, "preset": "quick", **more},
    )
    assert isinstance(config, RunConfig)
    return optimize(config, on_event=events.append), events


def test_a_window_too_small_for_a_set_of_demonstrations_gets_a_smaller_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with endpoint_with({"task": 200}) as endpoint:
        result, events = run(tmp_path, endpoint)
    data = result.to_dict()
    # A demonstration is some 8 characters, so that at most 20 fit beside the prompt.
    assert 4 <= len(result.best.demos) <= 20
    assert data["best"]["score"] > data["original"]["score"] + 0.1
    assert data["calls"] == len(endpoint.requests) <= data["calls_left"] + data["calls"]
    (warning,) = [w for w in data["warnings"] if w["code"] == "model.prompt-too-long"]
    assert "the run tries shorter ones" in warning["message"]
    # A set that is too long costs no race: three requests show it.
    refused = sum("reduce the length" in str(e.get("message", "")) for e in events)
    assert refused <= 1
    sent = [sum(len(m["content"]) for m in r["messages"]) for r in endpoint.requests if r["model"] == "task"]
    assert sum(length > 200 for length in sent) < 0.2 * len(sent)


@pytest.mark.parametrize("window", [1500, 2500])
def test_a_writer_and_an_analyst_with_a_small_window_are_told_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with endpoint_with({"writer": window}) as endpoint:
        _, events = run(tmp_path, endpoint, max_demos=0)
    analyses = [event for event in events if event["event"] == "analysis"]
    assert any(event["suggestions"] for event in analyses)
    written = [
        e for e in events if e["event"] == "candidate_proposed" and e["operator"] in ("patch", "rewrite")
    ]
    assert written
    assert not [e for e in events if "no proposal from the writer" in str(e.get("message"))]


def test_a_judge_with_a_small_window_is_shown_less_of_a_long_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    rows = [{"input": "very long " * 200 + f"item {n}", "target": "AB"[n % 7 % 2]} for n in range(60)]
    with endpoint_with({"judge": 1500}) as endpoint:
        from autoprompt import evaluate

        config = RunConfig(
            prompt="A or B?",
            labels=("A", "B"),
            model="task",
            judge_model="judge",
            base_url=endpoint.base_url,
            runs_dir=tmp_path,
            no_cache=True,
            **JUDGED,
        )
        report = evaluate(config, rows=rows)
    assert report.unscored == report.failed == 0
    asked = [r["messages"][-1]["content"] for r in endpoint.requests if r["model"] == "judge"]
    assert any("characters left out ...]" in text and "item 59" in text for text in asked)
    assert all("<answer>\nA\n</answer>" in text or "<answer>\nB\n</answer>" in text for text in asked)


@pytest.mark.parametrize(
    "said",
    [
        "context_length_exceeded None This model's maximum context length is 4097 tokens. However, your "
        "messages resulted in 5000 tokens.",
        "prompt is too long: 215000 tokens > 200000 maximum",
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
        "exceed_context_size_error the request exceeds the available context size",
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "too many tokens: total number of tokens in the prompt exceeds the limit of 4081",
        "Range of input length should be [1, 6000]",
        "输入内容过长，请缩短",
        "Prompt contains 9000 tokens, too large for model with 8192 maximum context length",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    ],
)
def test_what_endpoints_say_of_a_request_that_is_too_long(said: str) -> None:
    assert is_overflow(said)


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "model not found",
        "'messages[0].role' does not support 'system'",
        "The response was filtered due to the prompt triggering content management policy",
        "Invalid schema for response_format 'x': too many properties",
        "temperature must be less than 2",
        "You exceeded your current quota, please check your plan",
        "Rate limit reached: tokens per min limit exceeded",
    ],
)
def test_what_is_refused_for_another_reason_is_no_matter_of_length(said: str) -> None:
    assert not is_overflow(said)


def test_the_first_version_that_fits_is_sent() -> None:
    tried: list[int] = []

    def ask(rows: int) -> Completion:
        tried.append(rows)
        if rows > 2:
            raise ContextOverflowError("too long")
        return Completion("fine", Usage(1, 1))

    assert first_that_fits(ask, halves(8)) == (Completion("fine", Usage(1, 1)), 2)
    assert tried == [8, 4, 2]
    with pytest.raises(ContextOverflowError, match="too long"):
        first_that_fits(ask, (9, 8))


def test_a_shortened_text_keeps_both_ends() -> None:
    text = "a" * 60 + "b" * 60
    assert shortened(text, 1.0) == text
    assert shortened(text, 0.5) == "a" * 30 + "\n[... 60 characters left out ...]\n" + "b" * 30
    assert shortened(text, 0.0) == "\n[... 120 characters left out ...]\n"
    assert shortened("A", 0.1) == "A"
