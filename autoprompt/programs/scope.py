"""One row at work in a program: its model calls are substituted, counted, paid, kept, and told as steps."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import json
import re
import sys
import threading
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from autoprompt.errors import (
    AutopromptError,
    BudgetExhausted,
    ConfigError,
    EndpointError,
    Interrupted,
    ModelError,
    Place,
    Problem,
    RequestRefusedError,
    StoreError,
)
from autoprompt.llm import portal
from autoprompt.llm.client import Client, Completion, Forward, Options, RawAnswer, ended
from autoprompt.llm.prices import Price, find_price
from autoprompt.llm.transport.address import shown_url
from autoprompt.llm.transport.failures import BrokenAnswerError, from_status, redact
from autoprompt.llm.transport.usage import Exchange, UsageReader
from autoprompt.programs.dialects import Answered, Dialect, Part, Path, read_answer
from autoprompt.programs.kept import ToolResults, key_of
from autoprompt.programs.places import NOWHERE, place_of_tool
from autoprompt.programs.placing import Placed, substituted
from autoprompt.records import Demo, Message, Step, Usage
from autoprompt.text.names import counted

Sent = tuple[int, Mapping[str, str], bytes]  # what came back: its status, headers and content
waiters = portal.Daemons()
current_row: ContextVar[RowScope | None] = ContextVar("autoprompt_row", default=None)
is_inside: ContextVar[bool] = ContextVar("autoprompt_inside_call", default=False)  # a call that is counted

SEEN_CALLS = "Ask models through an SDK on httpx or aiohttp, or through LangChain."
MOST_TRIED_CALLS = 100  # of a row, until it is known how many a row takes

_ROLE_OF: Mapping[str, str] = {"system": "system", "assistant": "assistant"}
_UNKEYED = ("stream", "stream_options", "user", "metadata")  # of a body: they do not change what is answered
# Of a tool's name, a word that says it changes something outside of the program.
_WRITES = re.compile(
    r"(?:^|_)(?:send|post|put|delete|remove|drop|create|insert|update|write|append|save|store|upload|publish"
    r"|pay|refund|charge|transfer|buy|order|book|cancel|notify|email|mail|sms|tweet|deploy|execute|exec|run"
    r"|kill|reset|set|add|submit|move|rename|merge|commit|push)(?:_|$)"
)

# `get_order` reads, whatever it reads.
_READS = re.compile(
    r"(?:get|find|search|look|lookup|list|read|fetch|show|check|query|count|is|has|view|describe|retrieve)(?:_|$)"
)


# What to do about an endpoint, by the code of its error: the program's code names it, and no setting does.
_FIXES: Mapping[str | None, str] = {
    "endpoint.no-answer": "No request was answered so far. Does this client get the base URL of an endpoint "
    "(it usually ends in /v1)?",
    "endpoint.rate-limited": "Resume after that time, or give this client another address or model.",
    "endpoint.speaks-http": "Give this client an address that begins with http.",
    "endpoint.speaks-https": "Give this client an address that begins with https.",
    "endpoint.unreachable": "Is the server running, and does this client get the right address?",
    "endpoint.wrong-address": "Check this client's address and model. Most addresses end in /v1.",
}


class RowEnded(BaseException):
    """Ends a row inside the program: no `except Exception` may make an answer of it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request of the program to a model, before it leaves.

    url: without a key. site: where it comes from: a graph's node or a function. send: sends a body, returns
        status, headers and content. place: of the line that makes it. runs_stubs: whether LangChain makes it.
        It runs the tools that it offers, so stubs work. secret: the key that the request is sent with.
    """

    dialect: Dialect
    url: str
    body: Mapping[str, Any]
    site: str
    send: Callable[[bytes], Sent]
    place: Place = NOWHERE
    runs_stubs: bool = False
    secret: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """Where it goes, with the port and without a password; "" if the address does not say."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as the program meant it, and what came back: what texts are found in.

    names: the components that it was sent with. begun: its rank among the row's requests; None: not known.
    """

    site: str
    parts: tuple[Part, ...]
    answer: Answered
    model: str
    place: Place = NOWHERE
    names: tuple[str, ...] = ()
    begun: int | None = None


@dataclass(frozen=True, slots=True)
class UsedTool:
    """A tool that a program is about to run.

    place: of its code. is_read_only, is_destructive: what it says of itself, as tools of MCP do.
    """

    name: str
    place: Place = NOWHERE
    is_read_only: bool = False
    is_destructive: bool = False

    @property
    def writes(self) -> bool:
        """Whether it changes something outside of the program, by its own word or else by its name."""
        if self.is_destructive or self.is_read_only:
            return self.is_destructive
        plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower().replace("-", "_")
        return _READS.match(plain) is None and _WRITES.search(plain) is not None


@dataclass
class RowScope:
    """The model calls of one row.

    texts: of the candidate, by component. placed: components that are found in requests. demos: turns by
    component. most_calls: a row with more is ended. allow_effects: tools that write may run; else only those
    that stubs stand in for. tool_names: of those that ran. fatal: ends the run. lost: a call failed for good.
    refused: an endpoint refused a request; the program may have coped with it. keys: of the calls in the
    journal. subprocesses: where the row started them, and whether by its own code rather than a package's.
    unseen: where it asked a model through a library that is not hooked, and which. unknown: addresses of
    requests whose form is not known. home: where the program is defined, which is the place of a call that
    none of its own code makes, as in an agent that LangChain builds.
    """

    client: Client
    row_id: str = ""
    tools: ToolResults = field(default_factory=ToolResults)
    texts: Mapping[str, str] = field(default_factory=dict)
    placed: Sequence[Placed] = ()
    demos: Mapping[str, Sequence[Demo]] = field(default_factory=dict)
    uses: list[tuple[str, str]] = field(default_factory=list)
    most_calls: int = MOST_TRIED_CALLS
    allow_effects: bool = False
    stubs: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tool_names: set[str] = field(default_factory=set)
    usage: Usage = Usage()
    waited_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    fatal: BaseException | None = None
    lost: EndpointError | None = None
    refused: RequestRefusedError | None = None
    calls: int = 0
    keys: list[str] = field(default_factory=list)
    subprocesses: list[tuple[Place, bool]] = field(default_factory=list)
    unseen: list[tuple[Place, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    home: Place = NOWHERE
    is_over: bool = False
    is_cut: bool = False
    _counts: Counter[str] = field(default_factory=Counter)
    _tool_counts: Counter[str] = field(default_factory=Counter)
    _begun: list[int] = field(default_factory=list)  # of the steps
    _ranks: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have the calls of the block belong to this row. When it ends, so does the row.

        What runs around the row is not the program's: the node of the search, or of a graph that calls us.
        """
        module = sys.modules.get("langchain_core.runnables.config")
        around = None if module is None else module.var_child_runnable_config
        outer, token = None if around is None else around.set(None), current_row.set(self)
        try:
            yield
        finally:
            self.is_over = True
            current_row.reset(token)
            if around is not None:
                around.reset(outer)

    def begin(self) -> int:
        """Return the rank of a call that begins now."""
        return next(self._ranks)

    def ask(self, call: Call, begun: int | None = None) -> RawAnswer:
        """Return the answer to a call, from journal or cache if it is there.

        begun: its rank, if it began in another thread.

        Raises RowEnded if no call of this row can be answered any more: the program must not go on.
        """
        begun = self.begin() if begun is None else begun
        if self.is_over or self.fatal is not None or self.lost is not None:
            raise RowEnded("the row is over")
        for part in call.dialect.parts(call.body):
            if part.role == "tool":
                self._check_effects(UsedTool(part.name, call.place), runs_stubs=call.runs_stubs)
        changed = substituted(
            call.dialect,
            call.site,
            call.body,
            placed=self.placed,
            texts=self.texts,
            demos=self.demos,
            uses=self.uses,
        )
        parts, names, body = changed.parts, changed.names, changed.body
        sent = tuple(call.dialect.parts(body))
        messages = [Message(_ROLE_OF.get(part.role, "user"), part.text) for part in sent]  # type: ignore[arg-type]
        digest = self._digest(call, body)
        with self._lock:
            self.calls += 1
            sample = self._counts[digest]
            self._counts[digest] += 1
            if self.calls > self.most_calls:
                said = f"the row made more than {counted(self.most_calls, 'call')} to models"
                self.lost, self.is_over = EndpointError(Problem("program.runaway", said)), True
                raise RowEnded(said)
        limit = _limit(call.dialect, body)
        options = Options(
            role="task",
            max_output_tokens=limit,
            is_limit_given=limit is not None,
            sample=sample,
            forward=Forward(digest, functools.partial(_sent, call, body, messages), _runs_loop(), call.host),
        )
        try:
            answer = self.client.complete(messages, options)
        except (BudgetExhausted, Interrupted, ModelError, StoreError) as error:
            self._explain(error, call)
            return self._failed(error, Step(call.site, names, _last_question(parts), "", str(error)), begun)
        self._note(call, parts, names, answer, begun, can_demo=changed.can_demo)
        if answer.raw is None:
            raise TypeError("the client of a program's calls must return whole answers")
        return answer.raw

    async def ask_from_loop(
        self,
        call_of: Callable[[Callable[[bytes], Sent]], Call],
        send: Callable[[bytes], Coroutine[Any, Any, Sent]],
    ) -> RawAnswer:
        """Do what `ask` does, for code on an event loop: a thread waits for the answer, and the loop sends.

        call_of: Returns the call, from what sends a body.
        """
        loop = asyncio.get_running_loop()
        call = call_of(lambda content: asyncio.run_coroutine_threadsafe(send(content), loop).result())
        ask = functools.partial(copy_context().run, self.ask, call, self.begin())
        return await loop.run_in_executor(waiters, ask)

    def _explain(self, error: AutopromptError, call: Call) -> None:
        """Have an error of an endpoint say where the program asks it, and advise what helps there."""
        place, told = self.home if call.place == NOWHERE else call.place, []
        for problem in error.problems:
            if problem.code in _FIXES:
                problem = replace(problem, place=place, fix=_FIXES[problem.code], settings={})
            elif problem.code == "program.changed":
                problem = problem.at(place)
            told.append(problem)
        error.problems = tuple(told)

    def _failed(self, error: AutopromptError, step: Step, begun: int) -> RawAnswer:
        """Return what the program's library gets for a call that failed, if the row can go on.

        A refused request may be another one next, such as a shorter one. Anything else that is not fatal has
        been tried again already.
        """
        with self._lock:
            self._add(step, begun)
            if isinstance(error, ModelError) and error.key:
                self.keys.append(error.key)
            if isinstance(error, RequestRefusedError):
                self.refused = error
                return _refusal(error.status or 400, str(error))
            if isinstance(error, EndpointError) and not error.is_fatal:
                self.lost = error
                return _refusal(500, str(error))
            self.fatal = error
        raise RowEnded(str(error)) from error

    def _add(self, step: Step, begun: int) -> None:
        """Keep a step in the order in which calls began: which answer comes first is chance."""
        place = bisect(self._begun, begun)
        self._begun.insert(place, begun)
        self.steps.insert(place, step)

    def hidden(self) -> Problem | None:
        """Return what is wrong with a row that made its calls where they are not seen, if it did."""
        if self.calls or not (self.unseen or self.subprocesses):
            return None
        if self.unseen:
            place, library = self.unseen[0]
            said = f"the program calls a model through {library} here, which autoprompt does not see"
            return Problem("program.unseen-only", said, place, SEEN_CALLS)
        said = "the program starts a subprocess here, and autoprompt sees no call to a model"
        fix = "Ask the model in this process: autoprompt does not see the requests of others."
        return Problem("program.subprocess-only", said, self.subprocesses[0][0], fix)

    def tool_key(self, tool: UsedTool, arguments: Any) -> str:
        """Return the key of a tool's call, which is counted.

        Raises RowEnded for a tool that writes and may not run.
        """
        if self.is_over or self.fatal is not None:
            raise RowEnded("the row is over")
        self._check_effects(tool)
        with self._lock:
            self.tool_names.add(tool.name)
            return key_of(self.row_id, tool.name, arguments, self._tool_counts)

    def _check_effects(self, tool: UsedTool, *, runs_stubs: bool = True) -> None:
        if self.allow_effects or (tool.name in self.stubs and runs_stubs) or not tool.writes:
            return
        said = f"the tool {tool.name!r} seems to change something outside of the program"
        fix = "Allow it with {allow_effects}, or put a function of this name into a file and pass {tools}."
        settings: dict[str, object] = {"allow_effects": True, "tools": "<FILE>"}
        if not runs_stubs:  # the program runs its tools by itself: a stub would not
            fix, settings = "Allow it with {allow_effects}.", {"allow_effects": True}
        place = place_of_tool(tool.name) if tool.place == NOWHERE else tool.place
        self.fatal = ConfigError(Problem("program.effects", said, place, fix, settings))
        raise RowEnded(said)

    def _digest(self, call: Call, body: Mapping[str, Any]) -> str:
        keyed = {name: value for name, value in body.items() if name not in _UNKEYED}
        text = json.dumps([call.url, bool(body.get("stream")), keyed], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _note(
        self,
        call: Call,
        parts: tuple[Part, ...],
        names: tuple[str, ...],
        answer: Completion,
        begun: int,
        *,
        can_demo: bool,
    ) -> None:
        said = answer.text
        if not said and answer.tool_calls:
            said = json.dumps([[c.name, c.arguments] for c in answer.tool_calls])
        with self._lock:
            self.usage += answer.usage
            self.waited_s += answer.latency_s
            if answer.key:
                self.keys.append(answer.key)
            self.is_cut = answer.is_cut
            can_demo = can_demo and bool(answer.text.strip())
            asked = _last_question(parts)
            step = Step(call.site, names, asked, said, None, can_demo, answer.tool_calls, "code")
            self._add(step, begun)
            answered = Answered(answer.text, answer.tool_calls)
            place = self.home if call.place == NOWHERE else call.place
            self.seen.append(Seen(call.site, parts, answered, answer.model, place, names, begun))


def _runs_loop() -> bool:
    """Return whether an event loop runs in this thread, as around a blocking SDK in `async def`."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


def _last_question(parts: Sequence[Part]) -> str:
    users = [part.text for part in parts if part.role in ("user", "result")]
    return users[-1] if users else ""


def _at(body: Mapping[str, Any], path: Path) -> Any:
    place: Any = body
    for step in path:
        place = place.get(step) if isinstance(place, Mapping) else None
    return place


def _limit(dialect: Dialect, body: Mapping[str, Any]) -> int | None:
    """Return the most tokens that a body allows for the answer; None if it has no limit."""
    found = (_at(body, path) for path in dialect.limits)
    return next((limit for limit in found if isinstance(limit, int)), None)


def _with_limit(dialect: Dialect, body: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    """Return a body whose answer has at most so many tokens, if a limit on the budget says so."""
    changed, has = dict(body), _limit(dialect, body)
    if most is None or (has is not None and has <= most):
        return changed
    path = next((p for p in dialect.limits if _at(body, p) is not None), dialect.limits[0])
    outer, *inner = map(str, path)
    changed[outer] = {**(body.get(outer) or {}), inner[0]: most} if inner else most
    return changed


def _sent(
    call: Call, body: Mapping[str, Any], messages: Sequence[Message], most: int | None, usage_of: UsageReader
) -> Completion:
    """Send a call once. Raises errors of the ModelError family. most: tokens of the answer."""
    if call.dialect.name == "chat completions" and body.get("stream"):
        body = {**body, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}
    limited = _with_limit(call.dialect, body, most)
    begun, token = time.perf_counter(), is_inside.set(True)
    try:
        status, headers, content = call.send(json.dumps(limited, ensure_ascii=False).encode())
    finally:
        is_inside.reset(token)
    latency_s = time.perf_counter() - begun
    text = content.decode("utf-8", errors="replace")
    if not 200 <= status < 300:
        key_name = "the key that the program gives its client"
        raise from_status(
            status, headers, text, url=call.url, api_key=call.secret, sent={}, key_name=key_name
        )
    try:
        answered = read_answer(call.dialect, content)
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        begins = redact(text.strip(), call.url, call.secret)[:100]
        said = f"the answer has an unknown form: {begins!r}"
        if isinstance(error, json.JSONDecodeError):
            said = f"the answer is not JSON: {begins!r}"
        elif isinstance(error, ValueError):
            said = str(error)
        raise BrokenAnswerError(f"{shown_url(call.url)}: {said}") from error
    exchange = Exchange(messages, answered.text, _limit(call.dialect, body))
    usage = usage_of.read(answered.counted, exchange)
    model = answered.model or str(body.get("model") or "")
    if usage.billed_usd is None:
        price = _price(model, call.url)
        usage = replace(usage, cost_usd=None if price is None else price.cost(usage))
    return Completion(
        answered.text,
        usage,
        finish_reason=ended(answered.finish_reason),
        model=model,
        latency_s=latency_s,
        tool_calls=answered.tool_calls,
        raw=RawAnswer(status, headers.get("content-type", "application/json"), text),
        host=call.host,
    )


@lru_cache(maxsize=256)
def _price(model: str, url: str) -> Price | None:
    """Return the table's price of a model at an endpoint.

    Looking it up takes as long as building a request.
    """
    return find_price(model, url) if model else None


def _refusal(status: int, said: str) -> RawAnswer:
    """Return what the program's library gets for a request that failed: an error that it does not retry."""
    body = json.dumps({"error": {"message": said, "type": "autoprompt"}})
    return RawAnswer(status, "application/json", body)
