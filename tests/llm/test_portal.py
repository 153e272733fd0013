"""The event loop of the process, and the way onto it from other threads."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from autoprompt.llm import portal

_named: ContextVar[str] = ContextVar("named", default="")


async def _threads() -> tuple[int, int]:
    """The thread of the loop, and that of what blocks."""
    return threading.get_ident(), await portal.in_caller(threading.get_ident)


def test_what_blocks_runs_in_the_thread_that_waits_for_it() -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: (portal.run(_threads()), threading.get_ident()), range(2))
    for (loop, caller), waiting in (first, second):
        assert caller == waiting
        assert loop != waiting
    assert first[0][0] == second[0][0]


def test_a_coroutine_has_the_context_of_who_waits_for_it() -> None:
    async def named() -> tuple[str, str]:
        return _named.get(), await portal.in_caller(_named.get)

    token = _named.set("row 3")
    try:
        assert portal.run(named()) == ("row 3", "row 3")
    finally:
        _named.reset(token)
    assert portal.run(named()) == ("", "")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ValueError])
@pytest.mark.parametrize("where", ["coroutine", "task", "caller"])
def test_an_error_is_raised_where_it_is_waited_for_and_the_loop_goes_on(
    kind: type[BaseException], where: str
) -> None:
    def fail() -> None:
        raise kind("here")

    async def failing() -> None:
        fail()

    async def work() -> None:
        if where == "coroutine":
            fail()
        if where == "task":
            await asyncio.gather(failing())
        await portal.in_caller(fail)

    with pytest.raises(kind, match="here"):
        portal.run(work())
    assert portal.run(asyncio.sleep(0, "still there")) == "still there"


def test_what_interrupts_the_wait_cancels_the_coroutine() -> None:
    """In a thread that is not the main one, as that of a run whose task was cancelled."""
    has_begun, ended = threading.Event(), list[str]()

    async def wait() -> None:
        try:
            has_begun.set()
            await asyncio.sleep(60)
        finally:
            ended.append("accounts are in order")

    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            portal.run(wait())
        ended.append("interrupted")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert has_begun.wait(5)
    interrupt = ctypes.pythonapi.PyThreadState_SetAsyncExc
    interrupt(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))
    thread.join(5)
    assert ended == ["accounts are in order", "interrupted"]


def test_what_blocks_elsewhere_does_not_hold_up_the_end_of_the_interpreter() -> None:
    """A look-up of a host's address, say, which may take a minute."""
    assert portal.run(asyncio.to_thread(lambda: threading.current_thread().daemon))


def test_the_thread_of_the_loop_does_not_wait_for_itself() -> None:
    async def wait() -> None:
        portal.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="await the coroutine instead"):
        portal.run(wait())


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    portal.run(asyncio.sleep(0))
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writer.send(portal.run(asyncio.sleep(0, "there"))))
    child.start()
    assert reader.poll(10)
    assert reader.recv() == "there"
    child.join(5)


def test_a_loop_that_is_held_up_does_not_hold_up_who_ends_its_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(portal, "_END_S", 0.05)
    thread, goes_on = portal.LoopThread(), threading.Event()
    thread.get().call_soon_threadsafe(goes_on.wait)
    thread.end_connections()
    goes_on.set()
    thread.end_connections()
