"""The predictor asks in the order that a prefix cache likes, and answers in the caller's."""

from __future__ import annotations

from fakes import PROMPT, bench

from autoprompt.records import Candidate, Demo


def test_evaluations_are_in_the_order_of_the_jobs_whatever_was_asked_first() -> None:
    made = bench()
    demos = [Demo(f"shown {n}", "A") for n in range(4)]
    candidates = [Candidate({"prompt": PROMPT}, tuple(demos[:size])) for size in (1, 0, 4, 2)]
    rows = made.context.splits.train[:2]
    found = made.context.prediction.predict_jobs([(candidate, rows) for candidate in candidates])
    assert [evaluation.candidate_id for evaluation in found] == [c.id for c in candidates]
    assert [len(messages) for messages in made.task.calls] == [10, 10, 6, 6, 4, 4, 2, 2]
