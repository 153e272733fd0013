"""Every workflow that the page on YAML shows is a sound one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flow_runs import outputs_of
from yaml import safe_load

from autoprompt.workflow.file.validation import validate

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "workflow-files.md"
SHOWN = [
    safe_load(text) for text in re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("number", range(len(SHOWN)))
def test_a_shown_workflow_has_no_faults(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_KEY", "k")
    assert [fault.message for fault in validate(SHOWN[number])] == []


def test_the_mocked_one_runs() -> None:
    content = next(shown for shown in SHOWN if "mocks" in shown)
    assert outputs_of(content, answers=[])["text"] == "hello"


def test_the_repeating_one_runs() -> None:
    content = next(shown for shown in SHOWN if shown["nodes"][-1]["id"] == "count")
    assert outputs_of(content, {"items": ["a", "b"]}) == {"n": 3, "loop_round": 3}


def test_the_extracting_one_runs() -> None:
    content = next(shown for shown in SHOWN if "search" in shown.get("tools", {}))
    mocks = {"look": {"outputs": {"text": "three shops"}}}
    answers = ["I sell hats.", "hats", "", "Three."]
    assert outputs_of({**content, "mocks": mocks}, {"query": "?"}, answers=answers)["context"][0] == {
        "role": "user",
        "text": "Answer in a plain tone from three shops, found for hats.",
        "files": [],
    }
