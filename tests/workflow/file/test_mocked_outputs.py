"""Outputs of a mock that the node has in no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoprompt.workflow.file.faults import Fault
from autoprompt.workflow.file.validation import validate

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


def test_a_misspelt_one_that_is_read_is_an_error_on_its_line(tmp_path: Path) -> None:
    (fault,) = faults_of("  a:\n    outputs:\n      txt: billing\n", tmp_path)
    assert (fault.line, fault.node_id, fault.severity) == (4, "a", "error")
    assert fault.message == (
        "the mock's output 'txt' is unknown, so a.text has no value, which node 'c' reads. Did you mean "
        "'text'? Known: context, files, finish_reason, reasoning_content, structured_output, text, usage."
    )


def test_one_of_a_run_is_too_unless_its_readers_are_mocked(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(NODES, encoding="utf-8")
    mocks: dict[str, Any] = {"a": {"outputs": {"txt": "billing"}}, "c": {"outputs": {"class_name": "x"}}}
    (fault,) = [one for one in validate(path, mocks=mocks) if one.node_id == "a"]
    assert (fault.severity, "which node 'e' reads" in fault.message) == ("error", True)
    (fault,) = [one for one in validate(path, mocks={**mocks, "e": {}}) if one.node_id == "a"]
    assert (fault.severity, fault.message[:35]) == ("warning", "the mock's output 'txt' is unknown.")


def test_one_that_nobody_needs_is_warned_of(tmp_path: Path) -> None:
    (fault,) = faults_of("  a: {outputs: {text: hi, txt: billing}}\n", tmp_path)
    assert (fault.line, fault.severity) == (2, "warning")


def test_a_class_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    (fault,) = faults_of("  c: {outputs: {class_name: z}}\n", tmp_path)
    assert (fault.line, fault.severity) == (2, "error")
    assert fault.message.startswith("the mock's output 'class_name': no class 'z'. Known: x, y")


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
