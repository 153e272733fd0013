"""Each cell of the table in SECURITY.md, tried by the commands themselves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from attacked import SECRET, attacked, sent_texts
from called import call
from fake_endpoint import FakeEndpoint, answer, fake_endpoint
from typer.testing import CliRunner, Result

import autoprompt
from autoprompt.cli import app
from autoprompt.errors import arguments
from autoprompt.sandbox import choose
from autoprompt.settings.sidecar import Task

PAGE = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
SOURCES = ("flag", "environment", "config", "sidecar", ".env", "run", "trusted")
PROMPT = "[{role: user, text: 'a word: {{#start.input#}}'}]"
LLM = f"{{id: say, type: llm, data: {{model: m, prompt_template: {PROMPT}}}}}"
WORKFLOW = f"""
nodes:
  - {{id: start, type: start, data: {{variables: [{{variable: input, type: paragraph}}]}}}}
  - {LLM}
  - {{id: end, type: end, data: {{outputs: [{{variable: said, value_selector: [say, text]}}]}}}}
edges:
  - {{source: start, target: say}}
  - {{source: say, target: end}}
"""
MOCKED = """
nodes:
  - {id: start, type: start, data: {variables: [{variable: input, type: paragraph}]}}
  - {id: say, type: llm, data: {prompt_template: "{{#start.input#}}"}}
  - {id: again, type: llm, data: {prompt_template: "Say again: {{#say.text#}}"}}
"""
ASKED = """
import os

import httpx


def ask(input: str) -> str:
    turns = [{"role": "system", "content": "Say 1 or 0, as you see fit."}, {"role": "user", "content": input}]
    reply = httpx.post(os.environ["ASKED_URL"] + "/chat/completions", json={"model": "m", "messages": turns})
    return reply.json()["choices"][0]["message"]["content"]
"""
HTTP = """
nodes:
  - {{id: start, type: start}}
  - {{id: ask, type: http-request, data: {{method: post, url: '{url}', body: {{type: json, data: '{{}}'}}}}}}
  - {{id: end, type: end, data: {{outputs: [{{variable: said, value_selector: [ask, body]}}]}}}}
edges:
  - {{source: start, target: ask}}
  - {{source: ask, target: end}}
"""


@dataclass
class Place:
    """What a cell is tried in. main: the user's endpoint; other: the one that only the source names."""

    folder: Path
    main: FakeEndpoint
    other: FakeEndpoint
    said: str = field(default="", init=False)


@dataclass(frozen=True)
class Asked:
    """A row of the table. value: `{other}` is the other endpoint. command: what the user gives besides."""

    setting: str
    value: str
    command: tuple[str, ...] = ("eval", "--dataset", "rows.jsonl")
    prompt: tuple[str, ...] = ("--prompt", "Say 1 or 0.")
    endpoint: tuple[str, ...] = ("--model", "m", "--base-url", "{main}")

    def is_used(self, place: Place) -> bool:
        sent = sent_texts(place.main.requests)
        match self.setting:
            case "metric" | "tools":
                return (place.folder / "executed").exists()
            case "prompts_file":
                return "no tried row sends the text 'unsent'" in place.said
            case "mocks":
                return "Say again: from the mock" in sent
            case "workflow":
                return "a word: " in sent
            case "sandbox":
                return "sandbox: none" in place.said
            case "prompt":
                return SECRET in sent or "text of the file" in sent
            case "max_output_tokens":
                return bool(re.search(r'"max(_completion)?_tokens": 7\b', sent))
            case "OPENAI_API_KEY":
                return "sk-of-the-source" in sent_texts(place.main.headers)
            case _:  # addresses: what the other endpoint heard
                return bool(place.other.requests)


ROWS = {
    "code: `metric": Asked("metric", "python:evil:f"),
    "code: `tools`": Asked("tools", "evil.py", prompt=("--workflow", "flow.yaml")),
    "a program: `workflow`": Asked("workflow", "flow.yaml", prompt=()),
    "a file that `runs apply`": Asked("prompts_file", "prompts.yaml", prompt=("--program", "asked:ask")),
    "outputs in the place": Asked("mocks", "mocks.yaml", prompt=("--workflow", "mocked.yaml")),
    "code without limits": Asked("sandbox", "none", ("science", "What?", "--max-iterations", "1"), ()),
    "a file in its own folder": Asked("prompt", "@prompt.txt", prompt=()),
    "a file elsewhere": Asked("prompt", "@../secret.txt", prompt=()),
    "an address": Asked("base_url", "{other}", endpoint=("--model", "m")),
    "a host of this network": Asked("allow_private_hosts", "127.0.0.1", ("flow", "run", "web.yaml"), ()),
    "a proxy or certificates": Asked("HTTP_PROXY", "{other}"),
    "a key": Asked("OPENAI_API_KEY", "sk-of-the-source"),
    "other settings": Asked("max_output_tokens", "7"),
}


def cells() -> list[Any]:
    rows = re.findall(r"^\| (.+) \|$", PAGE.split("| asked for |")[1].split("\n\n")[0], re.MULTILINE)[1:]
    found = []
    for name, *outcomes in (row.split(" | ") for row in rows):
        (key,) = (key for key in ROWS if name.startswith(key))
        assert len(outcomes) == len(SOURCES), name
        for source, outcome in zip(SOURCES, outcomes, strict=True):
            others = [source] if source != "trusted" else [s for s in ("sidecar", ".env") if says(key, s)]
            found += [
                pytest.param(key, other, outcome, source == "trusted", id=f"{key}-{source}-{other}")
                for other in others
            ]
    return found


def says(key: str, source: str) -> bool:
    """Whether a source has a way to say it."""
    asked = ROWS[key]
    is_variable = asked.setting.isupper()
    if source == "sidecar":
        return asked.setting in Task.model_fields
    return source in ("environment", ".env") or not is_variable


def test_the_table_has_each_row_once() -> None:
    assert {cell.values[0] for cell in cells()} == set(ROWS)
    assert len(cells()) == len(ROWS) * 6 + sum(says(key, s) for key in ROWS for s in ("sidecar", ".env"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    folder = tmp_path / "work"
    attacked(folder)
    (folder / "prompts.yaml").write_text("unsent: Nobody sends this text.", encoding="utf-8")
    (folder / "asked.py").write_text(ASKED, encoding="utf-8")
    (folder / "prompt.txt").write_text("text of the file", encoding="utf-8")
    (folder / "flow.yaml").write_text(WORKFLOW, encoding="utf-8")
    (folder / "mocked.yaml").write_text(MOCKED, encoding="utf-8")
    (folder / "mocks.yaml").write_text("say: {outputs: {text: from the mock}}", encoding="utf-8")
    monkeypatch.chdir(folder)
    with (
        pytest.MonkeyPatch.context() as variables,
        fake_endpoint(lambda body: answer("1")) as main,
        fake_endpoint(lambda body: answer("1")) as other,
    ):
        for name in ("HTTP_PROXY", "http_proxy", "OPENAI_API_KEY", "NO_PROXY", "no_proxy", "AUTOPROMPT_X"):
            variables.delenv(name, raising=False)
        variables.setenv("ASKED_URL", main.base_url)
        before = set(os.environ)
        (folder / "web.yaml").write_text(
            HTTP.format(url=f"{other.base_url}/chat/completions"), encoding="utf-8"
        )
        yield Place(folder, main, other)
        for name in set(os.environ) - before:  # what `.env` has set
            del os.environ[name]


@pytest.mark.parametrize(("key", "source", "outcome", "is_trusted"), cells())
def test_a_cell(
    place: Place, monkeypatch: pytest.MonkeyPatch, key: str, source: str, outcome: str, is_trusted: bool
) -> None:
    asked = ROWS[key]
    if asked.setting == "sandbox" and str(choose("auto")) == "none":
        pytest.skip("nothing confines code here")
    if source == "run":
        assert of_a_run(place, monkeypatch, asked) == outcome
        return
    if not says(key, source):
        assert outcome == "—"
        if source == "sidecar":  # a sidecar that says it all the same is refused as a whole
            (place.folder / "rows.task.yaml").write_text(f"{asked.setting}: x\n", encoding="utf-8")
            call("eval", "--dataset", "rows.jsonl", "--prompt", "Say 1 or 0.", code=3)
        return
    if is_trusted:
        autoprompt.trust(place.folder)
    flags = given(place, monkeypatch, asked, source)
    assert outcome_of(place, called(place, asked, flags), asked) == outcome


def given(place: Place, monkeypatch: pytest.MonkeyPatch, asked: Asked, source: str) -> list[str]:
    """Let a source say it; the flags for that."""
    value = asked.value.format(other=place.other.base_url)
    if asked.setting == "HTTP_PROXY":
        value = value.removesuffix("/v1")
    variable = asked.setting if asked.setting.isupper() else f"AUTOPROMPT_{asked.setting.upper()}"
    match source:
        case "flag":
            return arguments(asked.setting, value)
        case "environment":
            monkeypatch.setenv(variable, value)
        case ".env":
            (place.folder / ".env").write_text(f"{variable}={value}\n", encoding="utf-8")
        case "sidecar":
            text = yaml.safe_dump({asked.setting: int(value) if value.isdigit() else value})
            (place.folder / "rows.task.yaml").write_text(text, encoding="utf-8")
        case "config":
            is_list = asked.setting == "allow_private_hosts"
            values = {asked.setting: [value] if is_list else int(value) if value.isdigit() else value}
            (place.folder / "c.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
            return ["--config", "c.yaml"]
    return []


def called(place: Place, asked: Asked, flags: list[str]) -> Result:
    endpoint = [part.format(main=place.main.base_url) for part in asked.endpoint]
    result = CliRunner().invoke(app, [*asked.command, *asked.prompt, *endpoint, *flags, "--json"])
    place.said = result.stderr
    return result


def outcome_of(place: Place, result: Result, asked: Asked) -> str:
    if asked.is_used(place):
        assert result.exit_code == 0, result.output
        return "yes"
    if result.exit_code == 3 and '"code": "trust.' in result.stdout:
        assert not place.main.requests
        assert not place.other.requests
        return "error"
    assert "ignored, because you have not trusted the folder: " in result.stderr, result.output
    return "not used"


def of_a_run(place: Place, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> str:
    """What becomes of a run of another user with this setting; as for all of them, the folder is refused."""
    if asked.setting.isupper():
        return "—"  # no run folder holds a variable
    limits = ("--max-calls", "120", "--set=no_test=true", "--no-memory", "--prompt", "Say 1 or 0.")
    call("run", "--dataset", "rows.jsonl", *limits, "--model", "m", "--base-url", place.main.base_url)
    (run,) = (path for path in Path("runs").iterdir() if (path / "run.json").is_file())
    value: Any = asked.value.format(other=place.other.base_url)
    for path in (run / "config.yaml", run / "run.json"):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        (data["settings"] if path.suffix == ".json" else data)[asked.setting] = value
        text = json.dumps(data) if path.suffix == ".json" else yaml.safe_dump(data)
        path.write_text(text, encoding="utf-8")
    place.main.requests.clear()
    result = call("eval", "--from", str(run), "--dataset", "rows.jsonl", "--json", code=3)
    return outcome_of(place, result, asked)
