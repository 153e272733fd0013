"""Rows bring their JSON types into a workflow's start variables, and its output is compared as an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt import Models, RunConfig, evaluate
from autoprompt.llm import ScriptedClient
from autoprompt.metrics import get_metric
from autoprompt.records import Candidate, Example
from autoprompt.workflow.task import open_workflow

FLOW = """\
name: counter
nodes:
  - id: start
    type: start
    data:
      variables:
        - {variable: docs, type: "array[object]"}
        - {variable: count, type: number}
        - {variable: meta, type: json_object}
        - {variable: note, type: paragraph}
        - {variable: is_open, type: checkbox}
        - {variable: code, type: select, options: ["1", "2"]}
  - id: look
    type: code
    data:
      variables: {docs: [start, docs], note: [start, note], meta: [start, meta]}
      code: |
        def main(docs, note, meta):
            return {"found": {"docs": len(docs), "note": note, "deep": meta["a"]["b"]}}
  - {id: ask, type: llm, data: {prompt_template: "{{#start.docs#}} {{#start.is_open#}} {{#start.code#}}"}}
  - {id: end, type: end, data: {outputs: {found: [look, found], said: [ask, text]}}}
"""
ROW: dict[str, Any] = {
    "docs": [{"n": 1}, {"n": 10**30}],
    "count": 1.0,
    "meta": {"a": {"b": [None, True]}},
    "note": 7,
    "is_open": 1,
    "code": 2,
    "target": {"docs": 2, "note": "7", "deep": [None, True]},
}


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW, encoding="utf-8")
    return path


def test_start_variables_get_the_values_of_a_row(flow: Path) -> None:
    row = Example("r1", "docs: ...", ROW["target"], ROW)
    task = open_workflow(RunConfig(workflow=flow, target_output="found"), flow).fitted([row])
    client = ScriptedClient(["yes"])
    program = task.program(client, get_metric("json_match"), labels=(), rows=[row])
    found = program.run(row, Candidate(program.components))
    assert found.output == ROW["target"]
    assert json.loads(found.text) == ROW["target"]
    assert client.calls[-1][-1].content == "[{'n': 1}, {'n': 1000000000000000000000000000000}] True 2"


@pytest.mark.parametrize("is_text", [False, True])
def test_an_output_is_compared_as_an_object(flow: Path, tmp_path: Path, is_text: bool) -> None:
    """Rows of a table hold the same values as text, and mean the same."""
    rows = [{**ROW, "count": n, "target": {**ROW["target"], "docs": 2 if n % 2 else 3}} for n in range(8)]
    if is_text:
        rows = [{n: v if isinstance(v, str) else json.dumps(v) for n, v in row.items()} for row in rows]
    config = RunConfig(
        workflow=flow, target_output="found", metric="json_match", runs_dir=tmp_path, no_cache=True
    )
    report = evaluate(config, rows=rows, models=Models(ScriptedClient(["yes"] * 8)))
    scores = sorted(row.score for row in report.evaluation.rows)
    assert (report.unparsed, scores) == (0, [pytest.approx(2 / 3)] * 4 + [1.0] * 4)
    if not is_text:
        first = report.evaluation.rows[0]
        assert first.ground_truth == first.prediction.replace(" ", "").replace('"docs":2', '"docs":3')
