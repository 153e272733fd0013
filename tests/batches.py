"""Batches of quick trials in a folder of their own, and the model that answers them."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, answer, error
from fakes import target_of

from autoprompt import Models
from autoprompt.errors import EndpointError
from autoprompt.llm import ScriptedClient
from autoprompt.records import Message

Speak = Callable[[list[Message]], str]

RULE = "Mind the rule."
FLOW = """\
name: sorter
nodes:
  - {id: start, type: start, data: {variables: [input]}}
  - id: decide
    type: llm
    data:
      prompt_template:
        - {role: system, text: Decide A or B.}
        - {role: user, text: "{{#start.input#}}"}
  - id: end
    type: end
    data:
      outputs: [{variable: kind, value_selector: [decide, text]}]
"""


def reply(body: dict[str, Any]) -> Reply:
    """Rows are answered rightly where the prompt states the rule; other questions get a prompt with it.

    A prompt that says "refuse" is refused.
    """
    messages = body["messages"]
    text = "\n".join(message["content"] for message in messages)
    if "refuse" in text:
        return error(400, "this is refused")
    return answer(solve(messages[0]["content"], messages[-1]["content"]))


def solve(instruction: str, last: str) -> str:
    row = re.fullmatch(r"item (\d+)", last.strip())
    if row is None:
        return f"```\nDecide A or B. {RULE}\n```"
    number = int(row.group(1))
    return target_of(number) if RULE in instruction or number % 3 else "A"


def speak(messages: list[Message]) -> str:
    return solve(messages[0].content, messages[-1].content)


def scripted() -> Models:
    return Models(ScriptedClient(speak, identity="world"))


def dying(number: int, error: BaseException, speak: Speak = speak) -> Speak:
    """`speak`, but for its `number`-th request, which ends with `error`."""
    requests = itertools.count(1)

    def speak_or_die(messages: list[Message]) -> str:
        if next(requests) == number:
            raise error
        return speak(messages)

    return speak_or_die


def mortal(identity: str) -> Models:
    """As `scripted`, but gone at its 30th request: the trial that sends it is cut off in its search."""
    gone = EndpointError("it is gone", is_fatal=True)
    return Models(ScriptedClient(dying(30, gone), identity=identity))


def write_metric(home: Home, monkeypatch: pytest.MonkeyPatch, module: str, more: str = "") -> None:
    """A function `m` in a module that is read again, as in another process."""
    code = f"def m(prediction, target):\n    return float(prediction == target)\n{more}"
    (home.path / f"{module}.py").write_text(code, encoding="utf-8")
    monkeypatch.delitem(sys.modules, module, raising=False)


@dataclass
class Home:
    """A folder to run batches in."""

    path: Path
    base_url: str = "http://127.0.0.1:9/v1"
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def runs_dir(self) -> Path:
        return self.path / "runs"

    def defaults(self, **more: Any) -> dict[str, Any]:
        """Trials of about a hundred calls."""
        return {
            "dataset": "rows.jsonl",
            "prompt": "Decide A or B.",
            "model": "m",
            "base_url": self.base_url,
            "cache_dir": "cache",
            "memory_file": "memory.txt",
            "max_iterations": 1,
            "max_val": 12,
            "max_test": 8,
            "preset": "quick",
            "concurrency": 4,
            **more,
        }

    def write(self, name: str = "b.yaml", **spec: Any) -> Path:
        """JSON is YAML."""
        path = self.path / name
        path.write_text(json.dumps(spec, indent=1), encoding="utf-8")
        return path

    def write_batch(self, name: str = "b.yaml", *, seeds: Sequence[int] = (0, 1), **spec: Any) -> Path:
        given = {"defaults": self.defaults(), "matrix": {"seed": list(seeds)}} | spec
        return self.write(name, **given)

    def write_workflow(self) -> dict[str, Any]:
        """A workflow instead of the prompt, and a file of tools beside it: the defaults of its trials."""
        (self.path / "flow.yaml").write_text(FLOW, encoding="utf-8")
        (self.path / "tools.py").write_text("# none yet\n", encoding="utf-8")
        defaults = self.defaults(workflow="flow.yaml", tools="tools.py", input_field="input")
        del defaults["prompt"]
        return defaults

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]
