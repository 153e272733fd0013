"""What the files of a search say of its candidates."""

from __future__ import annotations

from typing import Any

from autoprompt.report.search import read_candidates


def record(name: str, operator: str, **scores: float) -> dict[str, Any]:
    return {"id": name, "operator": operator, "components": {"prompt": name}, "scores": scores}


def test_the_original_is_shown_on_the_rows_that_raced_and_not_on_those_of_the_confirmation() -> None:
    """A run of one round writes the winner down once: with the rows that confirmed it."""
    records = [
        record("original", "original", v1=1.0, v2=0.0, fresh=1.0, train=1.0),
        record("loser", "demos", v1=0.0, v2=0.0),
        record("winner", "demos", v1=1.0, v2=1.0, fresh=1.0, train=1.0),
    ]
    events = [{"event": "candidate_settled", "id": name, "rows": 2} for name in ("loser", "winner")]
    for kept in (records, records[::2]):
        original = read_candidates(kept, events)[0]
        assert (original.rows, original.score) == (2, 0.5)
    assert read_candidates(records, [])[0].rows == 4  # a run that was stopped before its race was told of
