"""Answers counted: how many were lost, which models they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, fake_endpoint
from fakes import World, run_config, writer

from autoprompt import Models, optimize, resume
from autoprompt.errors import Interrupted
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import CUT, Completion, Forward, Options
from autoprompt.llm.kept.recorded import Answered, Tally, is_same_model
from autoprompt.records import Message, ToolCall, Usage
from autoprompt.runs import RunFolder


@pytest.mark.parametrize(
    ("answer", "labels", "cut", "empty"),
    [
        (Completion("odd", finish_reason=CUT), ("odd", "even"), 0, 0),
        (Completion(" Odd.\n", finish_reason=CUT), ("odd", "even"), 0, 0),
        (Completion("<think>hm</think>奇数", finish_reason=CUT), ("奇数", "偶数"), 0, 0),
        (Completion("it is od", finish_reason=CUT), ("odd", "even"), 1, 0),
        (Completion("it may be odd", finish_reason=CUT), ("odd", "even"), 1, 0),
        (Completion("odd", finish_reason=CUT), (), 1, 0),
        (Completion("<think>odd", finish_reason=CUT), ("odd", "even"), 1, 0),
        (Completion("<think>Let me see. It may be odd", finish_reason="stop"), ("odd", "even"), 0, 1),
        (Completion("<think>hm</think>", finish_reason="stop"), (), 0, 1),
        (Completion("", finish_reason="stop"), (), 0, 1),
        (Completion("", tool_calls=(ToolCall("c", "f", "{}"),)), (), 0, 0),
        (Completion("<think>hm</think>odd", finish_reason="stop"), ("odd", "even"), 0, 0),
    ],
)
def test_what_is_visible_tells_whether_an_answer_is_lost(
    answer: Completion, labels: tuple[str, ...], cut: int, empty: int
) -> None:
    tally = Tally()
    for _ in range(3):
        tally.add(Options(labels=labels), answer)
    bad = tally.bad()
    found = (bad["task"].cut, bad["task"].empty) if bad else (0, 0)
    assert found == (3 * cut, 3 * empty)


def test_no_setting_is_named_for_a_model_that_a_programs_code_names() -> None:
    tally = Tally()
    forward = Forward("d", lambda *_: Completion(""))
    tally.add(Options(forward=forward), Completion("", Usage(10, 0), model="m"))
    bad = tally.bad()["task"]
    assert str(bad.problem("task", None)).endswith("Where the program's code asks it, name another model.")
    assert bad.to_dict("task")["setting"] is None


def test_a_role_whose_thoughts_never_end_is_named_with_its_cost() -> None:
    tally = Tally()
    for _ in range(4):
        tally.add(Options(), Completion("<think>hm", Usage(10, 90, cost_usd=0.01), model="m"))
    said = str(tally.bad()["task"].problem("task", None))
    assert said.startswith("task: 4 of 4 answers of m were cut off or empty; they took 400 tokens ($0.0400)")


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
        ("openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
        ("gpt-4o-mini", "openai/gpt-4o-mini"),
        ("gpt-4", "gpt-4-0613"),
        ("gpt-4", "gpt-4-1106-preview"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("gemini-1.5-pro", "gemini-1.5-pro-002"),
        ("llama3", "llama3:latest"),
        ("meta-llama/Llama-3.1-8B-Instruct", "/models/llama-3.1-8b-instruct"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("anthropic.claude-3", "anthropic.claude-3-v2"),
    ],
)
def test_a_version_of_the_model_is_the_model(asked: str, answered: str) -> None:
    assert is_same_model(asked, answered)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4", "gpt-4-32k"),
        ("gpt-4", "gpt-4.1"),
        ("gpt-4", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-05-13"),
        ("llama3:70b", "llama3:8b"),
        ("qwen2.5-72b", "qwen2.5-7b"),
        ("my-deployment", "gpt-4o"),
    ],
)
def test_another_model_is_another_model(asked: str, answered: str) -> None:
    assert not is_same_model(asked, answered)


@pytest.mark.parametrize(
    ("asked", "names", "codes"),
    [
        ("m", ["m"], []),
        ("m", ["m-2024-01-01"], []),
        ("m", ["m-2024-01-01", "m-2024-06-01"], ["model.changed"]),
        ("m", ["x"], ["model.other-name"]),
        ("m", ["m", "x"], ["model.other-name", "model.changed"]),
        (None, ["x"], []),
        (None, ["x", "y"], ["model.changed"]),
    ],
)
def test_what_is_worth_a_warning(asked: str | None, names: list[str], codes: list[str]) -> None:
    found = Answered("task", asked, "host:1", dict.fromkeys(names, 3)).problems()
    assert [problem.code for problem in found] == codes


def test_an_endpoint_that_serves_another_model_is_named_in_the_result(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        name = "m-2024-01-01" if len(endpoint.requests) < 40 else "m-mini"
        message = {"role": "assistant", "content": "A"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        return Reply(body={"model": name, "choices": [choice], "usage": usage})

    with fake_endpoint(answer) as endpoint:
        config = run_config(tmp_path, base_url=endpoint.base_url, model="m", max_iterations=1, no_cache=True)
        result = optimize(config)
    codes = [warning.code for warning in result.warnings]
    assert codes.count("model.other-name") >= 1
    assert codes.count("model.changed") >= 1
    said = result.to_dict()["models"]["task"]
    assert (said["asked"], said["endpoint"]) == ("m", endpoint.base_url.split("/")[2])
    assert list(said["answered"]) == ["m-2024-01-01", "m-mini"]


class Renamed:
    """A student whose answers name another model from call `at` on; the call `die_at` is interrupted."""

    def __init__(self, at: int, die_at: int = -1) -> None:
        self.at, self.die_at, self.sent = at, die_at, 0

    def __call__(self, messages: list[Message], options: Options) -> Completion:
        self.sent += 1
        if self.sent == self.die_at:
            raise KeyboardInterrupt
        answer = World(base=0.2, rule_gain=0.5).student(messages, options)
        return Completion(answer.text, answer.usage, model="old-0101" if self.sent < self.at else "new-0202")


def test_a_resumed_run_knows_who_answered_before(tmp_path: Path) -> None:
    config = run_config(tmp_path, rows=110, no_cache=True, max_calls=600, max_iterations=2)
    before = Renamed(10_000, die_at=60)
    with pytest.raises(Interrupted):
        optimize(config, models=Models(ScriptedClient(before), ScriptedClient(writer)))
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert json.loads(RunFolder(run).journal_path.read_text().splitlines()[0])["model"] == "old-0101"
    after = Models(ScriptedClient(Renamed(0)), ScriptedClient(writer))
    result = resume(run, models=after)
    assert list(result.to_dict()["models"]["task"]["answered"]) == ["old-0101", "new-0202"]
    (warning,) = [one for one in result.warnings if one.code == "model.changed"]
    assert "answers name 'old-0101', later 'new-0202'" in str(warning)
