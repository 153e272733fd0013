"""Calls a second that a client reaches: `autoprompt eval`, dspy.LM and plain ChatOpenAI, side by side.

    python benchmarks/throughput.py --peers-python benchmarks/.peers/bin/python

2,000 rows, 200 ms an answer, 64 at once: at most 320 a second. By the endpoint's clock, from first request
to last answer, so imports and start-up count for nobody. In turns, several rounds. dspy.LM needs the
peers' environment (compare.py makes it); without it, it is left out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from workbench import CLI, PROMPT, Folder, Report, Server, add_arguments, say, serve, write_rows

LEAST_SHARE = 0.85  # of the bound

_THREADS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
base_url, rows, width, prompt = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
inputs = [json.loads(line)["input"] for line in open(rows, encoding="utf-8")]
%s
with ThreadPoolExecutor(width) as pool:
    list(pool.map(ask, inputs))
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
    options = parser.parse_args()
    bound = options.concurrency / options.latency
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        rows = options.data or write_rows(folder.path / "rows.jsonl", options.rows)
        with serve(options, rows, latency=options.latency) as server:
            rates = measure(options, folder, server, rows)
    report = Report("throughput")
    for client, found in rates.items():
        rate = statistics.median(found)
        measured = f"{rate:.0f}/s ({min(found):.0f}–{max(found):.0f}), {rate / bound:.2f} of the bound"
        is_ours = client == "autoprompt eval"
        wanted = f">= {LEAST_SHARE} of {bound:.0f}/s" if is_ours else ""
        report.add(client, measured, wanted, not is_ours or rate / bound >= LEAST_SHARE)
    return report.finish(as_json=options.json)


def measure(
    options: argparse.Namespace, folder: Folder, server: Server, rows: Path
) -> dict[str, list[float]]:
    """Client -> calls a second, one number a round."""
    clients: dict[str, list[str]] = {
        "autoprompt eval": [
            *(CLI, "eval", "--dataset", str(rows), "--prompt", PROMPT, "--base-url", server.base_url),
            *("--concurrency", str(options.concurrency), "--no-cache", "--quiet", "--json"),
        ],
        "ChatOpenAI, threads": _threads(sys.executable, _CHAT_OPENAI, options, server, rows),
    }
    if options.peers_python:
        peers = str(options.peers_python.absolute())  # clients run in a folder of their own
        clients["dspy.LM, threads"] = _threads(peers, _DSPY, options, server, rows)
    rates: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(options.rounds):
        for name, command in clients.items():
            server.reset()
            subprocess.run(
                command, check=True, cwd=folder.path, env=folder.environment, stdout=subprocess.DEVNULL
            )
            stats = server.idle_stats()
            rate = stats["answered"] / (stats["last_s"] - stats["first_s"])
            rates[name].append(rate)
            say(f"round {number + 1}: {name}: {rate:.0f}/s, {stats['max_in_flight']} at once")
    return rates


def _threads(python: str, body: str, options: argparse.Namespace, server: Server, rows: Path) -> list[str]:
    code: Callable[[str], str] = _THREADS.__mod__
    return [python, "-c", code(body), server.base_url, str(rows), str(options.concurrency), PROMPT]


if __name__ == "__main__":
    sys.exit(main())
