"""Are costs and caps right by the bill that an endpoint keeps itself? Every usage format, 16 and 256 at once.

The endpoint here counts tokens in its own way, reads part of a prompt from its cache, thinks, and bills. The
command line runs as a process against it: its figures must equal the bill, and its caps must hold by it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

INPUT, CACHED, WRITE, OUTPUT = 2.5, 0.25, 3.125, 10.0  # USD per million tokens
LABELS = ("billing", "tech", "sales")


@dataclass(frozen=True)
class Taken:
    """What one request took, as the endpoint bills it."""

    uncached: int
    cached: int
    written: int
    thoughts: int
    text: int

    @property
    def prompt(self) -> int:
        return self.uncached + self.cached + self.written

    @property
    def output(self) -> int:
        return self.thoughts + self.text

    @property
    def tokens(self) -> int:
        return self.prompt + self.output

    @property
    def usd(self) -> float:
        sent = self.uncached * INPUT + self.cached * CACHED + self.written * WRITE
        return (sent + self.output * OUTPUT) / 1e6


def _openai(t: Taken) -> dict[str, Any]:
    return {
        "prompt_tokens": t.prompt,
        "completion_tokens": t.output,
        "total_tokens": t.tokens,
        "prompt_tokens_details": {"cached_tokens": t.cached, "cache_write_tokens": t.written},
        "completion_tokens_details": {"reasoning_tokens": t.thoughts},
    }


def _responses(t: Taken) -> dict[str, Any]:
    return {
        "input_tokens": t.prompt,
        "output_tokens": t.output,
        "total_tokens": t.tokens,
        "input_tokens_details": {"cached_tokens": t.cached, "cache_write_tokens": t.written},
        "output_tokens_details": {"reasoning_tokens": t.thoughts},
    }


def _anthropic(t: Taken) -> dict[str, Any]:
    return {
        "input_tokens": t.uncached,
        "cache_read_input_tokens": t.cached,
        "cache_creation_input_tokens": t.written,
        "output_tokens": t.output,
    }


def _litellm(t: Taken) -> dict[str, Any]:
    counted = _anthropic(t)
    del counted["input_tokens"], counted["output_tokens"]
    return {
        **counted,
        "prompt_tokens": t.prompt,
        "completion_tokens": t.output,
        "total_tokens": t.tokens,
        "prompt_tokens_details": {"cached_tokens": t.cached, "cache_creation_tokens": t.written},
    }


def _deepseek(t: Taken) -> dict[str, Any]:
    return {
        "prompt_tokens": t.prompt,
        "prompt_cache_hit_tokens": t.cached,
        "prompt_cache_miss_tokens": t.uncached,
        "completion_tokens": t.output,
        "total_tokens": t.tokens,
        "completion_tokens_details": {"reasoning_tokens": t.thoughts},
    }


def _gemini(t: Taken) -> dict[str, Any]:
    return {
        "promptTokenCount": t.prompt,
        "cachedContentTokenCount": t.cached,
        "candidatesTokenCount": t.text,
        "thoughtsTokenCount": t.thoughts,
        "totalTokenCount": t.tokens,
    }


def _gemini_compatible(t: Taken) -> dict[str, Any]:
    return {
        "prompt_tokens": t.prompt,
        "completion_tokens": t.text,
        "total_tokens": t.tokens,
        "prompt_tokens_details": {"cached_tokens": t.cached},
    }


def _xai(t: Taken) -> dict[str, Any]:
    return {
        **_gemini_compatible(t),
        "completion_tokens_details": {"reasoning_tokens": t.thoughts},
        "cost_in_usd_ticks": round(t.usd * 1e10),
    }


def _openrouter(t: Taken) -> dict[str, Any]:
    discount = t.cached * (INPUT - CACHED) / 1e6
    cost = {"cost": t.usd, "cost_details": {"upstream_inference_cost": None}, "cache_discount": discount}
    return {**_openai(t), **cost, "is_byok": False}


def _own_key(t: Taken) -> dict[str, Any]:
    cost = {"cost": t.usd / 20, "cost_details": {"upstream_inference_cost": t.usd * 19 / 20}}
    return {**_openai(t), **cost, "is_byok": True}


def _plain(t: Taken) -> dict[str, Any]:
    return {"prompt_tokens": t.prompt, "completion_tokens": t.output, "total_tokens": t.tokens}


# Name -> the record, and whether the format can tell tokens that were read from and written to the cache.
FORMATS: Mapping[str, tuple[Callable[[Taken], dict[str, Any]], bool, bool]] = {
    "plain": (_plain, False, False),
    "OpenAI chat": (_openai, True, True),
    "OpenAI Responses": (_responses, True, True),
    "Anthropic": (_anthropic, True, True),
    "LiteLLM": (_litellm, True, True),
    "DeepSeek": (_deepseek, True, False),
    "Gemini": (_gemini, True, False),
    "Gemini, compatible": (_gemini_compatible, True, False),
    "xAI": (_xai, True, False),
    "OpenRouter": (_openrouter, True, True),
    "OpenRouter, own key": (_own_key, True, True),
}


@dataclass
class Habits:
    """How the endpoint answers. thoughts: fewest and most tokens before the text.

    hidden: tokens that it puts before each prompt. times: what it counts beside the usual, of everything.
    heeds_limit: whether thoughts end at the limit that was asked for.
    """

    format: str = "OpenAI chat"
    thoughts: tuple[int, int] = (0, 0)
    hidden: int = 0
    times: float = 1.0
    latency_s: float = 0.0
    heeds_limit: bool = True


@dataclass
class Bill:
    """What the endpoint charges for, and what it saw."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    cut: int = 0
    most_at_once: int = 0
    limits: list[int] = field(default_factory=list)


class BillingEndpoint:
    """An OpenAI-compatible endpoint on the loopback that keeps its own bill."""

    def __init__(self, habits: Habits) -> None:
        self.habits, self.bill = habits, Bill()
        self._lock, self._at_once = threading.Lock(), 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._give({"object": "list", "data": [{"id": "billed", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._give(endpoint.answer(body))

            def _give(self, data: Mapping[str, Any]) -> None:
                content = json.dumps(data).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
                self.wfile.write(
                    head.encode() + b"\r\n\r\n" + content
                )  # in one piece: two wait for each other

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._at_once += 1
            self.bill.most_at_once = max(self.bill.most_at_once, self._at_once)
        time.sleep(self.habits.latency_s)
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        taken, text, reason = self._take(body["messages"], limit)
        with self._lock:
            self._at_once -= 1
            self.bill.calls += 1
            self.bill.tokens += taken.tokens
            self.bill.usd += taken.usd
            self.bill.cut += reason == "length"
            if limit is not None:
                self.bill.limits.append(limit)
        record = FORMATS[self.habits.format][0](taken)
        name = "usageMetadata" if self.habits.format == "Gemini" else "usage"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        head = {"id": "b", "object": "chat.completion", "created": 1, "model": "billed"}
        return {**head, "choices": [choice], name: record}

    def _take(self, messages: Sequence[Mapping[str, Any]], limit: int | None) -> tuple[Taken, str, str]:
        habits = self.habits
        whole = "\n".join(str(message["content"]) for message in messages)
        draw = random.Random(whole)
        _, has_cached, has_written = FORMATS[habits.format]
        prompt = round(habits.times * (habits.hidden + 7 * len(messages) + len(whole) / 3.4))
        cached = prompt * 3 // 4 if has_cached and draw.random() < 0.7 else 0
        written = prompt // 2 if has_written and not cached else 0
        text = draw.choice(LABELS)
        said = round(habits.times * (1 + len(text) // 4))
        thoughts = round(habits.times * draw.randint(*habits.thoughts))
        reason = "stop"
        if limit is not None and habits.heeds_limit and thoughts + said > limit:
            text, reason = ("", "length") if thoughts >= limit else (text[:1], "length")
            thoughts = min(thoughts, limit)
            said = limit - thoughts
        return Taken(prompt - cached - written, cached, written, thoughts, said), text, reason


@contextmanager
def billing_endpoint(habits: Habits) -> Iterator[BillingEndpoint]:
    endpoint = BillingEndpoint(habits)
    try:
        yield endpoint
    finally:
        endpoint.close()


def write_rows(path: Path, rows: int) -> None:
    draw = random.Random(0)
    words = ("invoice", "refund", "login", "crash", "price", "quote", "card", "error", "demo", "plan", "seat")
    with path.open("w", encoding="utf-8") as out:
        for row in range(rows):
            text = f"ticket {row}: " + " ".join(draw.choices(words, k=draw.randint(4, 40)))
            out.write(json.dumps({"input": text, "target": draw.choice(LABELS)}) + "\n")


def autoprompt(arguments: Sequence[str], folder: Path) -> dict[str, Any]:
    """What `autoprompt ... --json` printed, with its exit code, what it told on stderr, and its seconds."""
    environment = {**os.environ, "OPENAI_API_KEY": "x", "HOME": str(folder), "AUTOPROMPT_NO_MEMORY": "true"}
    command = [sys.executable, "-m", "autoprompt", *arguments, "--json"]
    begun = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    try:
        printed = json.loads(done.stdout)
    except ValueError:
        printed = {}
    return {
        **printed,
        "exit": done.returncode,
        "told": done.stderr,
        "took_s": round(time.monotonic() - begun, 1),
    }


PROMPT = "Which queue: billing, tech or sales?"


def formats(folder: Path, rows: int) -> bool:
    """Print each format's figures beside the bill; whether all are within 1%."""
    write_rows(folder / "rows.jsonl", rows)
    print("| format | calls | tokens | billed | cost | billed | off by |\n|---|--:|--:|--:|--:|--:|--:|")
    is_right = True
    for name in FORMATS:
        with billing_endpoint(Habits(name, thoughts=(0, 400), hidden=300)) as endpoint:
            given = settings(endpoint.base_url, 16, 2000)
            found = autoprompt(arguments("eval", given, "max_calls", rows, folder), folder)
            bill = endpoint.bill
        tokens = found["prompt_tokens"] + found["completion_tokens"]
        off = abs(found["cost_usd"] - bill.usd) / bill.usd
        is_right &= off <= 0.01 and tokens == bill.tokens and found["calls"] == bill.calls
        print(
            f"| {name} | {found['calls']} | {tokens:,} | {bill.tokens:,} | ${found['cost_usd']:.5f} | "
            f"${bill.usd:.5f} | {off:.2%} |"
        )
    return is_right


# What an endpoint may do to a cap: name -> habits.
STRESS: Mapping[str, Habits] = {
    "labels": Habits(latency_s=0.05),
    "thinks 0-1500": Habits(thoughts=(0, 1500), latency_s=0.05),
    "hidden prompt of 2,000": Habits(hidden=2000, latency_s=0.05),
    "counts 4.8 times as much": Habits(times=4.8, latency_s=0.05),
    "thinks beyond the limit": Habits(thoughts=(200, 600), heeds_limit=False, latency_s=0.05),
    "bills by itself, 4.8 times": Habits("OpenRouter", times=4.8, thoughts=(0, 200), latency_s=0.05),
}


# What is run into the caps -> rows, and the caps on tokens and cost.
COMMANDS = {
    "eval": (2000, (50_000.0, 0.1)),
    "run": (400, (200_000.0, 0.8)),
    "batch": (400, (100_000.0, 0.4)),  # of three trials together
}


def settings(base_url: str, at_once: int, limit: int) -> dict[str, Any]:
    """Of each command; a batch reads them from its file, the others as flags."""
    return {
        "dataset": "rows.jsonl",
        "prompt": PROMPT,
        "model": "billed",
        "base_url": base_url,
        "concurrency": at_once,
        "max_output_tokens": limit,
        "price_input": INPUT,
        "price_output": OUTPUT,
        "price_cached_input": CACHED,
    }


def arguments(command: str, given: Mapping[str, Any], cap: str, value: float, folder: Path) -> list[str]:
    """The command line. Writes the file of a batch, into a folder of its own for each cap and endpoint."""
    if command == "batch":
        trials = {"defaults": {**given, "no_cache": True}, "matrix": {"seed": [0, 1, 2]}}
        name = f"billed-{uuid.uuid4().hex[:8]}"
        (folder / "b.yaml").write_text(json.dumps({"name": name, cap: value, **trials}), encoding="utf-8")
        return ["batch", "b.yaml"]
    flags = {**given, cap: f"{value:g}"}
    pairs = [(f"--{name.replace('_', '-')}", str(setting)) for name, setting in flags.items()]
    return [command, "--no-cache", *(part for pair in pairs for part in pair)]


def overshoot(
    folder: Path, command: str, *, at_once: Sequence[int], limit: int, rows: int, caps: tuple[float, float]
) -> bool:
    """Print by how much caps are passed; whether never by more than 1%."""
    write_rows(folder / "rows.jsonl", rows)
    print(
        "| endpoint | at once | cap | billed | passed by | calls | most at once | cut | seconds |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    is_kept = True
    for name, habits in STRESS.items():
        for cap, value in zip(("max_tokens", "max_cost"), caps, strict=True):
            for number in at_once:
                with billing_endpoint(habits) as endpoint:
                    given = settings(endpoint.base_url, number, limit)
                    found = autoprompt(arguments(command, given, cap, value, folder), folder)
                    bill = endpoint.bill
                used = bill.tokens if cap == "max_tokens" else bill.usd
                over = max(0.0, used / value - 1)
                is_kept &= over <= 0.01
                print(
                    f"| {name} | {number} | {cap} {value:g} | {used:,.5g} | {over:.2%} | {bill.calls} | "
                    f"{bill.most_at_once} | {bill.cut} | {found['took_s']} |",
                    flush=True,
                )
                if found["exit"] not in (0, 1):
                    print(found["told"], file=sys.stderr)
    return is_kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=48, help="of the table of formats [48]")
    parser.add_argument("--limit", type=int, default=4096, help="tokens that an answer may have [4096]")
    parser.add_argument("--at-once", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--only", choices=["formats", *COMMANDS])
    parsed = parser.parse_args()
    is_right = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if parsed.only in (None, "formats"):
            is_right &= formats(folder, parsed.rows)
        for command, (rows, caps) in COMMANDS.items():
            if parsed.only in (None, command):
                print(f"\n{command}, {rows} rows, answers of up to {parsed.limit} tokens")
                (folder / command).mkdir()
                is_right &= overshoot(
                    folder / command,
                    command,
                    at_once=parsed.at_once,
                    limit=parsed.limit,
                    rows=rows,
                    caps=caps,
                )
    print("all kept" if is_right else "NOT KEPT", file=sys.stderr)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
