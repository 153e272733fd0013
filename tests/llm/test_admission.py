"""How many requests may be at an endpoint at once, and how many in a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import Interrupted
from autoprompt.llm import portal
from autoprompt.llm.limits.admission import Gate, Slot


class Clock:
    """Time that only waiting moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    async def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def gate(concurrency: int = 100, **limits: int) -> tuple[Gate, Clock]:
    clock = Clock()
    return Gate(concurrency, clock=lambda: clock.now, wait=clock.wait, **limits), clock


@contextmanager
def entered(limited: Gate, tokens: int) -> Iterator[Slot]:
    place = limited.slot()
    slot = portal.run(_entered(limited, place, tokens))
    try:
        yield slot
    finally:
        portal.run(_left(place))


async def _entered(limited: Gate, place: AbstractAsyncContextManager[Slot], tokens: int) -> Slot:
    slot = await place.__aenter__()
    await limited.enter(slot, lambda: tokens)
    return slot


async def _left(place: AbstractAsyncContextManager[Slot]) -> None:
    await place.__aexit__(None, None, None)


def test_no_minute_has_more_requests_than_allowed() -> None:
    limited, clock = gate(rpm=10)
    sent = []
    for _ in range(35):
        with entered(limited, 1):
            sent.append(clock.now)
        clock.now += 0.5
    assert all(later - earlier >= 60 for earlier, later in zip(sent, sent[10:], strict=False))
    assert sent[-1] - sent[0] < 200


def test_no_minute_has_more_tokens_than_allowed_and_estimates_are_corrected() -> None:
    limited, clock = gate(tpm=100)
    begun = clock.now
    with entered(limited, 90) as slot:
        limited.answered(slot, 20)
    with entered(limited, 80) as slot:
        limited.answered(slot, 80)
    assert clock.now == begun
    with entered(limited, 10):
        assert clock.now - begun >= 60


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.none() | st.integers(0, 80), st.integers(0, 25), st.integers(0, 4)),
        max_size=40,
    )
)
def test_the_tokens_of_a_minute_are_those_of_its_requests(
    requests: list[tuple[int, int | None, int, int]],
) -> None:
    """Each: its estimate, what it took (None: it failed), seconds to the next, how many are open beside."""
    limited, clock = gate(tpm=100)
    sent: list[Slot] = []
    open_ones: list[tuple[ExitStack, Slot, int | None]] = []
    for estimate, took, pause, beside in requests:
        while len(open_ones) > beside:
            stack, slot, tokens = open_ones.pop(0)
            if tokens is not None:
                limited.answered(slot, tokens)
            stack.close()
        stack = ExitStack()
        slot = stack.enter_context(entered(limited, estimate))
        now = clock.now
        before = sum(other.tokens for other in sent if other.sent.at_s > now - 60)
        assert before == 0 or before + estimate <= 100
        sent.append(slot)
        open_ones.append((stack, slot, took))
        clock.now += pause
    used = sum(other.tokens for other in sent if other.sent.at_s > clock.now - 60)
    is_open = any(other.is_open for other in sent if other.sent.at_s > clock.now - 60)
    room = 100 - used
    if room > 0:
        before = clock.now
        with entered(limited, room):
            assert clock.now == before
    elif used > 0 and not is_open:
        before = clock.now
        with entered(limited, 1):
            assert clock.now > before
    for stack, _, _ in open_ones:
        stack.close()


def test_a_request_above_the_limit_goes_alone() -> None:
    limited, clock = gate(tpm=100)
    begun = clock.now
    with entered(limited, 500):
        assert clock.now == begun
    with entered(limited, 1):
        assert clock.now - begun >= 60


def test_never_more_at_once_than_allowed() -> None:
    limited = Gate(3)
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        async with limited.slot() as slot:
            await limited.enter(slot, lambda: 1)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async def work_all() -> None:
        await asyncio.gather(*(work() for _ in range(300)))

    portal.run(work_all())
    assert most == 3


def test_those_who_wait_for_a_place_and_give_up_leave_it_to_the_next() -> None:
    limited = Gate(1)

    async def inside() -> str:
        async with limited.slot():
            return "inside"

    async def ask() -> str:
        async with limited.slot():
            waiting = [asyncio.ensure_future(inside()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        # Its turn has come, and it goes away at the same moment.
        waiting[1].cancel()
        return await waiting[2]

    assert portal.run(ask()) == "inside"
    assert limited.in_use == 0


def test_nothing_sleeps_for_longer_than_the_run_has_time() -> None:
    slept: list[float] = []

    async def wait(seconds: float) -> bool:
        slept.append(seconds)
        return False

    portal.run(Gate(1, wait=wait, seconds_left=lambda: 3.0).sleep(60))
    assert slept == [3.0]


def answered(limited: Gate, clock: Clock, *, rounds: int = 1) -> None:
    """Rounds of rows, as many at once as the limit allows; each takes a second."""
    for _ in range(rounds):
        with ExitStack() as stack:
            slots = [stack.enter_context(entered(limited, 1)) for _ in range(limited.limit)]
            clock.now += 1.0
            for slot in slots:
                limited.answered(slot, 1, is_row=True)


def test_auto_begins_with_few_and_says_what_it_came_to() -> None:
    limited, clock = gate(64, is_auto=True)
    assert limited.limit == 8
    answered(limited, clock, rounds=2)
    assert limited.settled_on == limited.limit == 18
    assert gate(64)[0].settled_on is None


def test_one_burst_halves_once_and_answers_bring_it_back() -> None:
    limited, clock = gate(16)
    with entered(limited, 1) as first, entered(limited, 1) as second:
        limited.throttled(first)
        limited.throttled(second)
    assert limited.limit == 8
    answered(limited, clock, rounds=10)
    assert limited.limit == 16
    for _ in range(10):
        with entered(limited, 1) as slot:
            limited.throttled(slot)
    assert limited.limit == 1


def test_closing_lets_go_of_those_who_wait_for_a_place() -> None:
    limited = Gate(1)
    with ThreadPoolExecutor(1) as pool, entered(limited, 1):

        def enter() -> None:
            with entered(limited, 1):
                pytest.fail("must not be let in")

        waiting = pool.submit(enter)
        limited.close()
        with pytest.raises(Interrupted):
            waiting.result(5)


def test_a_request_that_is_cancelled_as_its_turn_comes_takes_no_place() -> None:
    limited, _ = gate(1)

    async def cancelled() -> bool:
        first, second = limited.slot(), limited.slot()
        await first.__aenter__()
        waiting = asyncio.ensure_future(second.__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await first.__aexit__(None, None, None)
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert portal.run(cancelled())
    assert limited.in_use == 0
