"""One look for all: nobody is told twice, nobody misses the newest, nothing queues up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from autoprompt.web.hub import MOST_CLIENTS, Hub, News

PATIENCE_S = 10.0


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def quiet_hub() -> Hub:
    return Hub(lambda: [])


async def read(stream: AsyncIterator[bytes], count: int) -> list[dict[str, str]]:
    """The next `count` events as their fields."""
    found = []
    while len(found) < count:
        lines = (await anext(stream)).decode().strip().split("\n")
        found.append(dict(line.split(": ", 1) for line in lines))
    return found


def news(topic: str, text: str) -> News:
    return News(topic, json.dumps({"topic": topic, "text": text}))


def test_a_new_client_is_told_the_newest_of_each_topic() -> None:
    async def work() -> None:
        hub = quiet_hub()
        hub.publish([news("a", "old"), news("b", "b"), news("a", "new")])
        hello, first, second = await read(hub.follow(""), 3)
        assert hello["event"] == "hello"
        assert [json.loads(event["data"])["text"] for event in (first, second)] == ["b", "new"]

    run(work)


def test_a_client_that_comes_back_is_told_what_it_missed() -> None:
    async def work() -> None:
        hub = quiet_hub()
        hub.publish([news("a", "1")])
        stream = hub.follow(hub.position)
        await read(stream, 1)
        hub.publish([news("a", "2")])
        (event,) = await read(stream, 1)
        assert json.loads(event["data"])["text"] == "2"
        hub.publish([news("a", "3"), news("a", "4")])
        *_, last = await read(hub.follow(event["id"]), 2)
        assert json.loads(last["data"])["text"] == "4"
        assert hub.since(last["id"]) == []
        assert [item["id"] for item in hub.since(event["id"])] == [last["id"]]

    run(work)


@pytest.mark.parametrize(
    "after", ["", "nonsense", "-", "00000000-5", "{boot}-", "{boot}--1", "{boot}-" + "9" * 99, "{boot}-٣"]
)
def test_a_position_that_is_none_of_ours_begins_at_the_start(after: str) -> None:
    hub = quiet_hub()
    hub.publish([news("a", "1")])
    boot = hub.position.partition("-")[0]
    assert len(hub.since(after.replace("{boot}", boot))) == 1


def test_a_sleeping_client_holds_nothing_back_and_is_sent_the_newest_alone() -> None:
    async def work() -> None:
        hub = quiet_hub()
        stream = hub.follow("")
        await read(stream, 1)
        for number in range(1000):
            hub.publish([news("a", str(number))])
        (event,) = await read(stream, 1)
        assert json.loads(event["data"])["text"] == "999"
        assert len(hub.since("")) == 1

    run(work)


def test_topics_of_runs_long_gone_do_not_pile_up() -> None:
    hub = quiet_hub()
    hub.publish([news(str(number), "") for number in range(1000)])
    assert len(hub.since("")) < 300


def test_fifty_clients_cost_one_look_and_none_costs_nothing() -> None:
    async def work() -> None:
        looks = 0

        def scan() -> list[News]:
            nonlocal looks
            looks += 1
            return [news("a", str(looks))]

        hub = Hub(scan, poll_s=0.0)
        watching = asyncio.create_task(hub.run())
        await asyncio.sleep(0)
        assert looks == 0

        async def client() -> str:
            stream = hub.follow("")
            *_, event = await read(stream, 4)
            await stream.aclose()  # type: ignore[attr-defined]
            return json.loads(event["data"])["text"]

        told = await asyncio.gather(*(client() for _ in range(50)))
        assert {int(text) for text in told} <= set(range(1, looks + 1))
        assert looks < 50
        assert hub.clients == 0
        watching.cancel()

    run(work)


def test_a_server_that_stops_ends_every_stream() -> None:
    async def work() -> None:
        hub = quiet_hub()
        streams = [hub.follow("") for _ in range(3)]
        for stream in streams:
            await read(stream, 1)
        hub.close()
        for stream in streams:
            assert [event async for event in stream] == []
        assert hub.clients == 0

    run(work)


def test_a_look_that_fails_ends_every_stream() -> None:
    async def work() -> None:
        def scan() -> list[News]:
            raise RuntimeError("a mistake of ours")

        hub = Hub(scan)
        watching = asyncio.create_task(hub.run())
        assert len([event async for event in hub.follow("")]) == 1
        with pytest.raises(RuntimeError):
            await watching

    run(work)


def test_there_is_an_end_to_how_many_listen() -> None:
    async def work() -> None:
        hub = quiet_hub()
        streams = [hub.follow("") for _ in range(MOST_CLIENTS)]
        assert not hub.is_full
        for stream in streams:
            await read(stream, 1)
        assert hub.is_full

    run(work)
