"""Rows need no target if the metric needs none: a prompt, a workflow and a program, from every format."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from called import call
from fake_endpoint import FakeEndpoint, Reply, answer, fake_endpoint

import autoprompt
from autoprompt import RunConfig
from autoprompt.errors import ConfigError, DatasetError

PROMPT = "Reply to the ticket."
TEXTS = [f"ticket {n * 7919 % 1000}: the invoice of day {n} is wrong" for n in range(90)]
FLOW = f"""\
nodes:
  - {{id: start, type: start, data: {{variables: [{{variable: input, type: paragraph}}]}}}}
  - id: reply
    type: llm
    data:
      prompt_template: [{{role: system, text: "{PROMPT}"}}, {{role: user, text: "{{{{#start.input#}}}}"}}]
edges: [{{source: start, target: reply}}]
"""
METRIC = """\
def polite(prediction, example):
    return float("thank you" in prediction and example.input in prediction)


def same(prediction, example):
    return float(prediction == example.target)


def equal(prediction, target):
    return float(prediction == target)


def optional(prediction, target=None):
    return float("thank you" in prediction and target is None)
"""


def reply_to(body: dict[str, Any]) -> Reply:
    turns = body["messages"]
    last = str(turns[-1]["content"])
    if "<answer>" in last:
        assert "<expected>" not in last
        return answer(json.dumps({"score": 5 if "thank you" in last.lower() else 1, "reason": "its manners"}))
    if body["model"] == "w":
        return answer(
            "```\nReply to the ticket, and be polite.\n```" if "<current>" in last else "It is rude."
        )
    is_polite = "polite" in turns[0]["content"] or sha256(last.encode()).digest()[0] % 3 == 0
    return answer(f"{last}: thank you" if is_polite else f"{last}: no")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with fake_endpoint(reply_to) as found:
        monkeypatch.setenv("REPLY_URL", found.base_url)
        yield found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "manners.py").write_text(METRIC, encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "manners", raising=False)
    return tmp_path


def replying(input: str) -> str:
    turns = [{"role": "system", "content": PROMPT}, {"role": "user", "content": input}]
    url = f"{os.environ['REPLY_URL']}/chat/completions"
    with httpx.Client(verify=False) as client:
        reply = client.post(url, json={"model": "m", "messages": turns})
    return str(reply.json()["choices"][0]["message"]["content"])


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps({"input": text}) + "\n" for text in TEXTS[:24]), encoding="utf-8")


def write_nulls(path: Path) -> None:
    rows = [{"input": text, "target": None} for text in TEXTS[:24]]
    path.write_text(json.dumps(rows), encoding="utf-8")


def write_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["input", "day"], *([text, n] for n, text in enumerate(TEXTS[:24]))])


def write_blanks(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["input", "target"], *([text, " "] for text in TEXTS[:24])])


def write_parquet(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({"input": TEXTS[:24]}), path)


FORMATS = {
    "rows.jsonl": write_jsonl,
    "nulls.json": write_nulls,
    "rows.csv": write_csv,
    "blanks.csv": write_blanks,
    "rows.parquet": write_parquet,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read(name: str, tmp_path: Path, endpoint: FakeEndpoint) -> None:
    FORMATS[name](tmp_path / name)
    config = RunConfig(dataset=tmp_path / name, metric="python:manners:polite", no_cache=True)
    found = autoprompt.evaluate(config, program=replying)
    assert (found.n, found.failed) == (24, 0)
    polite = sum(sha256(text.encode()).digest()[0] % 3 == 0 for text in TEXTS[:24])
    assert found.score == polite / 24
    assert "no row has a target (field 'target')" in " ".join(map(str, found.warnings))
    known = autoprompt.evaluate(config.model_copy(update={"target_field": ""}), program=replying)
    assert (known.n, known.score) == (24, found.score)
    assert "target" not in " ".join(map(str, known.warnings))
    assert not any(row.ground_truth for row in found.evaluation.rows)


CHATS = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}] for text in TEXTS]


def test_a_conversation_that_ends_with_the_user_is_read(endpoint: FakeEndpoint) -> None:
    config = RunConfig(
        prompt=PROMPT, model="m", base_url=endpoint.base_url, metric="regex",
        metric_options={"pattern": "thank you"}, no_cache=True,
    )  # fmt: skip
    found = autoprompt.evaluate(config, rows=[{"input": chat} for chat in CHATS])
    assert (found.n, found.failed) == (90, 0)
    assert 0.2 < found.score < 0.5


TASKS: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": PROMPT},
    "workflow": {"workflow": Path("flow.yaml")},
    "program": {"program": replying},
}


@pytest.mark.parametrize("metric", ["llm_judge", "python:manners:polite"])
@pytest.mark.parametrize("kind", TASKS)
def test_a_prompt_a_workflow_and_a_program_are_optimized(
    kind: str, metric: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    given = dict(TASKS[kind])
    program = given.pop("program", None)
    model = {} if program else {"model": "m"}
    config = RunConfig(
        **given, **model, base_url=endpoint.base_url, optimizer_model="w", metric=metric, preset="quick",
        metric_options={"rubric": "Is it polite?"} if metric == "llm_judge" else {}, judge_model="j",
        runs_dir=tmp_path / "runs", no_memory=True, no_cache=True,
    )  # fmt: skip
    result = autoprompt.optimize(config, rows=[{"input": text} for text in TEXTS], program=program)
    assert result.to_dict()["verdict"] == "confirmed"
    assert "polite" in " ".join(result.best.components.values()) or result.best.demos
    assert all("thank you" in demo.output for demo in result.best.demos)
    call("report", str(result.run_dir), "-o", "report.md")
    report = Path("report.md").read_text("utf-8")
    assert "Without a model" not in report
    assert "wrong: expected" not in report


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("exact_match", "no field 'target'"),
        ("python:manners:equal", "no field 'target'"),
        ("python:manners:same", "metric python:manners:same reads the target, and rows[0] has none"),
    ],
)
def test_a_metric_that_needs_the_target_is_one_error_before_any_call(
    metric: str, said: str, endpoint: FakeEndpoint
) -> None:
    config = RunConfig(prompt=PROMPT, model="m", base_url=endpoint.base_url, metric=metric)
    with pytest.raises((ConfigError, DatasetError)) as error:
        autoprompt.optimize(config, rows=[{"input": text} for text in TEXTS])
    assert said in str(error.value)
    assert len(error.value.problems) == 1
    assert not endpoint.requests


def test_a_parameter_for_the_target_that_has_a_default_needs_none(endpoint: FakeEndpoint) -> None:
    config = RunConfig(
        prompt="Be polite.", model="m", base_url=endpoint.base_url, metric="python:manners:optional"
    )
    assert autoprompt.evaluate(config, rows=[{"input": text} for text in TEXTS[:20]]).score == 1.0


def test_it_works_on_the_command_line(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    write_csv(tmp_path / "rows.csv")
    model = ("--model", "m", "--base-url", endpoint.base_url, "--optimizer-model", "w", "--preset", "quick")
    made = ("--metric", "python:manners:polite", "--runs-dir", "runs", "--no-memory", "--no-cache")
    result = call("run", "--dataset", "rows.csv", "--prompt", PROMPT, *model, *made, code=0)
    assert "no row has a target (field 'target')" in result.stderr
    call("runs", "show", "last", "--runs-dir", "runs", code=0)
    exported = call("runs", "export", "last", "--runs-dir", "runs", "--to", "best.yaml", code=0)
    assert exported.exit_code == 0
    checked = ("--from", "best.yaml", "--dataset", "rows.csv", "--baseline", "b.json", *model[:4], *made[:2])
    call("check", *checked, "--update-baseline", code=0)
    call("check", *checked, code=0)
