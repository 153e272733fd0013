"""One look for all: nobody is told twice, nobody misses the newest, nothing queues up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from written_runs import begin, propose, settle, tell

from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.hub import LIST, MOST_CLIENTS, Hub, News, Watcher
from autoprompt.web.library import RunLibrary

PATIENCE_S = 10.0
A = "a" * 12


def complete(work: Callable[[], Awaitable[None]]) -> None:
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

    complete(work)


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

    complete(work)


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

    complete(work)


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

    complete(work)


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

    complete(work)


def test_a_look_that_fails_ends_every_stream() -> None:
    async def work() -> None:
        def scan() -> list[News]:
            raise RuntimeError("a mistake of ours")

        hub = Hub(scan)
        watching = asyncio.create_task(hub.run())
        assert len([event async for event in hub.follow("")]) == 1
        with pytest.raises(RuntimeError):
            await watching

    complete(work)


def test_there_is_an_end_to_how_many_listen() -> None:
    async def work() -> None:
        hub = quiet_hub()
        streams = [hub.follow("") for _ in range(MOST_CLIENTS)]
        assert not hub.is_full
        for stream in streams:
            await read(stream, 1)
        assert hub.is_full

    complete(work)


class Looking:
    """A watcher whose pages are the texts of the log, and what it told at the last look."""

    def __init__(self, runs: RunStore) -> None:
        self.library = RunLibrary(runs.runs_dir)
        self.watcher = Watcher(self.library, lambda _, state: "|".join(line.text for line in state.log))

    def look(self) -> dict[str, dict[str, Any]]:
        return {item.topic: json.loads(item.data) for item in self.watcher.scan()}


@pytest.fixture
def looking(runs: RunStore) -> Looking:
    return Looking(runs)


@pytest.fixture
def run(runs: RunStore) -> RunFolder:
    return begin(runs)


def finish(run: RunFolder) -> None:
    result = {"verdict": "confirmed", "message": "Confirmed.", "best": {}, "original": {}}
    run.write_result(result)
    tell(run, "run_finished", result=result)


def test_a_run_that_does_nothing_is_told_once(looking: Looking, run: RunFolder) -> None:
    assert set(looking.look()) == {run.run_id}
    assert looking.look() == {}


def test_a_run_is_followed_through_kill_and_resume_to_its_end(looking: Looking, run: RunFolder) -> None:
    with run.lock():
        assert looking.look()[run.run_id]["status"] == "running"
        propose(run, A)
        assert "try aaaaaa" in looking.look()[run.run_id]["html"]
        with run.events_path.open("ab") as stream:
            stream.write(b'{"event": "candidate_settled", "id": "aaaa')  # and here it is killed
    told = looking.look()
    assert told[run.run_id]["status"] == "interrupted"
    assert "settled" not in told[run.run_id]["html"]
    assert LIST in told
    with run.lock():
        tell(run, "run_started", resumed=True, model="m", max_iterations=3, budget={}, sizes={})
        settle(run, A, 0.75)
        told = looking.look()
        assert told[run.run_id]["status"] == "running"
        assert told[run.run_id]["settled"] == 1
        assert "0.750" in told[run.run_id]["said"]
        finish(run)
    told = looking.look()
    assert told[run.run_id]["status"] == "finished"
    assert LIST in told
    assert looking.look() == {}


def test_what_a_page_has_read_is_told_to_the_others_too(looking: Looking, run: RunFolder) -> None:
    looking.look()
    propose(run, A)
    entry = looking.library.find(run.run_id)
    assert entry is not None
    assert "try aaaaaa" in looking.watcher.html(entry)
    assert "try aaaaaa" in looking.look()[run.run_id]["html"]
    assert looking.look() == {}


def test_runs_that_come_and_go_change_the_list(looking: Looking, runs: RunStore, run: RunFolder) -> None:
    looking.look()
    other = begin(runs, "other")
    assert set(looking.look()) == {LIST, other.run_id}
    runs.remove(other.run_id)
    assert set(looking.look()) == {LIST}


def test_runs_that_have_ended_are_not_read(looking: Looking, runs: RunStore, run: RunFolder) -> None:
    finish(run)
    assert looking.look() == {}
    assert looking.look() == {}


def test_trials_of_a_batch_are_followed_under_its_name(looking: Looking, runs: RunStore) -> None:
    batch = runs.create({}, kind="batch", name="matrix")
    trial = begin(RunStore(batch.path))
    key = f"{batch.run_id}/{trial.run_id}"
    assert key in looking.look()
    propose(trial, A)
    assert set(looking.look()) == {key}


def test_a_link_that_is_put_into_a_run_at_work_is_not_read(
    looking: Looking, run: RunFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.jsonl"
    secret.write_text('{"event": "warning", "message": "hunter2"}\n', encoding="utf-8")
    looking.look()
    run.events_path.unlink()
    run.events_path.symlink_to(secret)
    told = looking.look()
    assert told[run.run_id]["status"] == "broken"
    assert "hunter2" not in json.dumps(told)
