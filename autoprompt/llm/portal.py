"""The event loop of this process, on which requests to models run, and the way onto it from other threads.

One thread runs the loop, from its first use to the end of the process. `run` is the portal: the calling
thread waits for a coroutine on the loop. While it waits it does what the coroutine asks of it (`in_caller`),
so a client that blocks runs in the thread that asked it, with that thread's context, and the loop goes on.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, ContextVar
from queue import Empty, SimpleQueue
from selectors import DefaultSelector
from typing import Any, TypeVar
from weakref import WeakSet

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")
_WAKE_UP_S = 0.2
_END_S = 2.0  # for a coroutine that was cancelled, to put its accounts in order


class Daemons(ThreadPoolExecutor):
    """Runs each function that blocks, such as the look-up of a host, in a daemon thread of its own.

    Python joins the threads of other executors when it ends, and a look-up may take a minute. Nothing is
    kept between calls, so a forked process can use it as well.
    """

    def submit(self, function: Callable[..., _Result], /, *values: Any, **named: Any) -> Future[_Result]:
        ended: Future[_Result] = Future()

        def answer(result: Any, error: BaseException | None) -> None:
            if error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(result)

        def work() -> None:
            if ended.set_running_or_notify_cancel():
                _do(lambda: function(*values, **named), answer)

        threading.Thread(target=work, name="autoprompt-blocking", daemon=True).start()
        return ended


class _Loop(asyncio.SelectorEventLoop):
    """Knows the connections that were made on it. made: as long as somebody keeps them."""

    def __init__(self, selector: DefaultSelector) -> None:
        super().__init__(selector)
        self.made: WeakSet[asyncio.BaseTransport] = WeakSet()

    async def create_connection(self, *values: Any, **named: Any) -> Any:
        transport, protocol = await super().create_connection(*values, **named)
        self.made.add(transport)
        return transport, protocol


class LoopThread:
    """An event loop in a daemon thread, from its first use to the end of the process.

    A process that is forked gets another one. The thread stays in the parent, and so do the connections.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: _Loop | None = None
        self._selector: DefaultSelector | None = None
        self._thread: int | None = None
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._leave_to_parent)

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs."""
        if self._loop is None:
            with self._starting:
                if self._loop is None:
                    self._selector = DefaultSelector()
                    loop = _Loop(self._selector)
                    loop.set_default_executor(Daemons())
                    thread = threading.Thread(
                        target=_run_always, args=(loop,), name="autoprompt-loop", daemon=True
                    )
                    Context().run(thread.start)  # whatever is at work in the first caller is not the loop's
                    self._loop, self._thread = loop, thread.ident
        return self._loop

    @property
    def running(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop, if there is one yet."""
        return self._loop

    @property
    def is_here(self) -> bool:
        """Return whether this is the thread of the loop, which must not wait for it."""
        return threading.get_ident() == self._thread

    def end_connections(self) -> None:
        """End all connections of the loop, which nobody may be using, as a server does that closes them.

        A client that keeps them for later calls makes new ones then, on whatever loop it is used.
        """
        if (loop := self._loop) is None:
            return

        async def end() -> None:
            for transport in list(loop.made):
                with suppress(OSError):  # ended already
                    transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

        with suppress(TimeoutError):  # a program that never returns holds up its loop
            asyncio.run_coroutine_threadsafe(end(), loop).result(_END_S)

    def _leave_to_parent(self) -> None:
        """Forget the loop in a forked process.

        Closed here, if only by the garbage collector, its connections would say goodbye to the server and
        leave the parent's poll. So in this process their numbers become those of a file that nobody reads.
        """
        if self._selector is not None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in [key.fd for key in self._selector.get_map().values()] + [self._selector.fileno()]:
                os.dup2(nowhere, number, inheritable=False)
            os.close(nowhere)
            leave_to_parent(self._loop)
        self._starting = threading.Lock()
        self._loop = self._selector = self._thread = None


def _run_always(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop for ever, also after a task that calls `sys.exit`: asyncio raises that here, too.

    Whatever awaits the task gets it as well.
    """
    while True:
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()


def leave_to_parent(thing: object) -> None:
    """Never free this in a forked process: at the end, too, it would report that it is not closed."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_requests = LoopThread()


class _Caller:
    """A thread that waits in `run`: what it is to do next, or what came of its coroutine."""

    __slots__ = ("items", "task")

    def __init__(self) -> None:
        self.items: SimpleQueue[tuple[Callable[[], Any] | None, Any]] = SimpleQueue()
        self.task: asyncio.Task[None] | None = None


_caller: ContextVar[_Caller | None] = ContextVar("autoprompt_caller", default=None)


def run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine on the loop, and return its result or raise its error in this thread.

    What interrupts the wait, such as Ctrl-C, cancels the coroutine.

    Raises:
        RuntimeError: If this is the thread of the loop.
    """
    if _requests.is_here:
        coroutine.close()
        raise RuntimeError("the thread of the event loop cannot wait for it; await the coroutine instead")
    loop, caller = _requests.get(), _Caller()

    def start() -> None:
        _caller.set(caller)
        caller.task = loop.create_task(_finish(coroutine, caller))

    try:
        loop.call_soon_threadsafe(start)
        while True:
            work, then = next_item(caller.items)
            if work is None:
                break
            _do(work, then)
    except BaseException:
        # Not before its first step: a coroutine that never began would not come to its end either.
        loop.call_soon_threadsafe(lambda: caller.task is not None and loop.call_soon(caller.task.cancel))
        _await_end(caller)
        raise
    result, error = then
    if error is not None:
        try:
            raise error
        finally:
            del error, then  # no circle of error, traceback and frame
    return result  # type: ignore[no-any-return]


def next_item(items: SimpleQueue[_Item], *, timeout_s: float = math.inf) -> _Item:
    """Wait for an item, awake now and then: an interrupt must reach a thread that is not the main one.

    Raises:
        Empty: If there is none after `timeout_s`.
    """
    until = time.monotonic() + timeout_s
    while True:
        left_s = until - time.monotonic()
        try:
            return items.get(timeout=max(0.0, min(left_s, _WAKE_UP_S)))
        except Empty:
            if left_s <= _WAKE_UP_S:
                raise


async def in_caller(function: Callable[[], _Result]) -> _Result:
    """Call what may block, in the thread that waits for this coroutine, or else in a thread of asyncio."""
    caller = _caller.get()
    if caller is None:
        return await asyncio.to_thread(function)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def answer(result: Any, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(_resolve, future, (result, error))

    caller.items.put((function, answer))
    result, error = await future
    if error is not None:
        try:
            raise error
        finally:
            del error
    return result  # type: ignore[no-any-return]


def later(coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine on the loop, and do not wait for it; from any thread."""
    _requests.get().call_soon_threadsafe(lambda: asyncio.ensure_future(coroutine()))


def call_later(function: Callable[[], object]) -> None:
    """Call a function on the loop, and do not wait for it; from any thread. Without a loop nobody waits."""
    if (loop := _requests.running) is not None:
        loop.call_soon_threadsafe(function)


async def _finish(coroutine: Coroutine[Any, Any, Any], caller: _Caller) -> None:
    """Hand the outcome to the caller, whatever it is: a KeyboardInterrupt would end the loop."""
    try:
        outcome = (await coroutine, None)
    except BaseException as error:  # noqa: BLE001 - raised again, in the calling thread
        caller.items.put((None, (None, error)))
    else:
        caller.items.put((None, outcome))


def _do(function: Callable[[], Any], answer: Callable[[Any, BaseException | None], None]) -> None:
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - raised again, in the coroutine
        answer(None, error)
    else:
        answer(result, None)


def _resolve(future: asyncio.Future[Any], outcome: object) -> None:
    if not future.done():
        future.set_result(outcome)


def _await_end(caller: _Caller) -> None:
    """Wait for a coroutine that was cancelled; what it asks of this thread is not done any more."""
    try:
        while caller.items.get(timeout=_END_S)[0] is not None:
            pass
    except Empty:
        return
