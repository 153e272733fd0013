"""A small OpenAI-compatible server on the loopback: a model that is told by an instruction what to answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "sk-of-the-tests-0123456789"
BETTER = "Sort support messages. KNOWN RULE: look at what happens now."


class Endpoint:
    """Answers rightly where the prompt holds "KNOWN RULE", always "normal" elsewhere; proposes that rule.

    status: what every request gets instead of an answer, where it is not 200. lost: the same for those whose
    row ends so.
    is_silent: while it is set, questions are taken and not answered.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.requests: list[dict[str, Any]] = []
        self.status = 200
        self.lost = ""
        self.is_silent = threading.Event()

    def answer(self, body: dict[str, Any]) -> str:
        messages = body["messages"]
        text = "\n".join(message["content"] for message in messages)
        if len(messages[-1]["content"]) > 100:  # longer than any row: a writer or an analyst is asked
            return f"```\n{BETTER}\n```"
        if "KNOWN RULE" in text:
            return "urgent" if "now" in messages[-1]["content"] else "normal"
        return "normal"


def write_messages(folder: Path, base_url: str, numbers: Iterable[int], *, alike: int = 1) -> None:
    """t.jsonl, its sidecar and c.yaml: messages of which every second `alike` are urgent.

    alike: messages of one customer, which follow each other.
    """
    rows = [
        {
            "message": f"{'It burns now' if n // alike % 2 else 'Some day, please'} ({n})",
            "priority": "urgent" if n // alike % 2 else "normal",
            **({"customer": f"c{n // alike}"} if alike > 1 else {}),
        }
        for n in numbers
    ]
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "t.task.yaml").write_text(
        "prompt: Sort support messages.\ninput_field: message\ntarget_field: priority\n", encoding="utf-8"
    )
    (folder / "c.yaml").write_text(
        f"dataset: t.jsonl\nmodel: m\nbase_url: {base_url}\npreset: quick\nmax_demos: 0\n", encoding="utf-8"
    )


@contextmanager
def serving() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # else the body, a packet of its own, waits 40 ms

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": "m"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests.append(body)
            while endpoint.is_silent.is_set():
                time.sleep(0.01)
            message = {"role": "assistant", "content": endpoint.answer(body)}
            usage = {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            is_lost = endpoint.lost and body["messages"][-1]["content"].endswith(endpoint.lost)
            status = 503 if is_lost else endpoint.status
            self._send(status, {"model": "m", "choices": [choice], "usage": usage})

        def _send(self, status: int, data: dict[str, Any]) -> None:
            if self.headers.get("Authorization") != f"Bearer {KEY}":
                status, data = 401, {"error": {"message": "Incorrect API key provided"}}
            raw = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            with suppress(OSError):  # who asked is gone
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    endpoint.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
