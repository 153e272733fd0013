"""Requests that a workflow sends: what goes to another origin, and how long the whole answer may take."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from autoprompt.workflow import NodeError, RunSettings, Workflow
from autoprompt.workflow.engine.errors import AddressRefusedError, HttpError
from autoprompt.workflow.engine.events import WorkflowWarning
from autoprompt.workflow.engine.http_call import HttpRequest, send

LOCAL = ("127.0.0.1", "localhost")
KEYS = {
    "X-Api-Key": "secret-1",
    "Authorization": "Bearer secret-2",
    "Cookie": "session=secret-3",
    "Proxy-Authorization": "Basic secret-4",
    "My-Own": "secret-5",
}


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: str

    @property
    def has_secret(self) -> bool:
        return "secret" in f"{self.path} {self.headers} {self.body}"


@dataclass
class Origin:
    """An HTTP server. answers: path -> status and headers; any other path is 200."""

    answers: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def redirects(self, path: str, status: int, target: str, **headers: str) -> None:
        self.answers[path] = status, {"Location": target, **headers}


@contextmanager
def origin() -> Iterator[Origin]:
    found = Origin()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            found.received.append(Received(self.command, self.path, dict(self.headers), body))
            status, headers = found.answers.get(self.path.partition("?")[0], (200, {}))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self._answer
            raise AttributeError(name)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def first() -> Iterator[Origin]:
    with origin() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Origin]:
    with origin() as found:
        yield found


# --- redirects ---


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_header_of_the_file_goes_to_another_origin(first: Origin, other: Origin, status: int) -> None:
    first.redirects("/a", status, f"{other.url}/b")
    assert send(HttpRequest("GET", f"{first.url}/a", KEYS), LOCAL).status == 200
    assert (first.received[0].has_secret, other.received[0].has_secret) == (True, False)


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_asks_for_a_page_takes_no_body_along(
    first: Origin, other: Origin, status: int
) -> None:
    first.redirects("/a", status, f"{other.url}/b")
    send(HttpRequest("POST", f"{first.url}/a", KEYS, content='{"text": "secret"}'), LOCAL)
    (got,) = other.received
    assert (got.method, got.body, got.has_secret) == ("GET", "", False)
    assert not {"content-type", "content-length"} & {name.lower() for name in got.headers}


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    "body",
    [
        {"content": "secret"},
        {"form": {"text": "secret"}},
        {"form": {"text": "secret"}, "is_multipart": True},
    ],
    ids=["text", "form", "multipart"],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_body_that_would_go_to_another_origin_ends_the_request(
    first: Origin, other: Origin, status: int, body: dict[str, Any], method: str
) -> None:
    first.redirects("/a", status, f"{other.url}/b")
    with pytest.raises(HttpError, match=rf"{status}, a redirect to {other.url}, another origin: the body is"):
        send(HttpRequest(method, f"{first.url}/a", **body), LOCAL)
    assert other.received == []


def test_another_name_of_the_same_server_is_another_origin(first: Origin) -> None:
    first.redirects("/a", 302, f"http://localhost:{first.port}/b")
    send(HttpRequest("GET", f"{first.url}/a", KEYS), LOCAL)
    assert [got.has_secret for got in first.received] == [True, False]


def test_an_address_without_a_scheme_is_another_origin(first: Origin, other: Origin) -> None:
    first.redirects("/a", 302, f"//127.0.0.1:{other.port}/b")
    send(HttpRequest("GET", f"{first.url}/a", KEYS), LOCAL)
    assert not other.received[0].has_secret


def test_what_was_left_out_once_does_not_come_back(first: Origin, other: Origin) -> None:
    first.redirects("/a", 302, f"{other.url}/b")
    other.redirects("/b", 302, f"{first.url}/c")
    send(HttpRequest("GET", f"{first.url}/a", KEYS), LOCAL)
    assert [got.has_secret for got in first.received] == [True, False]


def test_a_second_redirect_to_another_origin_is_looked_at_too(first: Origin, other: Origin) -> None:
    first.redirects("/a", 307, "/b")
    first.redirects("/b", 307, f"{other.url}/c")
    send(HttpRequest("GET", f"{first.url}/a", KEYS), LOCAL)
    assert [got.has_secret for got in first.received] == [True, True]
    assert not other.received[0].has_secret


def test_cookies_of_an_answer_stay_at_its_origin(first: Origin, other: Origin) -> None:
    first.redirects("/a", 302, "/b", **{"Set-Cookie": "session=secret"})
    first.redirects("/b", 302, f"{other.url}/c")
    send(HttpRequest("GET", f"{first.url}/a"), LOCAL)
    assert [got.has_secret for got in first.received] == [False, True]
    assert not other.received[0].has_secret


def test_a_password_in_the_address_stays_at_its_origin(first: Origin, other: Origin) -> None:
    first.redirects("/a", 302, f"{other.url}/b")
    send(HttpRequest("GET", f"http://me:secret@127.0.0.1:{first.port}/a"), LOCAL)
    assert "Authorization" in first.received[0].headers
    assert "Authorization" not in other.received[0].headers


@pytest.mark.parametrize("target", ["/b", "b", "?c=1", "//127.0.0.1:{port}/b", "http://127.0.0.1:{port}/b"])
def test_a_redirect_at_the_same_origin_takes_all_along(first: Origin, target: str) -> None:
    first.answers["/x/a"] = 307, {"Location": target.format(port=first.port)}
    sent = HttpRequest("POST", f"{first.url}/x/a", KEYS, content="secret")
    if target.startswith("?"):  # the same path again, and so on
        with pytest.raises(HttpError, match="more than 20 redirects"):
            send(sent, LOCAL)
    else:
        send(sent, LOCAL)
    assert (first.received[1].body, first.received[1].headers["X-Api-Key"]) == ("secret", "secret-1")


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:1/", "data:,x", "http://", "http://[::1/"],
)
def test_a_redirect_to_no_web_address_fails(first: Origin, target: str) -> None:
    first.redirects("/a", 302, target)
    with pytest.raises(HttpError):
        send(HttpRequest("GET", f"{first.url}/a"), LOCAL)
    assert len(first.received) == 1


@pytest.mark.parametrize(
    "host",
    ["[::1]", "127.0.0.1", "169.254.169.254", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]", "localhost"],
)
def test_a_redirect_to_a_private_address_is_refused(first: Origin, other: Origin, host: str) -> None:
    first.redirects("/a", 302, f"http://{host}:{other.port}/b")
    with pytest.raises(AddressRefusedError, match="local or private address"):
        send(HttpRequest("GET", f"{first.url}/a"), [f"127.0.0.1:{first.port}"])
    assert other.received == []


def test_a_tool_and_a_node_send_no_key_on(
    first: Origin, other: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOK_KEY", "secret")
    first.redirects("/a", 302, f"{other.url}/b")
    headers = {"X-Api-Key": "${LOOK_KEY}"}
    tools = {"look": {"url": f"{first.url}/a", "headers": headers, "parameters": {"q": "string"}}}
    key = {"type": "api-key", "config": {"type": "custom", "header": "X-Api-Key", "api_key": "secret"}}
    nodes = [
        {"id": "t", "type": "tool", "data": {"tool_name": "look", "tool_parameters": {"q": "secret"}}},
        {"id": "h", "type": "http-request", "data": {"url": f"{first.url}/a", "authorization": key}},
    ]
    workflow = Workflow.load({"tools": tools, "nodes": nodes})
    assert workflow.run({}, settings=RunSettings(allow_private_hosts=LOCAL))["status_code"] == 200
    assert [got.has_secret for got in first.received] == [True, True]
    assert [got.has_secret for got in other.received] == [False, False]


def test_what_came_of_it_is_told(first: Origin, other: Origin) -> None:
    """Often a redirect from http to https, where the key is missed."""
    first.redirects("/a", 302, f"{other.url}/b")
    other.answers["/b"] = 401, {}
    note = f"answered 401 by {other.url}, to which a redirect led, without the headers"
    headers = {"X-Api-Key": "secret"}
    node = {"id": "h", "type": "http-request", "data": {"url": f"{first.url}/a", "headers": headers}}
    settings = RunSettings(allow_private_hosts=LOCAL)
    events = list(Workflow.load({"nodes": [node]}).stream({}, settings=settings))
    assert [event.message for event in events if isinstance(event, WorkflowWarning)] == [
        f"the request was {note}"
    ]
    tools = {"look": {"url": f"{first.url}/a", "headers": headers}}
    tool = {"id": "t", "type": "tool", "data": {"tool_name": "look"}}
    with pytest.raises(NodeError, match=f"tool look was {note}: ok"):
        Workflow.load({"tools": tools, "nodes": [tool]}).run({}, settings=settings)


# --- the deadline, and the size ---


def drip(connection: socket.socket, head: bytes, piece: Callable[[int], bytes], pause_s: float) -> None:
    connection.recv(65_536)
    connection.sendall(head)
    for number in itertools.count():
        connection.sendall(piece(number))
        time.sleep(pause_s)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
STATUS = b"HTTP/1.1 200 " + b"O" * 10_000
SLOW: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "body": (HEAD + b"Content-Length: 100000\r\n\r\n", lambda n: b"x"),
    "body without a length": (HEAD + b"\r\n", lambda n: b"x"),
    "headers": (HEAD, lambda n: b"X-%d: y\r\n" % n if n % 9 == 0 else b""),
    "status line": (b"", lambda n: STATUS[n : n + 1]),
    "chunks": (CHUNKED, lambda n: b"1\r\nx\r\n"),
    "length of a chunk": (CHUNKED, lambda n: b"0"),
    "trailers": (CHUNKED + b"0\r\n", lambda n: b"X: y\r\n" if n % 9 == 0 else b""),
    "interim answers": (b"", lambda n: b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing at all": (b"", lambda n: b""),
}


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server whose every connection is handed to `serve`. Its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with closing(connection):
            try:
                serve(connection)
            except OSError:
                return  # the client is gone

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@pytest.mark.parametrize("what", SLOW)
def test_one_deadline_holds_for_the_whole_answer(what: str) -> None:
    head, piece = SLOW[what]
    with raw_server(lambda connection: drip(connection, head, piece, 0.02)) as url:
        begun = time.monotonic()
        with pytest.raises(HttpError, match=r"0\.4 s for all of it"):
            send(HttpRequest("GET", url, timeout_s=0.4), LOCAL)
        assert time.monotonic() - begun < 2


def test_the_deadline_holds_for_all_redirects_together() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        time.sleep(0.15)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n")

    with raw_server(serve) as url, pytest.raises(HttpError, match=r"0\.4 s for all of it"):
        send(HttpRequest("GET", url, timeout_s=0.4), LOCAL)


def test_the_deadline_holds_for_what_is_sent() -> None:
    def serve(connection: socket.socket) -> None:
        while connection.recv(1):
            time.sleep(0.02)

    with raw_server(serve) as url, pytest.raises(HttpError, match=r"0\.4 s for all of it"):
        send(HttpRequest("POST", url, content="x" * 30_000_000, timeout_s=0.4), LOCAL)


def test_a_tool_and_a_node_keep_their_deadline() -> None:
    head, piece = SLOW["body"]
    with raw_server(lambda connection: drip(connection, head, piece, 0.02)) as url:
        tools = {"look": {"url": url, "timeout_s": 0.3}}
        for node in (
            {"id": "t", "type": "tool", "data": {"tool_name": "look"}},
            {"id": "h", "type": "http-request", "data": {"url": url, "timeout": {"read": 0.3}}},
        ):
            workflow = Workflow.load({"tools": tools, "nodes": [node]})
            with pytest.raises(RuntimeError, match=rf"node '{node['id']}': .*0\.3 s for all of it"):
                workflow.run({}, settings=RunSettings(allow_private_hosts=LOCAL))


def answering(body: bytes, coding: str) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEAD + f"Content-Encoding: {coding}\r\n\r\n".encode() + body)

    return serve


@pytest.mark.parametrize(
    "coding", ["gzip, gzip", "gzip,deflate", "deflate, gzip", "zstd", "br", "GZIP , GZIP"]
)
def test_an_answer_that_is_packed_twice_is_not_unpacked(coding: str) -> None:
    """64 kB of it would be gigabytes, before the first of them is counted."""
    with raw_server(answering(b"any", coding)) as url, pytest.raises(HttpError, match="is encoded as"):
        send(HttpRequest("GET", url), LOCAL)


def test_a_packed_answer_counts_by_its_own_size() -> None:
    with (
        raw_server(answering(gzip.compress(b"\0" * 100_000_000), "gzip")) as url,
        pytest.raises(HttpError, match="more than 20000000 bytes"),
    ):
        send(HttpRequest("GET", url), LOCAL)


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_packed_answer_is_read(coding: str, pack: Callable[[bytes], bytes]) -> None:
    with raw_server(answering(pack(json.dumps({"a": 1}).encode()), coding)) as url:
        assert send(HttpRequest("GET", url), LOCAL).body == '{"a": 1}'


@pytest.mark.parametrize("charset", ["punycode", "idna", "hex", "zlib", "undefined", "no-such", "utf-8", ""])
def test_an_answer_in_an_odd_encoding_is_read_as_utf_8(charset: str) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        kind = f"Content-Type: text/plain; charset={charset}\r\n\r\n"
        connection.sendall(HEAD + kind.encode() + "naïve-a".encode() + b"b" * 1_000_000)

    with raw_server(serve) as url:
        assert send(HttpRequest("GET", url, timeout_s=20), LOCAL).body.startswith("naïve-ab")
