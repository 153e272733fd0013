"""Where a program's requests are caught: in the HTTP clients of SDKs, and in LangChain's other chat models.

Those of other HTTP libraries are only noted, to warn of them.

Hooks are in place while a run is (`installed`). A request without a row passes untouched, so that our own
calls and other users' of the process are not seen; one while a run asks for its row is kept as unattributed.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import importlib
import importlib.util
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from datetime import timedelta
from functools import cache
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict, CIMultiDictProxy

from autoprompt.errors import Place
from autoprompt.programs import langchain
from autoprompt.programs.dialects import dialect_of
from autoprompt.programs.places import (
    caller_of_process,
    is_in_langchain,
    is_ours,
    library_of_call,
    note_start,
    place_of_call,
    site_name,
)
from autoprompt.programs.scope import Call, RowScope, Sent, current_row, is_inside
from autoprompt.programs.winner import is_carried, winner

_SKIPPED_HEADERS = ("content-length", "transfer-encoding")
_CLIENTS = ("httpx", "httpx2")
_KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_lock = threading.Lock()
_installed = 0
_trying = 0  # runs at work, which ask for the row of each call
_undo: list[Callable[[], None]] = []
unattributed: list[Place] = []  # of model calls that belong to no row, while hooks are in place


@contextmanager
def installed() -> Iterator[None]:
    """Catch the requests of a run's rows while the block runs. Blocks may overlap."""
    global _trying
    install()
    with _lock:
        _trying += 1
    try:
        yield
    finally:
        with _lock:
            _trying -= 1
        uninstall()


def install() -> None:
    """Catch requests from now on, until `uninstall` is called as often."""
    global _installed
    with _lock:
        _installed += 1
        if _installed == 1:
            _install()


def uninstall() -> None:
    """Undo one `install`."""
    global _installed
    with _lock:
        _installed -= 1
        if _installed == 0:
            while _undo:
                _undo.pop()()


def _install() -> None:
    for module in _clients():
        _patch(module.Client, "send", functools.partial(_send, module))
        _patch(module.AsyncClient, "send", functools.partial(_asend, module))
    # Imported even if the program has not yet: it may do so inside of a function.
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    _patch(BaseChatModel, "_generate_with_cache", functools.partial(langchain.generate, note_unattributed))
    _patch(BaseChatModel, "_agenerate_with_cache", functools.partial(langchain.agenerate, note_unattributed))
    _patch(BaseChatModel, "_should_stream", langchain.should_stream)
    _patch(BaseTool, "run", langchain.run_tool)
    _patch(BaseTool, "arun", langchain.arun_tool)
    _patch(subprocess.Popen, "__init__", _start_process)
    _patch(http.client.HTTPConnection, "putrequest", _put_request)
    _patch(aiohttp.ClientSession, "_request", _aiohttp_request)
    _patch(os, "system", _start_process)
    _patch(BaseProcess, "start", _start_process)
    _patch(threading.Thread, "start", lambda original: _thread_start(original))
    _patch(ThreadPoolExecutor, "submit", lambda original: _submit(original))
    _patch(asyncio.BaseEventLoop, "create_task", _create_task)


@cache
def _clients() -> list[ModuleType]:
    """Return the HTTP libraries that are there.

    To look for one that is not takes a while, and rows come and go.
    """
    found = (name for name in _CLIENTS if importlib.util.find_spec(name) is not None)
    return [importlib.import_module(name) for name in found]


def _patch(owner: type | ModuleType, name: str, make: Callable[[Any], Any]) -> None:
    original = owner.__dict__[name]
    setattr(owner, name, functools.wraps(original)(make(original)))
    _undo.append(lambda: setattr(owner, name, original))


def note_unattributed() -> None:
    """Keep the place of a model call that belongs to no row, unless it is our own."""
    if _trying and not is_inside.get() and not is_ours():
        unattributed.append(place_of_call())


# --- HTTP ---


def _send(module: ModuleType, original: Any) -> Any:
    def send(client: Any, request: Any, **options: Any) -> Any:
        row = current_row.get()
        found = _model_request(request, row)
        if row is None or found is None:
            return original(client, _with_winner(module, request, found), **options)
        settings = {name: value for name, value in options.items() if name != "stream"}  # it is read whole

        def forward(content: bytes) -> Sent:
            try:
                response = original(client, _with_body(module, request, content), **settings)
            except module.HTTPError as error:
                raise _as_ours(error, str(request.url)) from error
            return response.status_code, response.headers, response.content

        return _response(module, request, row.ask(_call(request, found, forward)))

    return send


def _asend(module: ModuleType, original: Any) -> Any:
    async def send(client: Any, request: Any, **options: Any) -> Any:
        row = current_row.get()
        found = _model_request(request, row)
        if row is None or found is None:
            return await original(client, _with_winner(module, request, found), **options)
        settings = {name: value for name, value in options.items() if name != "stream"}  # it is read whole

        async def forward(content: bytes) -> Sent:
            try:
                response = await original(client, _with_body(module, request, content), **settings)
                await response.aread()
            except module.HTTPError as error:
                raise _as_ours(error, str(request.url)) from error
            return response.status_code, response.headers, response.content

        answer = await row.ask_from_loop(functools.partial(_call, request, found), forward)
        return _response(module, request, answer)

    return send


def _model_request(request: Any, row: RowScope | None) -> Any:
    """Return the body of a question to a model; None for any other request."""
    if request.method != "POST" or is_inside.get():
        return None
    dialect = dialect_of(request.url.path)
    if dialect is None:
        if row is not None:
            row.unknown.append(f"{request.url.host}{request.url.path}")
        return None
    if row is None and winner() is None:
        note_unattributed()
        return None
    try:
        body = json.loads(request.read() if hasattr(request, "read") else request.content)
    except (ValueError, RuntimeError):
        return None
    return (dialect, body) if isinstance(body, dict) and next(iter(dialect.parts(body)), None) else None


def _with_winner(module: ModuleType, request: Any, found: Any) -> Any:
    """Return the request with the texts of the winner that is at work, if it is a question to a model."""
    chosen = winner()
    if chosen is None or found is None or is_ours():
        return request
    dialect, body = found
    changed = chosen.put_into(dialect, site_name(), body)
    if changed is body:
        return request
    return _with_body(module, request, json.dumps(changed, ensure_ascii=False).encode())


def _call(request: Any, found: Any, forward: Any) -> Call:
    dialect, body = found
    url = str(request.url.copy_remove_param("key"))  # Google's is in the address
    runs_stubs, secret = is_in_langchain(), _secret(request)
    return Call(dialect, url, body, site_name(), forward, place_of_call(), runs_stubs, secret)


def _secret(request: Any) -> str:
    """Return the key that a request is sent with, so that no message of an endpoint shows it."""
    given = (request.headers.get(name, "") for name in _KEYS)
    found = next(filter(None, given), request.url.params.get("key", ""))
    return str(found).removeprefix("Bearer ")


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
    response = module.Response(answer.status, headers=headers, content=answer.body.encode(), request=request)
    response.elapsed = timedelta(0)  # of an answer that was sent it is the time; SDKs read it
    return response


def _as_ours(error: Exception, url: str) -> Exception:
    from autoprompt.llm.transport.http import from_httpx

    if isinstance(error, httpx.HTTPError):
        return from_httpx(error, url, "")
    same = getattr(httpx, type(error).__name__, httpx.NetworkError)
    return from_httpx(same(str(error)), url, "")


def _aiohttp_request(original: Any) -> Any:
    async def request(session: Any, method: str, url: Any, **options: Any) -> Any:
        full = session._build_url(url)
        if method.upper() != "POST" or is_inside.get() or dialect_of(full.path) is None or is_ours():
            return await original(session, method, url, **options)
        row, asked = current_row.get(), _as_httpx(session, full, options)
        found = None if asked is None else _model_request(asked, row)
        if row is None or found is None:
            changed = _with_winner(httpx, asked, found)
            more = options if changed is asked else _with_data(options, changed.content)
            return await original(session, method, url, **more)

        async def forward(content: bytes) -> Sent:
            more = {**_with_data(options, content), "raise_for_status": False}
            try:
                async with await original(session, method, url, **more) as response:
                    return response.status, response.headers, await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                same = httpx.ReadTimeout if isinstance(error, TimeoutError) else httpx.NetworkError
                raise _as_ours(same(str(error)), str(full)) from error

        answer = await row.ask_from_loop(functools.partial(_call, asked, found), forward)
        response = _aiohttp_response(session, full, answer)
        if options.get("raise_for_status") or session._raise_for_status is True:
            response.raise_for_status()
        return response

    return request


def _as_httpx(session: Any, url: Any, options: Mapping[str, Any]) -> httpx.Request | None:
    """Return what aiohttp is about to send as a request of httpx; None for a body that is no JSON."""
    data = options.get("data")
    content = json.dumps(options["json"]) if options.get("json") is not None else data
    if not isinstance(content, str | bytes):
        return None
    headers = {**session.headers, **(options.get("headers") or {})}
    return httpx.Request("POST", str(url), headers=headers, content=content)


def _with_data(options: Mapping[str, Any], content: bytes) -> dict[str, Any]:
    """Return the options of a request of aiohttp with another body."""
    headers = CIMultiDict(options.get("headers") or {})
    headers.setdefault("Content-Type", "application/json")
    kept = {name: value for name, value in options.items() if name not in ("json", "data")}
    return {**kept, "data": content, "headers": headers}


def _aiohttp_response(session: Any, url: Any, answer: Any) -> Any:
    """Return an answer as aiohttp gives it: read whole, with no connection."""
    loop, body = asyncio.get_running_loop(), answer.body.encode()
    content = aiohttp.StreamReader(ResponseHandler(loop), 2**16, loop=loop)
    content.feed_data(body)
    content.feed_eof()
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": answer.content_type}))
    # Its arguments differ between versions, and what it reads from them does not.
    response: Any = aiohttp.ClientResponse.__new__(aiohttp.ClientResponse)
    vars(response).update(
        method="POST",
        status=answer.status,
        reason=http.client.responses.get(answer.status, ""),
        content=content,
        _body=body,
        _headers=headers,
        _raw_headers=tuple((name.encode(), value.encode()) for name, value in headers.items()),
        _url=url,
        _real_url=url,
        _request_info=aiohttp.RequestInfo(url, "POST", CIMultiDictProxy(CIMultiDict()), url),
        _cache={},
        _traces=[],
        _loop=loop,
        _session=session,
    )
    return response


# --- libraries whose requests are only seen ---


def _put_request(original: Any) -> Any:
    def putrequest(connection: Any, method: str, url: str, *values: Any, **named: Any) -> None:
        _note_unseen(method, url)
        original(connection, method, url, *values, **named)

    return putrequest


def _note_unseen(method: str, url: str) -> None:
    """Keep the place of a question to a model that can be neither counted nor changed."""
    row = current_row.get()
    if row is None or is_inside.get() or method != "POST" or dialect_of(urlsplit(url).path) is None:
        return
    if not is_ours():
        row.unseen.append((place_of_call(), library_of_call()))


# --- threads and processes of the program's own ---


def _thread_start(original: Any) -> Any:
    def start(thread: threading.Thread) -> None:
        if current_row.get() is not None or is_carried():
            context, run = copy_context(), thread.run
            note_start(context)
            thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        original(thread)

    return start


def _submit(original: Any) -> Any:
    def submit(pool: ThreadPoolExecutor, function: Any, /, *values: Any, **named: Any) -> Any:
        if current_row.get() is None and not is_carried():
            return original(pool, function, *values, **named)
        context = copy_context()
        note_start(context)
        return original(pool, functools.partial(context.run, function), *values, **named)

    return submit


def _create_task(original: Any) -> Any:
    def create_task(loop: Any, coroutine: Any, *, context: Context | None = None, **named: Any) -> Any:
        if current_row.get() is None:
            return original(loop, coroutine, context=context, **named)
        context = copy_context() if context is None else context
        note_start(context)
        return original(loop, coroutine, context=context, **named)

    return create_task


def _start_process(original: Any) -> Any:
    def start(*values: Any, **named: Any) -> Any:
        row = current_row.get()
        if row is not None and not is_inside.get() and (by := caller_of_process()):
            row.subprocesses.append((place_of_call(), by == "program"))
        return original(*values, **named)

    return start
