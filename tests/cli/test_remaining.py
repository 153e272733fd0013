"""How long a run will still take, from what its phases have taken."""

from __future__ import annotations

from typing import Any

import pytest

from autoprompt.cli.live import RunView

LOOK = "train rows of the best"
RACE = "race: 4 candidates"
PLAN = {
    "blocks": [16, 32],
    "fresh": 20,
    "candidates": 4,
    "writers": 2,
    "analyst_calls": 1,
    "patience": 2,
    "train_batch": 16,
    "calls_per_row": 1,
}
FRESH, OF_TRAIN, TEST = 2 * 20, 2 * 32, 2 * 50
# Four beside the best over 16 rows, then two; the best has been asked. 0.85 of them, as losers leave early.
STAGES = round(0.85 * 5 * 16) - 16, round(0.85 * 3 * 16) - 16
FIRST_STAGES = round(0.85 * 5 * 16), round(0.85 * 3 * 16)


class Watched:
    """A run of which every row and every node takes what the test says."""

    def __init__(
        self, *, iterations: int = 1, concurrency: int = 1, plan: dict[str, Any] | None = PLAN, **budget: Any
    ) -> None:
        self.now = 0.0
        self.calls = 0
        self.progress = RunView(lambda: self.now)
        event = {
            "event": "run_started",
            "run_id": "r",
            "run_dir": "runs/r",
            "model": "m",
            "optimizer_model": "m",
            "concurrency": concurrency,
            "sizes": {"train": 80, "val": 52, "test": 50},
            "max_iterations": iterations,
            "budget": {"max_calls": None, **budget},
        }
        self.progress.add(event if plan is None else {**event, "plan": plan})

    @property
    def left(self) -> float | None:
        return self.progress.seconds_left

    def node(self, name: str, iteration: int = 1, seconds: float = 0.0) -> None:
        self.progress.add({"event": "node_started", "node": name, "iteration": iteration})
        self.now += seconds

    def rows(self, what: str, count: int, *, of: int = 0, seconds: float = 1.0, together: int = 1) -> None:
        for done in range(1, count + 1):
            self.now += seconds if done % together == 1 or together == 1 else 0.0
            self.calls += 1
            spent = {"calls": self.calls}
            event = {"event": "rows_evaluated", "what": what, "done": done, "total": of or count}
            self.progress.add({**event, "spent": spent})

    def first_round(self, *, analyze: float = 0.0, rewrite: float = 1.0) -> None:
        """Up to the end of its race: the seconds that writing takes."""
        self.node("predict")
        self.rows(LOOK, 16)
        self.node("analyze", seconds=analyze)
        self.node("rewrite", seconds=rewrite)
        self.propose(4)
        self.node("memory")
        self.node("predict", 2)
        self.rows(RACE, 80)
        self.rows("race: 2 candidates", 48)

    def propose(self, number: int) -> None:
        for _ in range(number):
            self.progress.add({"event": "candidate_proposed", "id": "c", "operator": "demos", "change": "x"})

    def gain(self, score: float) -> None:
        event = {"event": "best_changed", "id": "c", "rows": 32, "original_score": 0.5}
        self.progress.add({**event, "score": score})


def test_nothing_is_promised_before_a_row() -> None:
    run = Watched()
    assert run.left is None
    run.node("predict")
    assert run.left is None
    assert run.progress.remaining.rows_per_second is None


def test_a_run_that_tells_no_plan_promises_nothing() -> None:
    run = Watched(plan=None)
    run.node("predict")
    run.rows(LOOK, 8, of=16)
    assert run.left is None
    assert run.progress.remaining.step_seconds == pytest.approx(8)


def test_every_phase_of_a_run_of_one_round_counts() -> None:
    run = Watched()
    run.node("predict")
    run.rows(LOOK, 16)
    # Three calls of writing, not measured yet; the race; the ending, in which a test of one prompt may do.
    ending = FRESH + OF_TRAIN + 1.5 * 50
    assert run.left == pytest.approx(3 * 3 + sum(FIRST_STAGES) + ending)
    run.node("analyze", seconds=5)
    run.node("rewrite", seconds=20)
    run.propose(4)
    run.node("memory")
    assert run.left == pytest.approx(sum(FIRST_STAGES) + ending)
    run.node("final_predict")
    run.rows(RACE, 80)
    run.rows("race: 2 candidates", 48)
    run.gain(0.8)
    assert run.left == pytest.approx(ending)
    run.rows("fresh rows: winner and original", FRESH)
    run.rows("unseen rows of train: winner and original", OF_TRAIN)
    confirmed = {"event": "confirmation", "candidate": "c", "confirmed": True, "p_value": 0.01, "tried": 4}
    confirmed |= {"basis": "both", "chances": 2.0}
    compared = {"rows": 32, "groups": 32, "score": 0.8, "other_score": 0.5}
    run.progress.add({**confirmed, "raced": compared, "fresh": compared})
    assert run.left == pytest.approx(TEST)
    run.rows("sealed test: 2 prompts", 60, of=100)
    assert run.left == pytest.approx(40)


def test_what_passes_is_not_promised_again() -> None:
    run = Watched()
    run.node("predict")
    run.rows(LOOK, 8, of=16)
    before = run.left
    run.now += 3
    assert before is not None
    assert run.left == pytest.approx(before - 3)


def test_writing_takes_as_long_as_it_has() -> None:
    run = Watched(iterations=2)
    run.first_round(analyze=10, rewrite=50)
    run.gain(0.7)
    run.rows(LOOK, 16)
    run.node("analyze", 2)
    assert run.left == pytest.approx(60 + sum(STAGES) + FRESH + OF_TRAIN + 75)
    run.now += 20
    assert run.left == pytest.approx(40 + sum(STAGES) + FRESH + OF_TRAIN + 75)


@pytest.mark.parametrize(("score", "rounds"), [(0.9, 1), (1.0, 0)])
def test_nothing_follows_a_best_without_an_error(score: float, rounds: int) -> None:
    run = Watched(iterations=2)
    run.first_round()
    run.gain(score)
    a_round = 16 + 1 + sum(STAGES)
    assert run.left == pytest.approx(FRESH + OF_TRAIN + 75 + rounds * a_round)


def test_rounds_that_the_calls_do_not_pay_for_are_not_promised() -> None:
    def left(max_calls: int | None) -> float:
        run = Watched(iterations=6, max_calls=max_calls)
        run.node("predict")
        run.rows(LOOK, 16)
        assert run.left is not None
        return run.left

    one_round = 9 + sum(FIRST_STAGES) + FRESH + 75
    # What is kept for fresh rows and test, the look that is done, writing and the race.
    enough = 2 * (20 + 50) + 16 + 3 + sum(FIRST_STAGES)
    assert left(enough) == pytest.approx(one_round, abs=3)
    assert left(enough + 250) > one_round + 100
    assert left(None) > left(enough + 250)


def test_patience_ends_a_search_before_its_last_round() -> None:
    """After a race without a gain the next one may be the last: fewer rounds are to be expected."""
    expected = []
    for has_gain in (True, False):
        run = Watched(iterations=6)
        run.first_round()
        if has_gain:
            run.gain(0.7)
        run.rows(LOOK, 16)
        run.node("analyze", 2)
        run.node("rewrite", 2, seconds=1)
        run.propose(4)
        run.node("memory", 2)
        assert run.left is not None
        expected.append(run.left)
    assert expected[0] > expected[1] + 50


def test_rows_at_once_take_a_wave_each() -> None:
    run = Watched(concurrency=16)
    run.node("predict")
    run.rows(LOOK, 16, seconds=3.2, together=16)
    run.node("analyze", seconds=2)
    run.node("rewrite", seconds=2)
    run.propose(4)
    run.node("memory")
    # 68 and 41 rows, 40, 64 and 75: in waves of 16.
    assert run.left == pytest.approx((5 + 3 + 3 + 4 + 5) * 3.2)
    assert run.progress.remaining.rows_per_second == pytest.approx(5.0)


def test_a_cap_on_time_bounds_it() -> None:
    run = Watched(max_seconds=100)
    run.node("predict")
    run.rows(LOOK, 16)
    assert run.left == pytest.approx(84)


def test_the_rate_is_that_of_the_rows_at_hand() -> None:
    run = Watched(iterations=2)
    run.node("predict")
    run.rows(LOOK, 10, of=16, seconds=0.5)
    assert run.progress.remaining.rows_per_second == pytest.approx(2.0)
    run.now += 100
    run.node("predict", 2)
    run.rows(RACE, 1, of=20, seconds=0.25)
    assert run.progress.remaining.rows_per_second == pytest.approx(2.0)  # of before: one row has no rate
    run.rows(RACE, 3, of=20, seconds=0.25)
    assert run.progress.remaining.rows_per_second == pytest.approx(4.0)
    assert run.progress.remaining.step_seconds == pytest.approx(17 / 4)


def test_a_run_without_a_winner_asks_the_test_of_the_original_alone() -> None:
    run = Watched()
    run.node("predict")
    run.rows(LOOK, 16)
    run.node("final_predict")
    assert run.left == pytest.approx(50)
