"""A small OpenAI-compatible endpoint that answers by rule, late, wrongly or not at all, and keeps count.

    python benchmarks/endpoint.py --port 8400 --data rows.jsonl --latency 0.02 --p429 0.2

POST /v1/chat/completions, GET /v1/models, GET /stats, POST /reset.

A request whose last message is an input of --data is a row to be answered; any other one is a writer's. The
answer is a function of the request alone, so a run that is repeated, resumed or reordered gets the same ones:
a row is right with a chance that grows with each rule that the instruction names and with demonstrations,
falls with bad advice, and is for half of the rows drawn anew with each prompt; a writer adds one rule, or bad
advice. A fault is drawn from the request and how often it came: equal runs meet equal faults, in any order.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

try:
    from aiohttp import web
except ModuleNotFoundError:
    raise SystemExit(
        "benchmarks/endpoint.py needs aiohttp: pip install -e '.[dev]' in the checkout"
    ) from None

FAULTS = ("429", "500", "drop", "hang", "empty", "garbage")
RULES = ("numbers", "questions", "names", "tone", "length", "promises", "sources")
BAD_ADVICE = "guess when unsure"

BASE, RULE_GAIN, DEMO_GAIN, HARM = 0.55, 0.06, 0.08, 0.25
DEMOS_THAT_HELP = 16
INPUT, CACHED, OUTPUT = 1.0, 0.1, 4.0  # USD per million tokens, for the bill in /stats


def unit(*key: object) -> float:
    """A fixed draw from [0, 1) for a key."""
    digest = hashlib.blake2b("|".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Student:
    """Answers rows and writes prompts. targets: input -> right answer. rule_gain: chance that a rule adds."""

    def __init__(self, targets: dict[str, str], rule_gain: float = RULE_GAIN) -> None:
        self._targets, self._rule_gain = targets, rule_gain
        self._labels = sorted(set(targets.values()))

    def is_row(self, messages: list[dict[str, str]]) -> bool:
        return messages[-1]["content"].strip() in self._targets

    def answer(self, messages: list[dict[str, str]]) -> str:
        row = messages[-1]["content"].strip()
        instruction = " ".join(m["content"] for m in messages if m["role"] == "system").lower()
        demos = [m["content"] for m in messages[:-1] if m["role"] == "assistant"]
        chance = BASE + self._rule_gain * sum(rule in instruction for rule in RULES)
        chance += DEMO_GAIN * min(1.0, len(demos) / DEMOS_THAT_HELP) - HARM * (BAD_ADVICE in instruction)
        prompt = json.dumps(messages[:-1])
        luck = unit("row", row) if unit("kind", row) < 0.5 else unit("row", row, prompt)
        target = self._targets[row]
        if luck < chance:
            return target
        wrong = [label for label in self._labels if label != target] or self._labels
        return wrong[int(unit("wrong", row) * len(wrong))]

    def write(self, body: str) -> str:
        known = [rule for rule in RULES if rule in body.lower()]
        left = [rule for rule in RULES if rule not in known] or list(RULES)
        new = left[int(unit("rule", body) * len(left))]
        advice = BAD_ADVICE if unit("bad", body) < 0.3 else f"mind the {new}"
        minded = ", ".join(known) or "wording"
        return f"```\nChoose one of {', '.join(self._labels)} by the {minded}; {advice}.\n```"


class Counters:
    """What `/stats` shows. repeated_answers: answers to a request that had been answered before.

    cut: writers' answers of which the thoughts left nothing.
    first_s, last_s: this process's clock at the first request and at the last answer.
    """

    def __init__(self) -> None:
        self.requests = self.answered = self.repeated_answers = self.cut = 0
        self.in_flight = self.max_in_flight = 0
        self.prompt_tokens = self.completion_tokens = self.cached_tokens = 0
        self.first_s = self.last_s = 0.0
        self.faults: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.answers: set[str] = set()
        self.prefixes: set[str] = set()

    @property
    def cost(self) -> float:
        """USD, at the prices above."""
        uncached = self.prompt_tokens - self.cached_tokens
        return (uncached * INPUT + self.cached_tokens * CACHED + self.completion_tokens * OUTPUT) / 1e6

    def cached(self, text: str, tokens: int) -> int:
        """Tokens of a prompt that an earlier one began with, in steps of 128 from 1,024 on."""
        steps = range(1024, tokens, 128)
        heads = {step: hashlib.sha256(text[: 4 * step].encode()).hexdigest() for step in steps}
        hit = max((step for step, head in heads.items() if head in self.prefixes), default=0)
        self.prefixes.update(heads.values())
        return hit

    def to_dict(self) -> dict[str, Any]:
        shown = {k: v for k, v in vars(self).items() if k not in ("asked", "answers", "prefixes")}
        return {**shown, "cost": self.cost, "faults": dict(self.faults), "distinct": len(self.answers)}


class Endpoint:
    def __init__(self, options: argparse.Namespace, student: Student) -> None:
        self._options, self._student = options, student
        self._chances = {name: getattr(options, f"p{name}") for name in FAULTS}
        self._counters = Counters()
        self._out_since: float | None = None

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/stats", self.stats)
        app.router.add_post("/reset", self.reset)
        return app

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "simulated", "object": "model"}]})

    async def stats(self, _: web.Request) -> web.Response:
        return web.json_response(self._counters.to_dict())

    async def reset(self, _: web.Request) -> web.Response:
        self._counters = Counters()
        return web.json_response({})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        counters = self._counters
        counters.requests += 1
        counters.first_s = counters.first_s or time.monotonic()
        counters.in_flight += 1
        counters.max_in_flight = max(counters.max_in_flight, counters.in_flight)
        try:
            try:
                text = await request.text()
            except ConnectionResetError:  # the client was killed while it was sending
                return web.Response()
            key = hashlib.sha256(text.encode()).hexdigest()
            counters.asked[key] += 1
            fault = self._fault(key)
            if fault is not None:
                counters.faults[fault] += 1
                return await self._misbehave(fault, request, json.loads(text))
            await asyncio.sleep(self._options.latency)
            counters.answered += 1
            counters.last_s = time.monotonic()
            counters.repeated_answers += key in counters.answers
            counters.answers.add(key)
            body = json.loads(text)
            messages = body["messages"]
            if sum(len(m["content"]) for m in messages) > 4 * self._options.window:
                said = "This model's maximum context length is exceeded. Please reduce the length."
                error = {"message": said, "code": "context_length_exceeded"}
                return web.json_response({"error": error}, status=400)
            if self._student.is_row(messages):
                return self._reply(body, self._student.answer(messages))
            limit = body.get("max_completion_tokens", body.get("max_tokens"))
            if limit is not None and limit < self._options.think:
                counters.cut += 1
                return self._reply(body, "", thoughts=limit, finish_reason="length")
            # What it writes depends on what it is asked, and not on how long it may be.
            asked = json.dumps([messages, body.get("seed")])
            return self._reply(body, self._student.write(asked), thoughts=self._options.think)
        finally:
            counters.in_flight -= 1

    def _fault(self, key: str) -> str | None:
        if self._counters.requests <= self._options.fail_first:
            return "500"
        if self._is_out():
            return "503"
        draw = unit(self._options.fault_seed, key, self._counters.asked[key])
        for name, chance in self._chances.items():
            if draw < chance:
                return name
            draw -= chance
        return None

    def _is_out(self) -> bool:
        """For some seconds from when so many requests were answered."""
        if self._counters.answered < self._options.out_after:
            return False
        if self._out_since is None:
            self._out_since = time.monotonic()
        return time.monotonic() - self._out_since < self._options.out_s

    async def _misbehave(self, fault: str, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        match fault:
            case "429":
                error = {"error": {"message": "too many requests", "code": "rate_limit_exceeded"}}
                return web.json_response(error, status=429, headers={"Retry-After": "0.1"})
            case "503":
                return web.json_response({"error": {"message": "overloaded"}}, status=503)
            case "500":
                return web.json_response({"error": {"message": "out of order"}}, status=500)
            case "drop":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()
            case "hang":
                await asyncio.sleep(3600)
            case "garbage":
                return web.Response(text="<html>bad gateway</html>", content_type="text/html")
        return self._reply(body, "")

    def _reply(
        self, body: dict[str, Any], text: str, *, thoughts: int = 0, finish_reason: str = "stop"
    ) -> web.Response:
        prompt = sum(len(m["content"]) for m in body["messages"]) // 4 + 1
        completion = thoughts + (len(text) // 4 + 1 if text else 0)
        self._counters.prompt_tokens += prompt
        self._counters.completion_tokens += completion
        hit = 0
        if self._options.cached:
            hit = self._counters.cached("\0".join(m["content"] for m in body["messages"]), prompt)
            self._counters.cached_tokens += hit
        message = {"role": "assistant", "content": text}
        return web.json_response(
            {
                "id": "simulated",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body.get("model", "simulated"),
                "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
                "usage": {
                    "prompt_tokens": prompt,
                    "completion_tokens": completion,
                    "total_tokens": prompt + completion,
                    "completion_tokens_details": {"reasoning_tokens": thoughts},
                    **({"prompt_tokens_details": {"cached_tokens": hit}} if self._options.cached else {}),
                },
            }
        )


def read_targets(path: Path, input_field: str, target_field: str) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return {str(row[input_field]).strip(): str(row[target_field]) for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8400)
    parser.add_argument("--data", type=Path, required=True, help="JSONL with the rows that it answers")
    parser.add_argument("--input-field", default="input")
    parser.add_argument("--target-field", default="target")
    parser.add_argument("--latency", type=float, default=0.02, metavar="SECONDS")
    parser.add_argument(
        "--think", type=int, default=0, metavar="TOKENS", help="hidden thoughts before a writer's answer"
    )
    parser.add_argument("--cached", action="store_true", help="beginnings that were sent before are cached")
    parser.add_argument("--rule-gain", type=float, default=RULE_GAIN, help="chance that a rule adds")
    parser.add_argument("--window", type=int, default=10**9, metavar="TOKENS", help="longer requests get 400")
    parser.add_argument("--fault-seed", type=int, default=0, help="other faults")
    parser.add_argument("--fail-first", type=int, default=0, metavar="N", help="500 for the first N requests")
    parser.add_argument("--out-after", type=int, default=0, metavar="N", help="answers before an outage")
    parser.add_argument("--out-s", type=float, default=0.0, metavar="SECONDS", help="of 503; default: none")
    for name in FAULTS:
        parser.add_argument(f"--p{name}", type=float, default=0.0, metavar="P", help=f"share of {name}")
    options = parser.parse_args()
    student = Student(
        read_targets(options.data, options.input_field, options.target_field), options.rule_gain
    )
    web.run_app(Endpoint(options, student).app(), host="127.0.0.1", port=options.port, print=None)


if __name__ == "__main__":
    main()
