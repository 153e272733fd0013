"""The async forms: they leave the event loop free, and a cancelled one leaves a run that can be resumed."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
import ticket_desk
from desk_model import desk_config, desk_model, write_tickets
from fake_endpoint import FakeEndpoint
from openai import AsyncOpenAI

import autoprompt
from autoprompt.optimizer import async_api
from autoprompt.programs import calling, scope
from autoprompt.records import Example


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatch) as found:
        yield found


def test_the_loop_goes_on_and_an_async_program_runs(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    async def both() -> tuple[Any, Any]:
        ticks, is_over = 0, False

        async def tick() -> int:
            nonlocal ticks
            while not is_over:
                ticks += 1
                await asyncio.sleep(0)
            return ticks

        ticking = asyncio.create_task(tick())
        report = await autoprompt.aevaluate(desk_config(tmp_path), program=ticket_desk.async_desk)
        is_over = True
        return report, await ticking

    report, ticks = asyncio.run(both())
    assert report.n == 120
    assert ticks > 10


def test_a_synchronous_form_works_inside_of_a_loop(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    config = desk_config(tmp_path, dataset=write_tickets(tmp_path / "few.jsonl", 24))

    async def in_a_notebook() -> float:
        return autoprompt.evaluate(config, program=ticket_desk.async_desk).score

    assert asyncio.run(in_a_notebook()) == autoprompt.evaluate(config, program=ticket_desk.desk).score


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked there")
def test_an_async_program_runs_in_a_forked_process_too() -> None:
    async def program() -> str:
        return "answered"

    assert calling._awaited(program()) == "answered"
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(calling._awaited(program())))
    child.start()
    assert reader.poll(10)
    assert reader.recv() == "answered"
    child.join(5)


def test_a_program_that_cancels_itself_fails_its_row_and_not_the_run() -> None:
    def program(text: str) -> str:
        raise asyncio.CancelledError(f"by the scope of {text}")

    caller = calling.caller_of(program, input_field="text", target_field="queue")
    with pytest.raises(CancelledError, match="by the scope of a ticket") as caught:
        caller.run(Example("r1", "a ticket", "tech", {"text": "a ticket"}))
    assert isinstance(caught.value, Exception)


@pytest.mark.parametrize(
    "waits", [calling._awaited, lambda program: calling._within(60, lambda: calling._awaited(program))]
)
def test_an_interrupt_reaches_a_thread_that_waits_for_an_async_program(waits: Callable[..., Any]) -> None:
    has_begun, ended = threading.Event(), list[str]()

    async def program() -> None:
        has_begun.set()
        await asyncio.sleep(60)

    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            waits(program())
        ended.append("interrupted")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert has_begun.wait(5)
    async_api._interrupt(thread)
    thread.join(5)
    assert ended == ["interrupted"]


def test_a_call_on_its_way_does_not_hold_up_the_end_of_the_interpreter() -> None:
    assert scope.waiters.submit(threading.current_thread).result().daemon


def test_a_cancelled_task_leaves_a_run_that_resumes_as_if_nothing_had_been(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = autoprompt.optimize(desk_config(tmp_path / "whole"), program=ticket_desk.desk)
    sent = len(endpoint.requests)
    runs = tmp_path / "cut" / "runs"

    async def cut() -> str:
        loop, is_racing = asyncio.get_running_loop(), asyncio.Event()

        def tell(event: dict[str, Any]) -> None:
            if event["event"] == "rows_evaluated" and "race" in event["what"] and event["done"] >= 10:
                loop.call_soon_threadsafe(is_racing.set)

        work = autoprompt.aoptimize(desk_config(tmp_path / "cut"), program=ticket_desk.desk, on_event=tell)
        task = asyncio.create_task(work)
        await asyncio.wait_for(is_racing.wait(), 60)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return str(error)
        raise AssertionError("it was not cancelled")

    said = asyncio.run(cut())
    assert "Resume with: autoprompt resume" in said
    assert sent < len(endpoint.requests) < 2 * sent
    result = asyncio.run(autoprompt.aresume("last", runs_dir=runs, program=ticket_desk.desk))
    assert result.best == whole.best  # type: ignore[union-attr]
    assert len(endpoint.requests) == 2 * sent


def test_a_client_that_is_made_once_works_on_its_users_loop_before_and_after(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    rows = write_tickets(tmp_path / "few.jsonl", 24)
    config = desk_config(tmp_path, dataset=rows)
    ticket = next(iter(json.loads(rows.read_text(encoding="utf-8").splitlines()[0]).values()))

    async def before_and_after() -> list[str]:
        async with AsyncOpenAI(**ticket_desk._settings()) as client:

            async def ask(text: str) -> str:
                turns = ticket_desk._turns(ticket_desk.ROUTE, text)
                reply = await client.chat.completions.create(model="m", messages=turns)
                return reply.choices[0].message.content or ""

            answers = [await ask(ticket)]
            report = await autoprompt.aevaluate(config, program=ask)
            assert not [row.error for row in report.evaluation.rows if row.error]
            return [*answers, *[await ask(ticket) for _ in range(24)]]

    assert len(set(asyncio.run(before_and_after()))) == 1
