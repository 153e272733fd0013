"""Each way in which programs call models: counted, attributed, and answered from what is kept."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from desk_model import desk_config, write_tickets
from desk_model import reply_to as chat_reply
from fake_endpoint import FakeEndpoint, Reply, error, fake_endpoint
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI

import autoprompt

SUMMARIZE = "Say in a line what the ticket is about."
ROUTE = "Route the ticket to billing, tech or sales."


def turns(system: str, text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": f"Ticket: {text}"}]


def settings() -> dict[str, Any]:
    return {"base_url": os.environ["DESK_URL"], "api_key": "key"}


def streamed(text: str) -> str:
    def ask(system: str) -> str:
        with OpenAI(**settings()) as client:
            chunks = client.chat.completions.create(model="m", messages=turns(system, text), stream=True)  # type: ignore[call-overload]
            return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)

    ask(SUMMARIZE)
    return ask(ROUTE)


def in_threads(text: str) -> str:
    def ask(system: str) -> str:
        with OpenAI(**settings()) as client:
            reply = client.chat.completions.create(model="m", messages=turns(system, text))  # type: ignore[arg-type]
            return reply.choices[0].message.content or ""

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(ask, (SUMMARIZE, ROUTE)))[1]


async def gathered(text: str) -> str:
    async with AsyncOpenAI(**settings()) as client:

        async def ask(system: str) -> str:
            reply = await client.chat.completions.create(model="m", messages=turns(system, text))  # type: ignore[arg-type]
            return reply.choices[0].message.content or ""

        return (await asyncio.gather(ask(SUMMARIZE), ask(ROUTE)))[1]


async def langchain_astream(text: str) -> str:
    async def ask(system: str) -> str:
        llm = ChatOpenAI(model="m", **settings())
        return "".join([str(chunk.content) async for chunk in llm.astream(turns(system, text))])

    await ask(SUMMARIZE)
    return await ask(ROUTE)


def langchain_stream(text: str) -> str:
    def ask(system: str) -> str:
        llm = ChatOpenAI(model="m", **settings())
        return "".join(str(chunk.content) for chunk in llm.stream(turns(system, text)))

    ask(SUMMARIZE)
    return ask(ROUTE)


def anthropic_wire(text: str) -> str:
    def ask(system: str) -> str:
        body = {"model": "m", "max_tokens": 50, "system": system, "messages": turns("", text)[1:]}
        reply = httpx.post(f"{os.environ['DESK_URL']}/messages", json=body, headers={"x-api-key": "key"})
        reply.raise_for_status()
        return str(reply.json()["content"][0]["text"])

    ask(SUMMARIZE)
    return ask(ROUTE)


def anthropic_settings() -> dict[str, Any]:
    return {"base_url": os.environ["DESK_URL"].removesuffix("/v1"), "api_key": "key"}


def message(system: str, text: str) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 50, "system": system, "messages": turns("", text)[1:]}


def anthropic_sdk(text: str) -> str:
    def ask(system: str) -> str:
        with pytest.importorskip("anthropic").Anthropic(**anthropic_settings()) as client:
            return str(client.messages.create(**message(system, text)).content[0].text)

    ask(SUMMARIZE)
    return ask(ROUTE)


async def anthropic_async(text: str) -> str:
    async def ask(system: str) -> str:
        async with pytest.importorskip("anthropic").AsyncAnthropic(**anthropic_settings()) as client:
            return str((await client.messages.create(**message(system, text))).content[0].text)

    return (await asyncio.gather(ask(SUMMARIZE), ask(ROUTE)))[1]


def anthropic_stream(text: str) -> str:
    def ask(system: str) -> str:
        with (
            pytest.importorskip("anthropic").Anthropic(**anthropic_settings()) as client,
            client.messages.stream(**message(system, text)) as stream,
        ):
            return "".join(stream.text_stream)

    ask(SUMMARIZE)
    return ask(ROUTE)


async def anthropic_async_stream(text: str) -> str:
    async def ask(system: str) -> str:
        async with (
            pytest.importorskip("anthropic").AsyncAnthropic(**anthropic_settings()) as client,
            client.messages.stream(**message(system, text)) as stream,
        ):
            return "".join([piece async for piece in stream.text_stream])

    await ask(SUMMARIZE)
    return await ask(ROUTE)


async def with_aiohttp(text: str) -> str:
    """Reads one answer as a whole, and the other one line by line, as Google's SDK does."""
    address = f"{os.environ['DESK_URL']}/chat/completions"
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer key"}) as session:
        async with session.post(address, json={"model": "m", "messages": turns(SUMMARIZE, text)}) as whole:
            assert whole.status == 200
            assert (await whole.json())["choices"]
        body = {"model": "m", "messages": turns(ROUTE, text), "stream": True}
        reply = await session.request(
            "post", address, data=json.dumps(body).encode(), headers={"content-type": "application/json"}
        )
        reply.raise_for_status()
        said = [line.decode().removeprefix("data: ").strip() async for line in reply.content]
    chunks = [json.loads(line) for line in said if line.startswith("{")]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


class LocalModel(BaseChatModel):
    """A model that speaks no HTTP: it asks the fake's function, and counts."""

    asked: list[str]

    @property
    def _llm_type(self) -> str:
        return "local"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        said = [{"role": {"human": "user"}.get(m.type, m.type), "content": m.content} for m in messages]
        self.asked.append(str(said[0]["content"]))
        text = chat_reply({"model": "m", "messages": said}).body["choices"][0]["message"]["content"]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


LOCAL = LocalModel(asked=[])


def without_http(text: str) -> str:
    def ask(system: str) -> str:
        return str(LOCAL.invoke(turns(system, text)).content)

    ask(SUMMARIZE)
    return ask(ROUTE)


def reply_to(body: dict[str, Any]) -> Reply:
    """The desk's model, in Anthropic's words too."""
    if "system" not in body:
        return chat_reply(body)
    system = {"role": "system", "content": body["system"]}
    whole = chat_reply({"model": body["model"], "messages": [system, *body["messages"]]})
    said = whole.body["choices"][0]["message"]["content"]
    head = {"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage, block = {"input_tokens": 11, "output_tokens": 3}, {"type": "text", "text": said}
    if not body.get("stream"):
        return Reply(body={**head, "content": [block], "stop_reason": "end_turn", "usage": usage})
    begun = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    pieces = re.findall(r"\S+\s*", said)
    deltas = [{"index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces]
    events = [
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": {**block, "text": ""}}),
        *(("content_block_delta", delta) for delta in deltas),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
        ("message_stop", {}),
    ]
    lines = [f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events]
    return Reply(body="".join(lines), headers={"Content-Type": "text/event-stream"})


PROGRAMS: dict[str, Callable[[str], Any]] = {
    function.__name__: function
    for function in (
        streamed,
        in_threads,
        gathered,
        langchain_astream,
        langchain_stream,
        anthropic_wire,
        anthropic_sdk,
        anthropic_async,
        anthropic_stream,
        anthropic_async_stream,
        without_http,
        with_aiohttp,
    )
}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with fake_endpoint(reply_to) as found:
        monkeypatch.setenv("DESK_URL", found.base_url)
        yield found


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_is_counted_and_belongs_to_a_component(
    name: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    LOCAL.asked.clear()
    rows = 24
    config = desk_config(tmp_path, no_cache=False, cache_dir=tmp_path / "cache")
    write_tickets(tmp_path / "tickets.jsonl", rows)
    first = autoprompt.evaluate(config, program=PROGRAMS[name])
    sent = len(endpoint.requests) + len(LOCAL.asked)
    assert sent == 2 * rows
    # With what the trial asked, which is kept, and requests whose connection broke.
    assert sent <= first.calls <= sent + 30
    again = autoprompt.evaluate(config, program=PROGRAMS[name])
    assert len(endpoint.requests) + len(LOCAL.asked) == sent
    assert again.score == first.score
    for row in first.evaluation.rows:
        assert [len(step.components) >= 1 for step in row.trace] == [True, True]
        named = {
            name for step in row.trace for name in step.components if name.rpartition(".")[2][:6] == "system"
        }
        assert len(named) == 2  # one for each text


@pytest.mark.parametrize("name", ["without_http", "anthropic_sdk", "in_threads"])
def test_demonstrations_are_turns_that_its_model_understands(
    name: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    config = desk_config(tmp_path, max_demos=4, max_calls=500)
    result = autoprompt.optimize(config, program=PROGRAMS[name])
    folder = Path(result.run_dir)
    read = [json.loads(line) for line in (folder / "candidates.jsonl").read_text("utf-8").splitlines()]
    with_demos = {candidate["id"] for candidate in read if candidate["demos"]}
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]
    assert sum(row["candidate"] in with_demos for row in rows) >= 16  # it holds no row that failed
    assert '"failed"' not in (folder / "journal.jsonl").read_text("utf-8")


def test_an_error_of_the_endpoint_reaches_a_program_on_aiohttp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused request is the program's to cope with: it asks again with less."""

    async def copes(text: str) -> str:
        address = f"{os.environ['DESK_URL']}/chat/completions"
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            for said in (f"{text} {'x' * 100}", text):
                try:
                    body = {"model": "m", "messages": turns(ROUTE, said)}
                    async with session.post(address, json=body) as reply:
                        return str((await reply.json())["choices"][0]["message"]["content"])
                except aiohttp.ClientResponseError as refused:
                    statuses.add(refused.status)
        raise AssertionError

    def reply(body: dict[str, Any]) -> Reply:
        is_long = "x" * 100 in body["messages"][-1]["content"]
        return error(400, "the request is too long") if is_long else reply_to(body)

    statuses: set[int] = set()
    with fake_endpoint(reply) as found:
        monkeypatch.setenv("DESK_URL", found.base_url)
        report = autoprompt.evaluate(desk_config(tmp_path), program=copes)
    assert (report.failed, statuses) == (0, {400})
    assert {row.prediction for row in report.evaluation.rows} <= {"billing", "tech", "sales"}


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (None, "reports no token counts: autoprompt estimates tokens, and cost from them."),
        ({"prompt_tokens": -5, "completion_tokens": 3}, "reports usage.prompt_tokens = -5"),
    ],
)
def test_counts_that_its_endpoint_leaves_out_or_gets_wrong_are_a_warning(
    usage: dict[str, int] | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        answered = reply_to(body)
        return Reply(body={**answered.body, "usage": usage})

    with fake_endpoint(reply) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        report = autoprompt.evaluate(desk_config(tmp_path), program=in_threads)
    found = [str(warning) for warning in report.warnings]
    assert [text for text in found if text.startswith(f"the program's endpoint {said}")]


def test_calls_that_other_libraries_make_are_a_warning(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    def half_seen(text: str) -> str:
        body = json.dumps({"model": "m", "messages": turns(SUMMARIZE, text)}).encode()
        urllib.request.urlopen(
            urllib.request.Request(f"{os.environ['DESK_URL']}/chat/completions", body)
        ).close()
        with OpenAI(**settings()) as client:
            reply = client.chat.completions.create(model="m", messages=turns(ROUTE, text))  # type: ignore[arg-type]
            return reply.choices[0].message.content or ""

    report = autoprompt.evaluate(desk_config(tmp_path), program=half_seen)
    (warning,) = [problem for problem in report.warnings if problem.code == "program.unseen"]
    assert warning.said.startswith("the program calls a model through urllib here")
    assert (warning.place.file, warning.place.line) == (Path(__file__), half_seen.__code__.co_firstlineno + 2)


async def in_a_comprehension(text: str) -> str:
    async with AsyncOpenAI(**settings()) as client:

        async def ask(system: str) -> str:
            created = client.chat.completions.create
            replies = [await created(model="m", messages=turns(system, text)) for _ in range(1)]  # type: ignore[arg-type]
            return replies[0].choices[0].message.content or ""

        await ask(SUMMARIZE)
        return await ask(ROUTE)


def test_a_call_in_a_comprehension_is_its_functions(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    config = desk_config(tmp_path)
    write_tickets(tmp_path / "tickets.jsonl", 12)
    found = autoprompt.evaluate(config, program=in_a_comprehension)
    assert {step.node for row in found.evaluation.rows for step in row.trace} == {"ask"}


async def half_blocking(text: str) -> str:
    """Blocks its event loop with one call while another one, which needs the loop, is on its way."""
    url = f"{os.environ['DESK_URL']}/chat/completions"

    async def blocking() -> str:
        reply = httpx.post(url, json={"model": "m", "messages": turns(ROUTE, text)})
        return str(reply.json()["choices"][0]["message"]["content"])

    async with httpx.AsyncClient() as client:
        other = client.post(url, json={"model": "m", "messages": turns(SUMMARIZE, text)})
        return (await asyncio.gather(other, blocking()))[1]


@pytest.mark.parametrize("caps", [{}, {"max_tokens": 5_000}], ids=["places", "tokens"])
def test_a_call_that_blocks_the_loop_waits_for_none_that_needs_it(
    caps: dict[str, int], tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    config = desk_config(tmp_path, concurrency=1, no_cache=False, cache_dir=tmp_path / "cache", **caps)
    write_tickets(tmp_path / "tickets.jsonl", 12)
    stuck_after_s = 20  # only ends a test that fails
    program = autoprompt.Program(half_blocking, row_seconds=stuck_after_s)
    assert autoprompt.evaluate(config, program=program).failed == 0
    assert len(endpoint.requests) == 2 * 12


def calls_of(text: str) -> int:
    return 2 + sha256(text.encode()).digest()[0] % 8


def careless(text: str) -> str:
    """Two to nine calls, the SDK's own retries, and an answer whatever happens."""
    try:
        with OpenAI(**settings(), max_retries=5) as client:
            said = ""
            for system in (*[SUMMARIZE] * (calls_of(text) - 1), ROUTE):
                reply = client.chat.completions.create(model="m", messages=turns(system, text))  # type: ignore[arg-type]
                said = reply.choices[0].message.content or ""
            return said
    except Exception:  # noqa: BLE001 - as careless programs do
        return "tech"


def test_a_cap_holds_at_the_endpoint_and_a_row_that_was_refused_calls_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, served = threading.Lock(), itertools.count(1)

    def failing(body: dict[str, Any]) -> Reply:
        with lock:
            n = next(served)
        if n % 10 == 0:
            return error(500)
        return error(429, headers={"Retry-After": "0.01"}) if n % 20 == 5 else reply_to(body)

    with fake_endpoint(failing) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        result = autoprompt.optimize(desk_config(tmp_path, max_calls=300), program=careless)
    assert 100 < len(endpoint.requests) <= result.to_dict()["calls"] <= 300
    assert "by the limit of 300 calls" in " ".join(map(str, result.warnings))
    for path in Path(result.run_dir).glob("predictions/*.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            if not row.get("error"):
                assert len(row["trace"]) >= calls_of(row["input"]), row
