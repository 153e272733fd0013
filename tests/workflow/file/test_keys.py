"""Keys that nothing reads: told where they are likely meant for something, passed over elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoprompt.workflow.file.validation import validate

ROOT = Path(__file__).parents[3]
PLACE = "Write it as `model: {name: ..., completion_params: {temperature: ...}}`."


def told(tmp_path: Path, data: str, kind: str = "llm") -> list[tuple[int, str, str]]:
    path = tmp_path / "flow.yaml"
    path.write_text(f"nodes:\n  - id: a\n    type: {kind}\n    data:\n      {data}\n", encoding="utf-8")
    return [(fault.line, fault.severity, fault.message) for fault in validate(path)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("model: {name: sim, temperature: 0.8}", f"temperature is not read here. {PLACE}"),
        ("model: {name: sim, temprature: 0.8}", f"temprature is not read here. {PLACE}"),
        ("temperture: 0.8\n      model: sim", f"temperture is not read here. {PLACE}"),
        (
            "model: {name: sim, completion_param: {temperature: 0.8}}",
            "completion_param is not read. Did you mean completion_params?",
        ),
        (
            "model: {name: sim, completion_params: {temprature: 0.8, top_p: 1}}",
            "completion_params not sent: temprature, top_p. Known: temperature, max_tokens, stop, seed.",
        ),
        (
            "retry_confg: {max_retries: 2}\n      model: sim",
            "retry_confg is not read. Did you mean retry_config?",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_warned_of(tmp_path: Path, data: str, message: str) -> None:
    assert told(tmp_path, f"{data}\n      prompt_template: Hello") == [(5, "warning", message)]


def test_a_misspelt_key_of_a_container_is_warned_of(tmp_path: Path) -> None:
    inner = "nodes: [{id: b, type: template-transform, data: {template: x}}]"
    data = f"is_paralel: true\n      iterator_selector: [sys, files]\n      {inner}"
    found = told(tmp_path, data, "iteration")
    assert found == [(5, "warning", "is_paralel is not read. Did you mean is_parallel?")]


def test_the_model_of_an_extraction_is_looked_at_too(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "nodes": [
            {"id": "a", "type": "llm", "data": {"model": "sim", "prompt_template": "Hello"}},
            {
                "id": "b",
                "type": "answer",
                "data": {
                    "answer": "{{#k#}}",
                    "inputs": [
                        {
                            "name": "k",
                            "type": "extraction",
                            "value": {
                                "source_node_id": "a",
                                "source_variable": "context",
                                "extraction_prompt": "Which?",
                                "model": {"name": "sim", "temperature": 1},
                            },
                        }
                    ],
                },
            },
        ]
    }
    (fault,) = validate(content)
    assert (fault.node_id, fault.message) == ("b.ext_1", f"temperature is not read here. {PLACE}")


@pytest.mark.parametrize(
    "file",
    [
        *sorted((ROOT / "tests/workflow/dify").glob("*.yml")),
        *sorted((ROOT / "configs/workflows").glob("*.yaml")),
    ],
    ids=lambda path: path.name,
)
def test_keys_of_an_editor_are_passed_over(file: Path) -> None:
    said = [fault.message for fault in validate(file, needs_model=False)]
    assert [text for text in said if "is not read" in text] == []
