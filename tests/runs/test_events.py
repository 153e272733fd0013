"""Events of an optimization as records and as lines of `events.jsonl`."""

from __future__ import annotations

import json

import pytest

from autoprompt.llm.prices import Cost
from autoprompt.runs.events import CandidateProposed, CandidateRefused, CandidateSettled, RunEvent, read_event


@pytest.mark.parametrize(
    "event",
    [
        CandidateProposed("c1", "rewrite", "added: Be brief.", ("original",)),
        CandidateRefused("cues", "too dear"),
        CandidateSettled("c1", accepted=True, score=0.5, rows=20, cost=Cost(0.01, "usd"), calls=40),
    ],
)
def test_a_line_of_the_log_is_read_as_the_event_that_it_was(event: RunEvent) -> None:
    line = json.dumps(event.to_dict())
    assert json.loads(line)["event"] == event.kind
    assert read_event(json.loads(line)) == event
