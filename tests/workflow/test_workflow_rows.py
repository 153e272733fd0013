"""Which variables of a workflow the fields and the input of rows fill, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt.errors import DatasetError
from autoprompt.evaluation.task import check_rows, open_task
from autoprompt.settings.records import RunConfig
from autoprompt.workflow.rows import row_inputs


def flow(*variables: str, text: str = "", is_chat: bool = False) -> str:
    start = [{"variable": name, "type": "text-input", "required": True} for name in variables]
    prompt = text or " ".join(f"{{{{#s.{name}#}}}}" for name in variables)
    end = {"type": "answer", "answer": "{{#ask.text#}}"}
    if not is_chat:
        end = {"type": "end", "outputs": [{"variable": "o", "value_selector": ["ask", "text"]}]}  # type: ignore[dict-item]
    nodes = [
        {"id": "s", "data": {"type": "start", "variables": start}},
        {
            "id": "ask",
            "data": {"type": "llm", "prompt_template": [{"role": "user", "text": f"Say {prompt}"}]},
        },
        {"id": "e", "data": end},
    ]
    edges = [{"source": "s", "target": "ask"}, {"source": "ask", "target": "e"}]
    app = {"mode": "advanced-chat" if is_chat else "workflow", "name": "f"}
    return json.dumps({"kind": "app", "app": app, "workflow": {"graph": {"nodes": nodes, "edges": edges}}})


def filled(folder: Path, file: str, row: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The inputs that the only row of a dataset becomes."""
    path, rows = folder / "flow.yaml", folder / "rows.jsonl"
    path.write_text(file, encoding="utf-8")
    rows.write_text(json.dumps({**row, "target": "x"}) + "\n", encoding="utf-8")
    config = RunConfig(workflow=path, model="m", base_url="http://127.0.0.1:1/v1", labels=(), **settings)
    checked = check_rows(config, rows, open_task(config))
    return row_inputs(checked.examples[0], checked.task.one_input, config.input_field, "target")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("file", "row", "said"),
    [
        (flow("house", "query"), {"query": "Why?"}, "no value for the input house"),
        (flow("house", "query"), {"house": "A"}, "no value for the input query"),
        (flow("house", "query"), {"input": "Why?"}, "no value for the input house"),
        (flow("house", "place", "word"), {"house": "A", "place": "B"}, "no value for the input word"),
        (flow("house", "place", "word"), {"house": "A", "place": "B", "input": "Why?"}, "the input word"),
        (flow("house", text="{{#s.house#}} {{#sys.query#}}"), {"input": "Why?"}, "the input house"),
        (flow("house", text="{{#s.house#}} {{#sys.query#}}"), {"house": "A"}, "reads sys.query"),
        (flow("house", is_chat=True), {"house": "A"}, "needs a query"),
        (flow("house", is_chat=True), {"query": "Why?"}, "no value for the input house"),
    ],
)
def test_a_variable_that_no_field_fills_is_a_fault_of_the_row(
    tmp_path: Path, file: str, row: dict[str, Any], said: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        filled(tmp_path, file, row)
    (problem,) = caught.value.problems
    assert said in problem.said
    assert (problem.place.file, problem.place.line) == (tmp_path / "rows.jsonl", 1)


@pytest.mark.parametrize(
    ("file", "row", "settings", "inputs"),
    [
        (flow("text"), {"input": "Why?"}, {}, {"text": "Why?"}),
        (flow("query"), {"input": "Why?"}, {}, {"query": "Why?"}),
        (flow("house", "text"), {"house": "A", "input": "Why?"}, {}, {"house": "A", "text": "Why?"}),
        (flow("house", "text"), {"house": "A", "q": "Why?"}, {"input_field": "q"}, {"text": "Why?"}),
        (flow("house", "text"), {"house": "A", "text": "Why?"}, {}, {"house": "A", "text": "Why?"}),
        (
            flow("text", text="{{#s.text#}} {{#sys.query#}}"),
            {"query": "Why?", "input": "B"},
            {"input_field": "input"},
            {"query": "Why?"},
        ),
        (flow("house", text="{{#sys.query#}}"), {"house": "A", "input": "Why?"}, {}, {"query": "Why?"}),
        (flow("house", is_chat=True), {"house": "A", "query": "Why?"}, {}, {"query": "Why?"}),
    ],
)
def test_fields_fill_variables_by_name_and_the_input_the_one_that_is_left(
    tmp_path: Path, file: str, row: dict[str, Any], settings: dict[str, Any], inputs: dict[str, str]
) -> None:
    found = filled(tmp_path, file, row, **settings)
    assert {name: found[name] for name in inputs} == inputs
