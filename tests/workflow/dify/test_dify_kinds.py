"""One export for each kind that people have: it loads, runs (with mocks if need be), and is written back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from flow_runs import run_flow

from autoprompt.workflow import Workflow
from autoprompt.workflow.file.rewrite import rewritten
from autoprompt.workflow.file.validation import validate

HERE = Path(__file__).parent
FILES = [*sorted(HERE.glob("*.yml")), *sorted(HERE.glob("apps/*.yml"))]
WORDS, SIGNED = "1726000000002", "1770000000003"
PHOTOS = [
    {"type": "document", "transfer_method": "remote_url", "filename": "a.pdf"},
    {"type": "image", "transfer_method": "remote_url", "filename": "b.png"},
    {"type": "image", "transfer_method": "remote_url", "filename": "c.png"},
]
CONTRACT = {
    "question": "Who signs?",
    "1755500000002.text": "Ann signs.",
    "1755500000003.result": [{"content": "First."}, {"content": "Second."}],
}
FOUND = "Contract: Ann signs.\nClauses: [1] First.\n[2] Second.\n\nQuestion: Who signs?"
# Kind -> file, inputs, outputs where the model echoes its last message.
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "code in JavaScript, first assigner, llm with memory": (
        "recap.yml",
        {"query": "We met.", f"{WORDS}.words": '["We", "met."]', f"{WORDS}.short": "true"},
        {"answer": "<We met.> (short: True)"},
    ),
    "human-input": (
        "approval.yml",
        {"message": "Hi", f"{SIGNED}.action": "approve", f"{SIGNED}.note": "fine"},
        {"reply": "<Hi>", "note": "fine"},
    ),
    "document-extractor": ("contracts.yml", CONTRACT, {"verdict": f"<{FOUND}>"}),
    "knowledge-retrieval": (
        "handbook.yml",
        {"query": "May I park?", "1748055500002.result": "Yes."},
        {"answer": "<May I park?>"},
    ),
    "list-operator, files, vision": ("photos.yml", {"files": PHOTOS}, {"line": "<Photo: b.png>"}),
    "variable-aggregator": (
        "price_band.yml",
        {"price": 50, "country": "DE"},
        {"band": "middle", "high": None, "low": None},
    ),
}
# Node types of Dify's editor that people use -> run by the tests beside this one, or above.
TYPES = {
    *("start", "llm", "answer", "end", "code", "tool", "if-else", "template-transform", "http-request"),
    *("iteration", "loop", "variable-aggregator", "assigner", "agent", "parameter-extractor"),
    *("question-classifier", "list-operator", "document-extractor", "knowledge-retrieval", "human-input"),
}


def graph(path: Path) -> list[dict[str, Any]]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    nodes: list[dict[str, Any]] = content.get("workflow", {}).get("graph", {}).get("nodes", [])
    return nodes


def test_there_is_a_file_of_each_kind() -> None:
    data = [node["data"] for path in FILES for node in graph(path)]
    assert {one.get("type") for one in data} >= TYPES
    assert any(one.get("code_language") == "javascript" for one in data)
    assert any(one.get("type") == "assigner" and "assigned_variable_selector" in one for one in data)
    modes = {yaml.safe_load(path.read_text(encoding="utf-8"))["app"]["mode"] for path in FILES}
    assert modes == {"workflow", "advanced-chat", "chat", "completion", "agent-chat"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_runs(kind: str) -> None:
    name, inputs, outputs = KINDS[kind]
    assert run_flow(HERE / name, inputs).outputs == outputs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_written_back_with_new_prompts_and_nothing_else_new(path: Path) -> None:
    assert [fault for fault in validate(path) if fault.severity == "error"] == []
    source = path.read_text(encoding="utf-8")
    before = Workflow.load(path).components
    assert rewritten(source, before, before) == source
    after = {name: f"{text}\nNew: {name}." for name, text in before.items()}
    written = rewritten(source, before, after)
    changed = Workflow.load(yaml.safe_load(written))
    assert {n: text.strip() for n, text in changed.components.items()} == {
        name: text.strip() for name, text in after.items()
    }
    back = rewritten(written, changed.components, before)
    assert yaml.safe_load(back) == yaml.safe_load(source)
