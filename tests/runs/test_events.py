"""Events of runs as records and as lines of `events.jsonl`."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import autoprompt
from autoprompt.batch import events as batch
from autoprompt.batch.table import Row
from autoprompt.llm.client import WeightsProgress
from autoprompt.llm.prices import Cost
from autoprompt.llm.transport.address import SendsTo, SentTo
from autoprompt.records import RunEvent
from autoprompt.runs import events as run
from autoprompt.runs.events import KINDS, read_event
from autoprompt.runs.result import CallCost, Comparison, Confirmation

SPENT = {"calls": 2, "tokens": 1234}
PACKAGE = Path(autoprompt.__file__).parent


@pytest.mark.parametrize(
    "event",
    [
        run.RunStarted("r1", sizes={"train": 3}, lessons_read=("better: Be brief.",)),
        run.RunStarted("r1", resumed=True),
        run.LimitsChanged({"max_calls": 9}),
        run.RunContinued(),
        run.CandidateProposed("c1", "rewrite", "added: Be brief.", ("original",)),
        run.CandidateRefused("cues", "too dear"),
        run.CandidateSettled("c1", accepted=True, score=0.5, rows=20, cost=Cost(0.01, "usd"), calls=40),
        run.PickChosen("c1", "", "c1", "none", CallCost("usd", 0.1, 0.2, 0.05)),
        run.Analysis(3, 16, 1, "c1", "Short inputs fail.", {"first": 0.5}, 40, "01-train.jsonl"),
        run.TestOpened(2, 5),
        run.RowsEvaluated("race", 3, 20, SPENT),
        SendsTo((SentTo("http://here/v1", None, ("m", "n")),), "rows of t.csv"),
        WeightsProgress("qwen", 10, 100),
        Confirmation(True, 0.01, 9, 4.5, "both", Comparison(16, 16, 0.7), Comparison(9, 9), "c1", 3, 1),
        run.InvestigationStarted("r1", "runs/r1", False, "m", "Look.", "userns", "w", 3, {"max_calls": 9}),
        run.PassAnswered(1, 3, SPENT, "<Conclusion>3</Conclusion>", has_own_observation=False),
        run.Observed(1, 3, SPENT, "3", 0, 0.5, ("out.txt",)),
    ],
)
def test_a_line_of_the_log_is_read_as_the_event_that_it_was(event: RunEvent) -> None:
    line = json.dumps(event.to_dict())
    assert json.loads(line)["event"] == event.kind
    assert read_event(json.loads(line)) == event


@pytest.mark.parametrize(
    "event",
    [
        batch.BatchStarted("b", "runs/b", 3, 1, 2, "local", {"max_calls": 9}, ("t is there twice",)),
        batch.TrialStarted("t", 1),
        batch.TrialEvent("t", {"event": "node_started", "node": "predict"}),
        batch.TrialLost("t", "its worker was lost"),
        batch.TrialEnded("t", Row("t", {"seed": 1}, "finished", best_ci95=(0.1, 0.2), cut_by=("max_calls",))),
        batch.BatchSpent(3, 40, 0.1, 1.5),
        batch.BatchFinished({"name": "b"}),
    ],
)
def test_an_event_of_a_batch_is_plain_data_and_read_as_what_it_was(event: RunEvent) -> None:
    line = json.dumps(event.to_dict())
    assert batch.read_batch_event(json.loads(line)) == event
    assert event.kind not in KINDS


def test_a_resumed_run_does_not_hide_the_lessons_that_it_read_at_first() -> None:
    assert "lessons_read" not in run.RunStarted("r1", resumed=True).to_dict()
    assert run.RunStarted("r1", lessons_read=()).to_dict()["lessons_read"] == []


# The base of the records, the log's warnings, and the names that the workflow's events have.
BASES = {"records/base.py", "workflow/engine/events.py"}


def test_events_are_made_of_records() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict)
        and any(isinstance(key, ast.Constant) and key.value == "event" for key in node.keys)
    }
    assert found == BASES
