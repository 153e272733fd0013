"""The server as it is started, asked over a socket with whatever bytes a stranger may send."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from started_ui import start_ui
from written_runs import begin, propose

from autoprompt.errors import InputError
from autoprompt.runs import RunFolder, RunStore
from autoprompt.web.app import DEFAULT_PORT, HOST, bind

PATIENCE_S = 60


@dataclass
class Served:
    """A server at work over a folder of runs with one run in it."""

    process: subprocess.Popen[str]
    port: int
    run: RunFolder

    def raw(self, request: str, *, is_all: bool = False) -> bytes:
        """What comes back for these bytes. is_all: and the client says that no more will come."""
        with socket.create_connection((HOST, self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(request.encode("latin-1"))
            if is_all:
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def get(self, path: str, host: str = "127.0.0.1") -> bytes:
        return self.raw(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "secret.txt").write_text("hunter2", encoding="utf-8")
    run = begin(RunStore(folder / "runs"))
    process, port = start_ui(folder / "runs")
    yield Served(process, port, run)
    process.kill()
    process.communicate()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..",
        "/runs/../secret.txt",
        "/runs/%2e%2e/secret.txt",
        "/runs/..%2fsecret.txt",
        "/runs/%2e%2e%2fsecret.txt",
        "/runs/%252e%252e%252fsecret.txt",
        "/runs/..\\secret.txt",
        "/runs/....//secret.txt",
        "/../../../../../../etc/passwd",
        "//etc/passwd",
        "/runs//etc/passwd",
        "/runs/%2fetc%2fpasswd",
        "/runs/{run}/../../secret.txt",
        "/runs/{run}/..%2f..%2fsecret.txt",
        "/runs/{run}/result.json",
        "/runs/{run}/run.json",
        "/runs/{run}%00",
        "/runs/{run}/%00",
        "/assets/../pages.py",
        "/assets/..%2fpages.py",
        "/assets/%2fetc%2fpasswd",
        "/compare?run=../secret&run={run}",
        "/compare?run={run}&run=%2fetc%2fpasswd",
        "/.git/config",
    ],
)
def test_no_path_leaves_the_runs(served: Served, path: str) -> None:
    answer = served.get(path.replace("{run}", served.run.run_id))
    assert status(answer) == 404
    assert b"hunter2" not in answer
    assert b"root:" not in answer
    assert b"content-security-policy" in answer


def test_the_run_itself_is_served(served: Served) -> None:
    assert status(served.get(f"/runs/{served.run.run_id}")) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "127.0.0.1@evil"]
)
@pytest.mark.parametrize("path", ["/", "/events", "/news"])
def test_a_foreign_host_is_refused(served: Served, host: str, path: str) -> None:
    answer = served.get(path, host)
    assert status(answer) == 400
    assert served.run.run_id.encode() not in answer


def test_no_host_and_two_hosts_are_refused(served: Served) -> None:
    assert status(served.raw("GET / HTTP/1.0\r\n\r\n")) == 400
    two = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert status(served.raw(two)) == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_writing_is_refused(served: Served, method: str) -> None:
    request = f"{method} / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    assert status(served.raw(request)) == 405


@pytest.mark.parametrize(
    "request_", ["\x16\x03\x01\x02", "GET\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "\r\n" * 9]
)
def test_bytes_that_are_no_request_end_in_an_error_of_theirs(served: Served, request_: str) -> None:
    answer = served.raw(request_, is_all=True)
    assert not answer or status(answer) in (400, 404)
    assert status(served.get("/")) == 200


class Stream:
    """A client of `/events`."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
        self._connection.request("GET", "/events")
        self._answer = self._connection.getresponse()

    def news(self) -> dict[str, str]:
        """The next piece of news."""
        while True:
            line = self._answer.readline().decode()
            assert line, "the stream ended"
            if line.startswith("data: {"):
                found: dict[str, str] = json.loads(line.removeprefix("data: "))
                return found

    def is_ended(self) -> bool:
        """Reads to the end."""
        return self._answer.read() is not None

    def close(self) -> None:
        self._connection.close()


def test_fifty_listeners_are_all_told_and_pages_still_come(served: Served) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(closing(Stream(served.port))) for _ in range(50)]
        assert {stream.news()["topic"] for stream in streams} == {served.run.run_id}
        propose(served.run, "a" * 12, "added: something new")
        for stream in streams:
            assert "something new" in stream.news()["html"]
        assert status(served.get("/")) == 200
        threads = Path(f"/proc/{served.process.pid}/task")
        if threads.exists():
            assert len(list(threads.iterdir())) < 16


def test_ctrl_c_ends_it_at_once_with_listeners_and_without_a_word_of_trouble(tmp_path: Path) -> None:
    begin(RunStore(tmp_path / "runs"))
    process, port = start_ui(tmp_path / "runs")
    with closing(Stream(port)) as stream:
        stream.news()
        process.send_signal(signal.SIGINT)
        assert stream.is_ended()
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "ERROR" not in errors


def test_a_port_that_is_taken_is_named() -> None:
    with closing(bind(0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"port {port} of 127\.0\.0\.1 cannot be used .*another with port"
        ):
            bind(port)


def test_the_usual_port_gives_way_to_the_next() -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(closing(bind(None))) for _ in range(2))
        assert first.getsockname()[1] != second.getsockname()[1]
        for listening in (first, second):
            assert listening.getsockname()[0] == HOST
            assert listening.getsockname()[1] >= DEFAULT_PORT
