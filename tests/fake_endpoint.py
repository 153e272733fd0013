"""An OpenAI-compatible endpoint on the loopback that misbehaves as told."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What one request gets. body: JSON, or text as it stands. is_drop: the connection is closed instead.

    hangs_until: wait for this event first. blank_lines: so many before the body, one every 20 ms, as some
    gateways keep a connection alive.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_drop: bool = False
    hangs_until: threading.Event | None = None
    blank_lines: int = 0


LOCAL = ("127.0.0.1",)
"""`allow_private_hosts` of a run that asks the endpoint from a workflow."""

DROP = Reply(is_drop=True)
GARBAGE = Reply(body="<html>bad gateway</html>")


def answer(text: str | None, **more: Any) -> Reply:
    """A chat completion; `logprobs` and `finish_reason` go into the choice, `refusal` into its message, other
    names beside it.
    """
    message = {"role": "assistant", "content": text}
    if "refusal" in more:
        message["refusal"] = more.pop("refusal")
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    for name in ("logprobs", "finish_reason"):
        if name in more:
            choice[name] = more.pop(name)
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "fake-1"}
    return Reply(body={**head, "choices": [choice], "usage": usage, **more})


def error(
    status: int, message: str = "simulated", *, headers: Mapping[str, str] | None = None, **more: Any
) -> Reply:
    return Reply(status, {"error": {"message": message, **more}}, headers or {})


class FakeEndpoint:
    """replies: given one after the other, then `otherwise`. requests, headers, paths: what came.

    connections: how many were made to it.
    """

    def __init__(self, otherwise: Callable[[dict[str, Any]], Reply] | None = None) -> None:
        self.replies: deque[Reply] = deque()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.models: Reply = Reply(body={"object": "list", "data": [{"id": "fake", "object": "model"}]})
        self.elsewhere: Reply | None = None  # what paths outside of /v1 get; None: the same as there
        self.listed = 0
        self.connections = 0
        self._otherwise = otherwise or (lambda body: answer("1"))
        self._lock = threading.Lock()
        self._closed = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the body, a packet of its own, waits 40 ms

            def setup(self) -> None:
                with endpoint._lock:
                    endpoint.connections += 1
                super().setup()

            def do_GET(self) -> None:
                endpoint.listed += 1
                endpoint.paths.append(self.path)
                is_list = self.path.partition("?")[0] == "/v1/models"
                self._give(endpoint.models if is_list else endpoint.elsewhere or Reply(404, {}))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if endpoint.elsewhere is not None and self.path != "/v1/chat/completions":
                    self._give(endpoint.elsewhere)
                    return
                with endpoint._lock:
                    endpoint.paths.append(self.path)
                    endpoint.requests.append(body)
                    endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                    reply = endpoint.replies.popleft() if endpoint.replies else endpoint._otherwise(body)
                self._give(reply)

            def _give(self, reply: Reply) -> None:
                if reply.hangs_until is not None:
                    reply.hangs_until.wait(10)
                if reply.is_drop:
                    self.close_connection = True
                    return
                data = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
                self.send_response(reply.status)
                kind = "text/html" if isinstance(reply.body, str) else "application/json"
                for name, value in {"Content-Type": kind, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data) + reply.blank_lines))
                self.end_headers()
                for _ in range(reply.blank_lines):
                    self.wfile.write(b"\n")
                    endpoint._closed.wait(0.02)
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that gave up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def fake_endpoint(otherwise: Callable[[dict[str, Any]], Reply] | None = None) -> Iterator[FakeEndpoint]:
    endpoint = FakeEndpoint(otherwise)
    try:
        yield endpoint
    finally:
        endpoint.close()
