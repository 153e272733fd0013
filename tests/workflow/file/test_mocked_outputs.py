"""Outputs of a mock that the node has in no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoprompt.workflow.file.validation import Fault, validate

NODES = """\
nodes:
  - {id: a, type: llm, data: {prompt_template: Hello}}
  - {id: c, type: question-classifier, data: {query_variable_selector: [a, text], classes: [x, y]}}
  - {id: t, type: tool, data: {tool_name: search}}
  - {id: e, type: end, data: {outputs: [{variable: r, value_selector: [a, text]}]}}
"""


def faults_of(mocks: str, tmp_path: Path) -> list[Fault]:
    path = tmp_path / "flow.yaml"
    path.write_text(f"mocks:\n{mocks}{NODES}", encoding="utf-8")
    return [fault for fault in validate(path, needs_model=False) if "mock's" in fault.message]


def test_a_misspelt_one_is_warned_of_on_its_line(tmp_path: Path) -> None:
    (fault,) = faults_of("  a:\n    outputs:\n      txt: billing\n", tmp_path)
    assert (fault.line, fault.node_id, fault.severity) == (4, "a", "warning")
    assert fault.message.startswith("the mock's output 'txt' is none of this node. Did you mean 'text'? ")


def test_one_of_a_run_is_warned_of_too(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(NODES, encoding="utf-8")
    mocks = {"a": {"outputs": {"txt": "billing"}}, "c": {"outputs": {"class_name": "x"}}, "t": {}}
    (fault,) = validate(path, mocks=mocks)
    assert (fault.node_id, fault.severity) == ("a", "warning")


@pytest.mark.parametrize(
    "mocks",
    [
        "  a: {outputs: {text: hi, structured_output: {n: 1}}}\n",
        "  c: {outputs: {text: x}}\n",
        "  t: {outputs: {whatever: 1}}\n",
        "  e: {outputs: {r: 1}}\n",
        "  a: {errors: [away]}\n",
    ],
)
def test_what_the_node_may_put_out_is_not(mocks: str, tmp_path: Path) -> None:
    assert faults_of(mocks, tmp_path) == []
