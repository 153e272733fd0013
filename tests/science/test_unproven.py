"""What is said of a conclusion that no experiment stands behind."""

from __future__ import annotations

from typing import Any

import pytest

from autoprompt import Models, ScienceConfig
from autoprompt.cli.science import result
from autoprompt.llm import ScriptedClient
from autoprompt.optimizer import api
from autoprompt.science import Investigation

EXPERIMENT = "<Experiment>\nprint(1)\n</Experiment>"
CONCLUSION = "<Conclusion>1</Conclusion>"
NO_EXPERIMENT = "no experiment was run, so nothing supports the conclusion."
NO_TAG = "the model did not mark its conclusion; its untagged text is shown as the conclusion."


def run(answers: list[str], events: list[dict[str, Any]] | None = None) -> Investigation:
    config = ScienceConfig.model_validate({"task": "Count.", "no_cache": True, "max_iterations": 3})
    told = [] if events is None else events
    client = ScriptedClient(answers)
    return api.investigate(config, models=Models(client), on_event=lambda event: told.append(dict(event)))


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [
        (["banana banana", "banana banana"], [NO_TAG, NO_EXPERIMENT]),
        (['{"a":', '{"a":'], [NO_TAG, NO_EXPERIMENT]),
        (["<Inference>enough</Inference>", CONCLUSION], [NO_EXPERIMENT]),
        ([CONCLUSION], [NO_EXPERIMENT]),
        ([EXPERIMENT, "banana", "banana"], [NO_TAG]),
        ([EXPERIMENT, CONCLUSION], []),
    ],
)
def test_a_conclusion_without_proof_is_warned_of(answers: list[str], warnings: list[str]) -> None:
    events: list[dict[str, Any]] = []
    found = run(answers, events)
    assert found.conclusion
    assert list(map(str, found.warnings)) == warnings
    assert Investigation.from_dict(found.to_dict()).warnings == found.warnings
    assert (NO_EXPERIMENT in [event.get("message") for event in events]) == (NO_EXPERIMENT in warnings)


def test_an_early_stop_is_told_where_no_conclusion_came_too() -> None:
    found = run(["", "", "", "", "", ""])
    assert found.conclusion == ""
    first, lost = found.warnings
    assert str(first) == "no experiment was run."
    assert str(lost).startswith("task: 2 of 2 answers of scripted were cut off or empty")
    assert "stopped early: a pass contained no experiment, so autoprompt asked for the conclusion" in list(
        map(str, result(found))
    )
