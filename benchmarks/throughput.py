"""What clients make of an endpoint: `autoprompt eval`, bare aiohttp, ChatOpenAI and dspy.LM, by turns.

    python benchmarks/throughput.py --peers-python benchmarks/.peers/bin/python
    python benchmarks/throughput.py --rows 5000 --latency 0.05 --only "autoprompt eval" "aiohttp, bare"

2,000 rows, 200 ms an answer, 64 at once: at most 320 a second. By the endpoint's clock, from first request
to last answer, so imports and start-up count for nobody. In turns, several rounds. Processor time per call is
that of the whole process less that of a process with few rows: the journal is on, the response cache off.
dspy.LM needs the peers' environment (compare.py makes it); without it, it is left out.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from workbench import CLI, PROMPT, Folder, Report, Server, add_arguments, say, serve, write_rows

LEAST_SHARE = 0.85  # of the bound
OURS, BARE = "autoprompt eval", "aiohttp, bare"
_FEW_ROWS = 64

_THREADS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
base_url, rows, width, prompt = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
inputs = [json.loads(line)["input"] for line in open(rows, encoding="utf-8")]
%s
with ThreadPoolExecutor(width) as pool:
    list(pool.map(ask, inputs))
"""
_AIOHTTP = """
import asyncio, json, sys
import aiohttp
base_url, rows, width, prompt = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
inputs = [json.loads(line)["input"] for line in open(rows, encoding="utf-8")]
async def main():
    places = asyncio.Semaphore(width)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def ask(text):
            turns = [{"role": "system", "content": prompt}, {"role": "user", "content": text}]
            body = {"model": "simulated", "messages": turns, "temperature": 0}
            async with places, session.post(base_url + "/chat/completions", json=body) as response:
                return (await response.json())["choices"][0]["message"]["content"]
        return await asyncio.gather(*map(ask, inputs))
asyncio.run(main())
"""
_CHAT_OPENAI = """
from langchain_openai import ChatOpenAI
model = ChatOpenAI(model="simulated", base_url=base_url, api_key="none", temperature=0)
def ask(text):
    return model.invoke([("system", prompt), ("user", text)])
"""
_DSPY = """
import dspy
model = dspy.LM("openai/simulated", api_base=base_url, api_key="none", temperature=0, cache=False)
def ask(text):
    return model(messages=[{"role": "system", "content": prompt}, {"role": "user", "content": text}])
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds an answer")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers-python", type=Path, help="interpreter that has dspy")
    parser.add_argument("--only", nargs="+", help="clients, by their names in the report")
    options = parser.parse_args()
    bound = options.concurrency / options.latency
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        rows = options.data or write_rows(folder.path / "rows.jsonl", options.rows)
        few = folder.path / "few.jsonl"
        few.write_text("".join(rows.read_text(encoding="utf-8").splitlines(keepends=True)[:_FEW_ROWS]))
        with serve(options, rows, latency=options.latency) as server:
            found = measure(options, folder, server, rows, few)
    report = Report("throughput")
    bare = statistics.median(cpu_ms for _, cpu_ms in found[BARE]) if BARE in found else None
    for client, rounds in found.items():
        rates, costs = zip(*rounds, strict=True)
        rate, cpu_ms = statistics.median(rates), statistics.median(costs)
        times = f", {cpu_ms / bare:.1f} times the bare client's" if bare and client != BARE else ""
        measured = (
            f"{rate:.0f}/s ({min(rates):.0f}–{max(rates):.0f}), {rate / bound:.2f} of the bound; "
            f"{cpu_ms:.2f} ms of CPU a call ({min(costs):.2f}–{max(costs):.2f}){times}"
        )
        is_ours = client == OURS
        wanted = f">= {LEAST_SHARE} of {bound:.0f}/s" if is_ours else ""
        report.add(client, measured, wanted, not is_ours or rate / bound >= LEAST_SHARE)
    return report.finish(as_json=options.json)


def measure(
    options: argparse.Namespace, folder: Folder, server: Server, rows: Path, few: Path
) -> dict[str, list[tuple[float, float]]]:
    """Client -> calls a second and ms of CPU a call, a pair for each round."""

    def commands(file: Path) -> dict[str, list[str]]:
        found = {
            OURS: [
                *(CLI, "eval", "--dataset", str(file), "--prompt", PROMPT, "--base-url", server.base_url),
                *("--concurrency", str(options.concurrency), "--no-cache", "--quiet", "--json"),
            ],
            BARE: _client(sys.executable, _AIOHTTP, options, server, file),
            "ChatOpenAI, threads": _client(sys.executable, _THREADS % _CHAT_OPENAI, options, server, file),
        }
        if options.peers_python:
            peers = str(options.peers_python.absolute())  # clients run in a folder of their own
            found["dspy.LM, threads"] = _client(peers, _THREADS % _DSPY, options, server, file)
        return {name: found[name] for name in options.only or found}

    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in commands(rows)}
    for number in range(options.rounds):
        for name, command in commands(rows).items():
            start_s = _cpu_s(commands(few)[name], folder)
            server.reset()
            cpu_s = _cpu_s(command, folder)
            stats = server.idle_stats()
            rate = stats["answered"] / (stats["last_s"] - stats["first_s"])
            cpu_ms = 1000 * (cpu_s - start_s) / max(1, stats["answered"] - _FEW_ROWS)
            measured[name].append((rate, cpu_ms))
            at_once = stats["max_in_flight"]
            say(f"round {number + 1}: {name}: {rate:.0f}/s, {at_once} at once, {cpu_ms:.2f} ms a call")
    return measured


def _cpu_s(command: list[str], folder: Folder) -> float:
    """Run a command and return the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        check=True,
        cwd=folder.path,
        env=folder.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _client(python: str, code: str, options: argparse.Namespace, server: Server, rows: Path) -> list[str]:
    return [python, "-c", code, server.base_url, str(rows), str(options.concurrency), PROMPT]


if __name__ == "__main__":
    sys.exit(main())
