"""Rows that do not do as input of a workflow: the first is named with its file, the others are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoprompt import Models, RunConfig, evaluate
from autoprompt.errors import DatasetError
from autoprompt.llm import ScriptedClient

FLOW = """\
name: sorter
nodes:
  - id: start
    type: start
    data: {variables: [{variable: item, type: number}, {variable: place, type: text-input}]}
  - {id: look, type: llm, data: {prompt_template: "Sort {{#start.item#}} of {{#start.place#}}"}}
  - {id: end, type: end, data: {outputs: {kind: [look, text]}}}
"""


@pytest.mark.parametrize("unfit", [(9,), (5, 9), (5, 7, 9)])
def test_each_is_named_with_its_file_and_its_own_fault(tmp_path: Path, unfit: tuple[int, ...]) -> None:
    flow, data = tmp_path / "flow.yaml", tmp_path / "rows.jsonl"
    flow.write_text(FLOW, encoding="utf-8")
    rows = [
        {"item": f"many {n}" if n in unfit else str(n), "place": f"shelf {n}", "target": "AB"[n % 2]}
        for n in range(1, 41)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = RunConfig(workflow=flow, dataset=data, input_field="item", no_cache=True, no_memory=True)
    with pytest.raises(DatasetError) as caught:
        evaluate(config, models=Models(ScriptedClient(["A"])))
    assert [problem.place.line for problem in caught.value.problems] == list(unfit)
    for line, message in zip(unfit, str(caught.value).splitlines(), strict=True):
        assert message.startswith(f"{data} line {line}: ")
        assert message.endswith(f"'many {line}', expected a number. The row has the fields item, place.")


def test_a_missing_input_is_told_without_words_of_python(tmp_path: Path) -> None:
    flow, data = tmp_path / "flow.yaml", tmp_path / "rows.jsonl"
    known = "{variable: item, type: number}, {variable: place, type: text-input}"
    needed = "{variable: item}, {variable: place, required: true}, {variable: size, required: true}"
    flow.write_text(FLOW.replace(known, needed), encoding="utf-8")
    rows = [
        {"item": f"a{n}", "place": "b", "size": "" if n == 3 else "1", "target": "AB"[n % 2]}
        for n in range(20)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = RunConfig(workflow=flow, dataset=data, input_field="item", no_cache=True, no_memory=True)
    with pytest.raises(DatasetError) as caught:
        evaluate(config, models=Models(ScriptedClient(["A"])))
    (problem,) = caught.value.problems
    assert problem.said.startswith(
        f"the row does not fit as input of {flow}: no value for the input size (given: "
    )
    assert "inputs=" not in str(caught.value)
