"""How long the rows of each candidate take."""

from __future__ import annotations

import pytest
from fakes import TwoPrompts, row

from autoprompt.optimizer.agents import timed
from autoprompt.optimizer.agents.timed import Timed
from autoprompt.records import Candidate, Example, Prediction

FAST, SLOW, UNKNOWN = (Candidate({"prompt": name}) for name in ("fast", "slow", "unknown"))


def test_the_pace_is_that_of_an_average_row(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(timed.time, "monotonic", lambda: now[0])

    class Slowly(TwoPrompts):
        def run(self, example: Example, candidate: Candidate) -> Prediction:
            now[0] += 6.0 if candidate is SLOW else 2.0
            return super().run(example, candidate)

    program = Timed(Slowly())
    assert program.components == TwoPrompts.components
    assert program.pace(SLOW.id) == 1.0
    for candidate in (FAST, FAST, FAST, SLOW):
        program.run(row(1), candidate)
    assert (program.pace(FAST.id), program.pace(SLOW.id)) == pytest.approx((2 / 3, 2.0))
    assert program.pace(UNKNOWN.id) == 1.0


def test_rows_that_were_recalled_say_nothing_of_the_time() -> None:
    program = Timed(TwoPrompts())
    assert program.seconds_per_row == 0.0
    program.add_block(40, 0.01)
    assert program.seconds_per_row == 0.0
    program.add_block(10, 4.0)
    program.add_block(10, 2.0)
    assert program.seconds_per_row == pytest.approx(0.3)
