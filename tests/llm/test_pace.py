"""How many requests at once an endpoint gets, in a world with its own time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from autoprompt.llm.limits.pace import Pace, Sent

_ROWS = 2000
_AGAIN_S = 0.5  # a request that was refused keeps its place for so long


class World:
    """An endpoint that works at `room` requests at a time, and refuses those above `most`.

    takes: seconds of the row with this number. limits: after each answer. refused: requests.
    """

    def __init__(
        self, takes: Callable[[int], float] = lambda row: 1.0, *, room: int = 10_000, most: int = 10_000
    ) -> None:
        self._takes, self._most = takes, most
        self._free_at = [0.0] * room
        self.limits: list[int] = []
        self.refused = 0

    def ask(self, pace: Pace, rows: int = _ROWS) -> float:
        """Ask for all rows, as many at once as there may be. Return how long that took."""
        now, in_use, left = 0.0, 0, rows
        ends: list[tuple[float, int, Sent, bool]] = []
        while len(self.limits) < rows:
            while left and in_use < pace.limit:
                left, in_use = left - 1, in_use + 1
                sent, is_refused = Sent(now, pace.round, in_use), in_use > self._most
                end_s = now + _AGAIN_S if is_refused else self._served(now, rows - left)
                heapq.heappush(ends, (end_s, len(self.limits) * 1000 + in_use, sent, is_refused))
            now, _, sent, is_refused = heapq.heappop(ends)
            if is_refused:
                pace.too_many(sent)
                self.refused, left = self.refused + 1, left + 1
            else:
                pace.time_row(sent, now - sent.at_s)
                pace.answered(in_use)
                self.limits.append(pace.limit)
            in_use -= 1
        return now

    def _served(self, now: float, row: int) -> float:
        begin_s = max(now, heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, begin_s + self._takes(row))
        return begin_s + self._takes(row)


def auto() -> Pace:
    return Pace(64, is_auto=True)


def test_it_grows_by_half_with_each_round_up_to_its_bound() -> None:
    world = World()
    assert world.ask(auto()) < _ROWS / 64 + 5
    assert [world.limits[n] for n in (7, 19, 37, 64, 200)] == [12, 18, 27, 40, 64]


def test_a_fixed_number_stays() -> None:
    world = World(room=4)
    world.ask(Pace(16))
    assert set(world.limits) == {16}


def test_places_that_nobody_uses_are_no_reason_for_more() -> None:
    pace = auto()
    for _ in range(100):
        pace.answered(5)
    assert pace.limit == 10


def test_an_endpoint_that_refuses_gets_a_few_less_than_it_takes() -> None:
    world, pace = World(most=20), auto()
    assert world.ask(pace) < 1.1 * _ROWS / 20 * 20 / 15
    assert set(world.limits[200:]) <= set(range(10, 22))
    assert world.refused < 0.07 * _ROWS


def test_rows_that_wait_at_the_endpoint_halve_the_limit() -> None:
    world = World(room=12)
    assert world.ask(auto()) < 1.02 * _ROWS / 12
    assert set(world.limits[1000:]) <= set(range(12, 41))


def test_prompts_that_take_longer_are_no_queue() -> None:
    """As with one that makes the model think, beside the original."""
    world = World(lambda row: 5.0 if row // 60 % 2 else 1.0)
    assert world.ask(auto()) < 0.4 * World(lambda row: 5.0 if row // 60 % 2 else 1.0).ask(Pace(16))
    world = World(lambda row: 1.0 if row < 500 else 5.0)
    world.ask(auto())
    assert min(world.limits[800:]) > 30


def test_answers_of_any_length_are_no_queue() -> None:
    draw = random.Random(0)
    seconds = [draw.lognormvariate(0, 0.6) for _ in range(_ROWS + 1)]
    world = World(seconds.__getitem__)
    world.ask(auto())
    assert min(world.limits[200:]) == 64
