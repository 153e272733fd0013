"""The first line of a run says which address gets which key, by the name of its variable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attacked import FLOW, attacked
from called import call
from fake_endpoint import FakeEndpoint

from autoprompt.llm.endpoints import sends_to
from autoprompt.settings.records import RunConfig

KEY = "sk-of-the-user"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    attacked(tmp_path / "work", 'prompt: "Say 1 or 0."\n')
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    Path("f.yaml").write_text(FLOW, encoding="utf-8")
    return tmp_path / "work"


COMMANDS = {
    "run": (
        ["run", "--dataset", "rows.jsonl", "--max-calls", "120", "--set=no_test=true", "--no-memory"],
        "rows of",
    ),
    "eval": (["eval", "--dataset", "rows.jsonl"], "rows of rows.jsonl"),
    "check": (["check", "--dataset", "rows.jsonl", "--baseline", "b.json", "--update-baseline"], "rows of"),
    "flow": (["flow", "run", "f.yaml"], "inputs of f.yaml"),
    "science": (
        ["science", "What is it?", "--data", "rows.jsonl", "--max-iterations", "1", "--sandbox", "none"],
        "the task and outputs of experiments on rows.jsonl",
    ),
}


@pytest.mark.parametrize("quiet", [[], ["-q"], ["--json"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_the_first_line(folder: Path, endpoint: FakeEndpoint, command: str, quiet: list[str]) -> None:
    words, what = COMMANDS[command]
    result = call(*words, "--model", "m", "--base-url", endpoint.base_url, *quiet)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert lines[0].startswith(f"OPENAI_API_KEY goes to {endpoint.base_url} (model m); {what}")
    assert lines[0].endswith(" are sent there")
    assert KEY not in result.output
    if quiet == ["--json"]:
        name = "_sent_to" if command == "flow" else "sent_to"
        sent_to = [{"address": endpoint.base_url, "key": "OPENAI_API_KEY", "models": ["m"]}]
        assert json.loads(result.stdout)[name] == sent_to


def test_a_batch_names_each_address_once(folder: Path, endpoint: FakeEndpoint) -> None:
    text = "defaults: {dataset: rows.jsonl, max_calls: 120, no_memory: true, no_test: true, "
    text += f"base_url: '{endpoint.base_url}'}}\nmatrix: {{model: [m, n], seed: [0, 1]}}\n"
    Path("b.yaml").write_text(text, encoding="utf-8")
    result = call("batch", "b.yaml", "--json")
    first = result.stderr.splitlines()[0]
    key = f"OPENAI_API_KEY goes to {endpoint.base_url} (models m, n)"
    assert first == f"{key}; rows of rows.jsonl are sent there"
    assert json.loads(result.stdout)["sent_to"][0]["models"] == ["m", "n"]
    assert "goes to" not in call("batch", "b.yaml").stderr  # all is there: nothing is sent


def test_it_stands_in_the_events_of_a_run(folder: Path, endpoint: FakeEndpoint) -> None:
    call(*COMMANDS["run"][0], "--model", "m", "--base-url", endpoint.base_url)
    (path,) = Path("runs").glob("*/events.jsonl")
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert events[0]["event"] == "sends_to"
    assert events[0]["to"][0]["key"] == "OPENAI_API_KEY"


def test_each_role_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AUTOPROMPT_JUDGE_API_KEY", KEY)
    config = RunConfig(
        dataset="t.csv",
        model="m",
        base_url="http://u:p@task/v1?key=abc",
        optimizer_model="o",
        judge_model="j",
        judge_base_url="http://judge/v1",
        metric="llm_judge",
    )
    event = sends_to(config, ("task", "optimizer", "judge"))
    assert event is not None
    assert event.sentences == [
        "OPENAI_API_KEY goes to http://task/v1 (models m, o); rows of t.csv are sent there",
        "AUTOPROMPT_JUDGE_API_KEY goes to http://judge/v1 (model j); rows of t.csv are sent there",
    ]
    assert "p@" not in json.dumps(event.to_dict())
    assert "abc" not in json.dumps(event.to_dict())


def test_without_a_key_it_says_so_and_the_embedded_model_needs_no_line() -> None:
    event = sends_to(RunConfig(dataset="t.csv", base_url="http://here/v1"), ("task",))
    assert event is not None
    assert event.sentences == ["No key goes to http://here/v1; rows of t.csv are sent there"]
    assert sends_to(RunConfig(dataset="t.csv", model="local"), ("task", "optimizer", "judge")) is None
