"""Where a program's requests are caught: in the HTTP clients of SDKs, and in LangChain's other chat models.

Hooks are in place while a run is (`installed`). A request without a row passes untouched, so that our own
calls and other users' of the process are not seen; one while a run asks for its row is kept as unattributed.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from types import ModuleType
from typing import Any

from autoprompt.programs import langchain
from autoprompt.programs.dialects import dialect_of
from autoprompt.programs.scope import Call, RowScope, current_row, is_inside

_PACKAGE = str(Path(__file__).parents[1])
_SKIPPED_HEADERS = ("content-length", "transfer-encoding")
_CLIENTS = ("httpx", "httpx2")
_lock = threading.Lock()
_installed = 0
_undo: list[Callable[[], None]] = []
_waiters = ThreadPoolExecutor(max_workers=256, thread_name_prefix="autoprompt-call")
unattributed: list[str] = []  # places of model calls that belong to no row, while hooks are in place


@contextmanager
def installed() -> Iterator[None]:
    """Catch the requests of programs while the block runs. Blocks may overlap."""
    global _installed
    with _lock:
        _installed += 1
        if _installed == 1:
            _install()
    try:
        yield
    finally:
        with _lock:
            _installed -= 1
            if _installed == 0:
                while _undo:
                    _undo.pop()()


def _install() -> None:
    for name in _CLIENTS:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        _patch(module.Client, "send", functools.partial(_send, module))
        _patch(module.AsyncClient, "send", functools.partial(_asend, module))
    if "langchain_core" in sys.modules:
        from langchain_core.language_models import BaseChatModel
        from langchain_core.tools import BaseTool

        _patch(BaseChatModel, "_generate_with_cache", functools.partial(langchain.generate, site_name))
        _patch(
            BaseChatModel,
            "_agenerate_with_cache",
            functools.partial(langchain.agenerate, site_name, _waiters),
        )
        _patch(BaseChatModel, "_should_stream", langchain.should_stream)
        _patch(BaseTool, "run", langchain.run_tool)
        _patch(BaseTool, "arun", langchain.arun_tool)
    _patch(threading.Thread, "start", lambda original: _thread_start(original))
    _patch(ThreadPoolExecutor, "submit", lambda original: _submit(original))


def _patch(owner: type, name: str, make: Callable[[Any], Any]) -> None:
    original = owner.__dict__[name]
    setattr(owner, name, functools.wraps(original)(make(original)))
    _undo.append(lambda: setattr(owner, name, original))


# --- HTTP ---


def _send(module: ModuleType, original: Any) -> Any:
    def send(client: Any, request: Any, **options: Any) -> Any:
        row = current_row.get()
        found = _model_request(request, row)
        if row is None or found is None:
            return original(client, request, **options)

        def forward(content: bytes) -> tuple[int, Mapping[str, str], bytes]:
            token = is_inside.set(True)
            try:
                response = original(client, _with_body(module, request, content))
                return response.status_code, response.headers, response.content
            except module.HTTPError as error:
                raise _as_ours(error, str(request.url)) from error
            finally:
                is_inside.reset(token)

        answer = row.ask(_call(request, found, forward))
        return _response(module, request, answer)

    return send


def _asend(module: ModuleType, original: Any) -> Any:
    async def send(client: Any, request: Any, **options: Any) -> Any:
        row = current_row.get()
        found = _model_request(request, row)
        if row is None or found is None:
            return await original(client, request, **options)
        loop = asyncio.get_running_loop()

        async def one(content: bytes) -> tuple[int, Mapping[str, str], bytes]:
            token = is_inside.set(True)
            try:
                response = await original(client, _with_body(module, request, content))
                await response.aread()
                return response.status_code, response.headers, response.content
            except module.HTTPError as error:
                raise _as_ours(error, str(request.url)) from error
            finally:
                is_inside.reset(token)

        def forward(content: bytes) -> tuple[int, Mapping[str, str], bytes]:
            return asyncio.run_coroutine_threadsafe(one(content), loop).result()

        call = _call(request, found, forward)
        answer = await loop.run_in_executor(_waiters, functools.partial(copy_context().run, row.ask, call))
        return _response(module, request, answer)

    return send


def _model_request(request: Any, row: RowScope | None) -> Any:
    """The body of a question to a model; None for any other request."""
    if request.method != "POST" or is_inside.get():
        return None
    dialect = dialect_of(request.url.path)
    if dialect is None:
        return None
    if row is None:
        if _installed and not _is_ours():
            unattributed.append(caller())
        return None
    try:
        body = json.loads(request.read() if hasattr(request, "read") else request.content)
    except (ValueError, RuntimeError):
        return None
    return (dialect, body) if isinstance(body, dict) and next(iter(dialect.parts(body)), None) else None


def _call(request: Any, found: Any, forward: Any) -> Call:
    dialect, body = found
    return Call(dialect, str(request.url), body, site_name(), forward)


def _with_body(module: ModuleType, request: Any, content: bytes) -> Any:
    headers = [(k, v) for k, v in request.headers.multi_items() if k.lower() not in _SKIPPED_HEADERS]
    extensions = dict(request.extensions)
    return module.Request(
        request.method, request.url, headers=headers, content=content, extensions=extensions
    )


def _response(module: ModuleType, request: Any, answer: Any) -> Any:
    headers = {"content-type": answer.content_type}
    if answer.status >= 400:
        headers["x-should-retry"] = "false"
    return module.Response(answer.status, headers=headers, content=answer.body.encode(), request=request)


def _as_ours(error: Exception, url: str) -> Exception:
    import httpx

    from autoprompt.llm.transport.http import from_httpx

    if isinstance(error, httpx.HTTPError):
        return from_httpx(error, url, "")
    same = getattr(httpx, type(error).__name__, httpx.NetworkError)
    return from_httpx(same(str(error)), url, "")


# --- threads of the program's own ---


def _thread_start(original: Any) -> Any:
    def start(thread: threading.Thread) -> None:
        if current_row.get() is not None and not hasattr(thread, "_autoprompt_context"):
            context, run = copy_context(), thread.run
            thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        original(thread)

    return start


def _submit(original: Any) -> Any:
    def submit(pool: ThreadPoolExecutor, function: Any, /, *values: Any, **named: Any) -> Any:
        if current_row.get() is None or pool is _waiters:
            return original(pool, function, *values, **named)
        return original(pool, functools.partial(copy_context().run, function), *values, **named)

    return submit


# --- where a call comes from ---


def site_name() -> str:
    """Return the graph's node that is at work, subgraphs before it, else the function that made the call."""
    return _node() or caller(is_short=True)


def _node() -> str:
    if "langchain_core" not in sys.modules:
        return ""
    from langchain_core.runnables.config import var_child_runnable_config

    config = var_child_runnable_config.get()
    metadata = (config or {}).get("metadata") or {}
    place = metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns") or ""
    names = [part.partition(":")[0] for part in str(place).split("|") if part]
    node = metadata.get("langgraph_node")
    if not node:
        return ""
    return ".".join(names) if names and names[-1] == node else str(node)


def caller(*, is_short: bool = False) -> str:
    """Return the innermost frame of the program's own code: `shop.py:12 (route)`, or `route`."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<", sys.prefix, sys.base_prefix)) and "site-packages" not in name:
            function = frame.f_code.co_qualname.rpartition("<locals>.")[2]
            return function if is_short else f"{name}:{frame.f_lineno} ({function})"
        frame = frame.f_back
    return "program"


def _is_ours() -> bool:
    """Whether a request is one of our own transports'."""
    frame: Any = sys._getframe(1)
    transport = str(Path(_PACKAGE) / "llm")
    while frame is not None:
        if frame.f_code.co_filename.startswith(transport):
            return True
        frame = frame.f_back
    return False
