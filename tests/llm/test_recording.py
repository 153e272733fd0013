"""Answers in a file: written the same each time, replayed word for word, and what is said of a bad file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt.errors import BudgetExhausted, ConfigError, EndpointError, RequestRefusedError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.kept.recording import Recording, RecordingClient, ReplayClient, read_recording
from autoprompt.records import Message, Usage

ANSWERS: dict[str, Any] = {
    "a": "1",
    "b": Completion("是\u2028\ud800", Usage(5, 2, 0.25), {"1": 0.75, "0": 0.25}, "stop", "m-2026", 3.5),
    "c": EndpointError("503 three times"),
    "d": RequestRefusedError("too long"),
}


def ask(text: str) -> list[Message]:
    return [Message("system", "Be brief."), Message("user", text)]


def recorded(path: Path, names: str = "abcd", answers: dict[str, Any] | None = None) -> Path:
    recording = Recording()
    client = RecordingClient(ScriptedClient(answers or ANSWERS, name="m"), recording, "task")
    for name in names:
        try:
            client.complete(ask(name), Options(seed=0))
        except (EndpointError, RequestRefusedError):
            continue
    path.write_text(recording.to_text(), encoding="utf-8")
    return path


def test_what_was_recorded_is_replayed(tmp_path: Path) -> None:
    recording = read_recording(recorded(tmp_path / "r.jsonl"))
    client = ReplayClient(recording, "task", tmp_path / "r.jsonl")
    assert client.name == "m"
    assert client.complete(ask("a"), Options(seed=0)).text == "1"
    found = client.complete(ask("b"), Options(seed=0))
    assert (found.text, found.usage, found.label_probs) == (
        "是\u2028\ud800",
        Usage(5, 2, 0.25),
        {"1": 0.75, "0": 0.25},
    )
    with pytest.raises(EndpointError, match="503 three times"):
        client.complete(ask("c"), Options(seed=0))
    with pytest.raises(RequestRefusedError, match="too long"):
        client.complete(ask("d"), Options(seed=0))


def test_the_file_does_not_depend_on_order_or_speed(tmp_path: Path) -> None:
    slow = {**ANSWERS, "b": Completion("x", latency_s=9.0)}
    quick = {**ANSWERS, "b": Completion("x", latency_s=0.1)}
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    assert recorded(one, "abcd", slow).read_bytes() == recorded(two, "dbca", quick).read_bytes()


def test_what_was_not_recorded_is_said_and_not_asked(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl", "a")
    client = ReplayClient(read_recording(path), "task", path)
    for messages, options in (
        (ask("other"), Options(seed=0)),
        (ask("a"), Options(seed=1, sample=1)),
        (ask("a")[1:], Options(seed=0)),
    ):
        with pytest.raises(ConfigError, match=r"r\.jsonl: no answer was recorded for '.*record again"):
            client.complete(messages, options)
    with pytest.raises(BudgetExhausted):  # it was not asked again then, so it is not now
        client.complete(ask("a"), Options(seed=1001, sample=1001, is_retry=True))


def test_a_dead_endpoint_is_not_recorded(tmp_path: Path) -> None:
    recording = Recording()
    client = RecordingClient(ScriptedClient({"a": EndpointError("gone", is_fatal=True)}), recording, "task")
    with pytest.raises(EndpointError):
        client.complete(ask("a"))
    assert len(recording) == 0


def test_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl", "ab")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(read_recording(path)) == 2


def line(**changes: Any) -> str:
    return json.dumps({"kind": "autoprompt recording", "schema_version": 1, "models": {}, **changes})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: not JSON"),
        ('{"score": 1}\n', "line 1: not the head of a recording"),
        (
            line(schema_version=9),
            "wrote this recording (format 9; this one reads 1)",
        ),
        (line(answers=1) + "\n<<<<<<< HEAD\n", "line 2: not JSON"),
        (line(answers=1) + '\n{"key": "a"}\n', "line 2: no answer of a model"),
        (line(answers=1) + "\n[]\n", "line 2: not a JSON object"),
        (line(answers=3) + '\n{"key": "a", "failed": "x"}\n', "1 answer found, its head says 3"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_recording(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recording can be read"):
        read_recording(tmp_path / "none.jsonl")
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_recording(path)
