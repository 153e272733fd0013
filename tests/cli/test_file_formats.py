"""What commands write for other programs fits the published JSON schemas, field by field."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from called import call
from endpoint import KEY, Endpoint, write_messages
from schemas import REFERENCE, fits, schema
from typer.testing import CliRunner

from autoprompt.batch.table import BatchResult, Row, group_rows
from autoprompt.cli import app

sys.path.insert(0, str(REFERENCE.parent))
from formats import FORMATS

PROGRAM = """
import os
from openai import OpenAI

def desk(text):
    client = OpenAI(base_url=os.environ["DESK_URL"], api_key="sk-of-the-tests-0123456789")
    turns = [{"role": "system", "content": "Sort support messages."}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=turns).choices[0].message.content
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> None:
    monkeypatch.chdir(tmp_path)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def run_folder() -> Path:
    (found,) = (path.parent for path in Path("runs").glob("*/result.json"))
    return found


def test_a_run_and_what_is_made_of_it(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_messages(tmp_path, endpoint.base_url, range(60))
    fits("result", json.loads(call("run", "--config", "c.yaml", "--json").stdout))
    folder = run_folder()
    fits("result", json.loads((folder / "result.json").read_text("utf-8")))
    for line in lines(folder / "candidates.jsonl"):
        fits("candidate", line)
    for path in (folder / "predictions").glob("*.jsonl"):
        for line in lines(path):
            fits("row", line)
    fits("runs", json.loads(call("runs", "list", "--json").stdout))
    fits("run", json.loads(call("runs", "show", "last", "--json").stdout))
    fits("runs-diff", json.loads(call("runs", "diff", "last", "last", "--json").stdout))
    call("runs", "export", "last", "--to", "prompt.yaml")
    fits("prompt", yaml.safe_load(Path("prompt.yaml").read_text("utf-8")))

    write_messages(tmp_path, endpoint.base_url, range(60, 90))
    flags = ("eval", "--config", "c.yaml", "--from", "prompt.yaml", "--against", "Sort them.", "-o")
    fits("evaluation", json.loads(call(*flags, "e.json", "--json").stdout))
    fits("evaluation", json.loads(Path("e.json").read_text("utf-8")))
    call(*flags, "e.jsonl")
    for line in lines(Path("e.jsonl")):
        fits("evaluation-row", line)

    flags = ("check", "--config", "c.yaml", "--set", "baseline=b.json", "--json")
    fits("check", json.loads(call(*flags, "--from", "prompt.yaml", "--update-baseline").stdout))
    fits("baseline", json.loads(Path("b.json").read_text("utf-8")))
    worse = call(*flags, "--prompt", "Sort them.", code=1).stdout
    fits("check", json.loads(worse))


def test_the_report_and_the_export_of_a_program(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DESK_URL", endpoint.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delitem(sys.modules, "format_desk", raising=False)
    Path("format_desk.py").write_text(PROGRAM, encoding="utf-8")
    write_messages(tmp_path, endpoint.base_url, range(60))
    rows = ("--dataset", "t.jsonl", "--program", "format_desk:desk")
    fits(
        "program-report", json.loads(call("program", "show", *rows[:2], "format_desk:desk", "--json").stdout)
    )
    call("run", *rows, "--model", "m", "--base-url", endpoint.base_url, "--preset", "quick")
    call("runs", "export", "last", "--to", "program.yaml")
    fits("program", yaml.safe_load(Path("program.yaml").read_text("utf-8")))
    scored = call("eval", *rows, "--from", "program.yaml", "--model", "m", "--base-url", endpoint.base_url)
    assert "warning: the run that made program.yaml has already seen" in scored.stderr
    for path in (run_folder() / "predictions").glob("*.jsonl"):
        for line in lines(path):
            fits("row", line)


def test_estimates_and_errors(tmp_path: Path, endpoint: Endpoint) -> None:
    write_messages(tmp_path, endpoint.base_url, range(60))
    for name, command in (("run-estimate", "run"), ("evaluation-estimate", "eval")):
        fits(name, json.loads(call(command, "--config", "c.yaml", "--dry-run", "--json").stdout))
    for flags in (("--dataset", "absent.jsonl"), ("--no-such-flag",)):
        failed = CliRunner().invoke(app, ["run", *flags, "--json"])
        fits("error", json.loads(failed.stdout))


def test_a_batch(tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_messages(tmp_path, endpoint.base_url, range(60))
    defaults = yaml.safe_load(Path("c.yaml").read_text("utf-8"))
    batch = {"name": "b", "defaults": defaults, "matrix": {"seed": [0]}}
    Path("batch.yaml").write_text(yaml.safe_dump(batch), encoding="utf-8")
    fits("batch-table", json.loads(call("batch", "batch.yaml", "--json").stdout))
    fits("batch-table", json.loads(call("runs", "show", "b", "--json").stdout))
    rows = [Row("a", {"seed": 1}, "finished", original=0.5, best=0.75, gain=0.25, gain_ci95=(0.1, 0.4))]
    table = BatchResult("b", "runs/b", tuple(rows), groups=tuple(group_rows(rows)))
    fits("batch-table", json.loads(json.dumps(table.to_dict())))


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_is_described(name: str) -> None:
    found = schema(name)
    parts = [found, *found.get("$defs", {}).values()]
    fields = [
        (part.get("title", ""), *field) for part in parts for field in part.get("properties", {}).items()
    ]
    assert [f"{title}.{field}" for title, field, held in fields if not held.get("description")] == []


def test_the_page_links_every_schema() -> None:
    page = (REFERENCE / "file-formats.md").read_text("utf-8")
    assert [name for name in FORMATS if f"({name}.schema.json)" not in page] == []
