"""A parallel iteration over many items against a slow endpoint: its time beside the bound, and its memory.

    python benchmarks/iteration.py                             # 1,000 items, 50 ms an answer, 32 at once
    python benchmarks/iteration.py --base-url http://127.0.0.1:8222/v1

No run can be faster than items / at once x latency. The time is the endpoint's: from the first request to the
last answer. The run is kept in a folder, as a run that can be resumed is. Memory: what the process holds
after the first quarter of the items and at the end. Processor time is told too: where it is near the time,
the machine is what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from workbench import Report, add_arguments, say, serve

SLOWEST = 3.0  # times the bound
MOST_GROWTH = 1.2  # memory at the end over that after the first quarter

_RUN = """
import json, os, sys, time
from pathlib import Path
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import RunSettings, Workflow
base_url, items, at_once, runs_dir = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
data = {
    "iterator_selector": ["start", "items"], "output_selector": ["ask", "text"], "is_parallel": True,
    "parallel_nums": at_once,
    "nodes": [
        {"id": "ask", "type": "llm", "data": {"model": "m", "prompt_template": "Item {{#each.item#}}"}},
    ],
}
workflow = Workflow.load({"nodes": [
    {"id": "start", "type": "start", "data": {"variables": [{"variable": "items", "type": "array"}]}},
    {"id": "each", "type": "iteration", "data": data},
]})
held = []
def held_mb():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
def on_event(event):
    if getattr(event, "pass_index", None) == items // 4:
        held.append(held_mb())
begun = time.process_time()
result = workflow.run(
    {"items": [f"item {n}" for n in range(items)]},
    settings=RunSettings(models=ModelSettings(model="simulated", base_url=base_url, constrain="off")),
    runs_dir=runs_dir, on_event=on_event,
)
held.append(held_mb())
cpu_s = time.process_time() - begun
print(json.dumps({"items": len(result["output"]), "held_mb": held, "cpu_s": cpu_s}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds an answer")
    parser.add_argument("--at-once", type=int, default=32)
    options = parser.parse_args()
    bound_s = options.items / options.at_once * options.latency
    with tempfile.TemporaryDirectory() as name:
        rows = options.data or _no_rows(Path(name))
        with serve(options, rows, latency=options.latency) as server:
            server.reset()
            done = _run(options, server.base_url, Path(name) / "runs")
            stats = server.idle_stats()
    taken_s = _seconds(stats)
    first_mb, last_mb = done["held_mb"]
    report = Report("iteration")
    report.add("items answered", str(done["items"]), str(options.items), done["items"] == options.items)
    report.add(
        "time by the endpoint's clock",
        f"{taken_s:.2f} s, {taken_s / bound_s:.2f} of the bound; {stats['max_in_flight']} at once; "
        f"{done['cpu_s']:.2f} s of processor time",
        f"<= {SLOWEST:g} x {bound_s:.2f} s",
        taken_s <= SLOWEST * bound_s,
    )
    report.add(
        "memory, first quarter and end",
        f"{first_mb:.0f} and {last_mb:.0f} MB",
        f"<= {MOST_GROWTH:g} times",
        last_mb <= MOST_GROWTH * first_mb,
    )
    return report.finish(as_json=options.json)


def _no_rows(folder: Path) -> Path:
    """The endpoint wants rows to know; this workflow asks it about none of them."""
    path = folder / "rows.jsonl"
    path.write_text('{"input": "a", "target": "0"}\n{"input": "b", "target": "1"}\n', encoding="utf-8")
    return path


def _run(options: argparse.Namespace, base_url: str, runs_dir: Path) -> dict[str, Any]:
    say(f"{options.items} items, {options.at_once} at once, at {base_url}")
    command = [sys.executable, "-c", _RUN, base_url, str(options.items), str(options.at_once), str(runs_dir)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=dict(os.environ))
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _seconds(stats: dict[str, Any]) -> float:
    """First request to last answer; other simulators name their clocks otherwise."""
    first, last = (stats.get(f"{name}_s", stats.get(name)) for name in ("first", "last"))
    return float(last or 0) - float(first or 0)


if __name__ == "__main__":
    sys.exit(main())
