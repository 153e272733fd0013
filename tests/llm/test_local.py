from __future__ import annotations

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import httpx
import pytest

from autoprompt.errors import ConfigError, RuntimeMissingError
from autoprompt.llm import local


class FakeServer:
    """As much of `xllamacpp.Server` as is used: it answers with its key and ends when it is let go."""

    started: list[FakeServer] = []  # noqa: RUF012

    def __init__(self, settings: SimpleNamespace) -> None:
        if Path(settings.model.path).read_bytes() != b"GGUF":
            raise RuntimeError("Failed to init server, please check the input params.")
        self.settings = settings
        self.is_asked, self.may_answer = Event(), Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_known = self.headers.get("Authorization") == f"Bearer {settings.api_keys[0]}"
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                fake.is_asked.set()
                fake.may_answer.wait(10)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer((settings.hostnames[0], settings.port), Handler)
        self.listening_address = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        FakeServer.started.append(self)

    def end(self) -> None:
        self.may_answer.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeServer]]:
    settings = lambda: SimpleNamespace(  # noqa: E731
        model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    )
    attention = SimpleNamespace(LLAMA_FLASH_ATTN_TYPE_DISABLED=0)
    fake = SimpleNamespace(Server=FakeServer, CommonParams=settings, llama_flash_attn_type=attention)
    monkeypatch.setitem(sys.modules, "xllamacpp", fake)
    yield FakeServer.started
    for server in FakeServer.started:
        server.end()
    FakeServer.started.clear()


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


def test_equal_models_share_one_server_until_the_last_is_closed(
    runtime: list[FakeServer], model: str
) -> None:
    first, second = local.start(model), local.start(model)
    assert first.base_url == second.base_url
    assert len(runtime) == 1
    first.close()
    first.close()
    third = local.start(model)
    assert third.base_url == second.base_url
    second.close()
    third.close()
    fourth = local.start(model)
    assert len(runtime) == 2
    assert fourth.api_key != first.api_key
    fourth.close()


def test_it_listens_on_the_loopback_and_wants_its_key(runtime: list[FakeServer], model: str) -> None:
    server = local.start(model, context_tokens=512, threads=3)
    settings = runtime[0].settings
    assert (settings.n_ctx, settings.cpuparams.n_threads, settings.n_parallel) == (512, 3, 1)
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server.base_url.endswith("/v1")
    assert httpx.get(server.base_url).status_code == 401
    assert server.api_key not in repr(server)
    server.close()


def test_closing_cuts_requests_in_flight(runtime: list[FakeServer], model: str) -> None:
    server = local.start(model)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            httpx.post(f"{server.base_url}/chat/completions", timeout=10)
        except httpx.HTTPError as error:
            errors.append(error)

    thread = Thread(target=ask)
    thread.start()
    assert runtime[0].is_asked.wait(10)
    server.close()
    thread.join(5)
    assert not runtime[0].may_answer.is_set()
    assert isinstance(errors[0], httpx.TransportError)


def test_the_identity_of_an_own_file_changes_with_it(runtime: list[FakeServer], model: str) -> None:
    first = local.start(model)
    first.close()
    Path(model).unlink()
    Path(model).write_bytes(b"GGUF")
    second = local.start(model)
    second.close()
    assert first.identity != second.identity


def test_without_the_runtime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(RuntimeMissingError, match=r"install -e .*\[local\]'?; or set model and base_url\."):
        local.start()


def test_a_file_that_is_no_model_is_named(runtime: list[FakeServer], tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(RuntimeMissingError, match=r"broken\.gguf: llama\.cpp cannot load this file"):
        local.start(str(broken))


def test_an_unknown_model_is_a_matter_of_settings(runtime: list[FakeServer]) -> None:
    with pytest.raises(ConfigError, match="no embedded model 'qwen3'"):
        local.start("qwen3")


def test_at_least_one_core_is_used() -> None:
    assert local.usable_cores() >= 1


@pytest.mark.live
def test_the_real_runtime_answers_and_ends() -> None:
    server = local.start("smollm2-135m", context_tokens=1024)
    request = {"messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 4, "temperature": 0}
    headers = {"Authorization": f"Bearer {server.api_key}"}
    answer = httpx.post(f"{server.base_url}/chat/completions", headers=headers, json=request, timeout=60)
    assert answer.json()["usage"]["completion_tokens"] > 0
    server.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.base_url)


@pytest.mark.parametrize(
    ("processor", "runtime", "unused"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512dq", "AVX2 = 1 | FMA = 1", "AVX-512"),
        ("flags\t\t: fpu avx2 avx512f avx512dq", "AVX2 = 1 | AVX512 = 1", ""),
        ("flags\t\t: fpu avx2", "AVX2 = 1 | FMA = 1", ""),
        ("model name\t: a chip with avx512f\nflags\t\t: fpu", "AVX2 = 1", ""),
        (None, "AVX2 = 1", ""),
    ],
)
def test_what_the_processor_has_and_the_runtime_leaves(
    processor: str | None, runtime: str, unused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if processor is not None:
        file.write_text(f"processor\t: 0\n{processor}\n")
    monkeypatch.setattr(local, "_CPU_INFO", file)
    monkeypatch.setitem(sys.modules, "xllamacpp", SimpleNamespace(get_system_info=lambda: runtime))
    assert local.unused_instructions() == unused
