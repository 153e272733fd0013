"""A batch killed in the middle and run again, a budget that eight trials share, two hundred trials.

    python benchmarks/batch_kill.py                        # all but Ray
    python benchmarks/batch_kill.py --only kill --latency 0.1
    python benchmarks/batch_kill.py --only ray             # needs the extra `ray`; starts two nodes here

kill: 24 trials, 2 at a time; `kill -9` of the driver in the middle, run again. Wanted: every row, the numbers
of the uninterrupted batch, and no request sent again but those that were on the wire.
budget: 8 trials at a time on a batch budget of 1,000 calls: the endpoint counts.
many: 200 trials; the driver's memory against that of 20.
ray: the 24 trials over a cluster of two nodes, of which one worker is killed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workbench import CLI, PROMPT, Finished, Folder, Report, Server, add_arguments, say, serve, write_rows

CASES = ("kill", "budget", "many", "ray")
AT_ONCE = 16  # requests of one trial on the wire
OF_THIS_GO = ("seconds", "run_dir", "sent", "paid_usd", "how", "attempts")
FLAT_MB = 15.0


def write_batch(folder: Folder, data: Path, base_url: str, name: str, spec: dict[str, Any]) -> Path:
    """The batch file of a case. JSON is YAML."""
    defaults = {
        "dataset": str(data),
        "prompt": PROMPT,
        "base_url": base_url,
        "cache_dir": "cache",
        "no_memory": True,
        "preset": "quick",
        "concurrency": AT_ONCE,
    }
    path = folder.path / f"{name}.yaml"
    spec = {**spec, "defaults": {**defaults, **spec.get("defaults", {})}}
    path.write_text(json.dumps(spec, indent=1), encoding="utf-8")
    return path


def matrix(trials: int) -> dict[str, Any]:
    return {"matrix": {"max_demos": [0, 16], "seed": list(range(trials // 2))}}


def batch_command(path: Path, *flags: object) -> list[str]:
    return [CLI, "batch", str(path), "--json", "--quiet", *map(str, flags)]


def journaled(folder: Folder, name: str) -> int:
    """Answers that are in the journals of a batch: whole lines that a request of this trial has brought."""
    lines = 0
    for path in (folder.path / "runs" / name).glob("*/journal.jsonl"):
        lines += sum(line.endswith(b"\n") for line in path.open("rb"))
    return lines


def cached(folder: Folder) -> int:
    import sqlite3

    with sqlite3.connect(folder.path / "cache" / "responses.sqlite") as database:
        (count,) = database.execute("SELECT count(*) FROM answers").fetchone()
    return int(count)


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Trial -> its row, without what may differ between two goes."""
    return {
        row["trial"]: {k: v for k, v in row.items() if k not in OF_THIS_GO} for row in found.get("rows", ())
    }


def different(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    a, b = rows(one), rows(other)
    names = sorted({*a, *b})
    return [name for name in names if a.get(name) != b.get(name)]


def orphans(folder: Folder) -> int:
    """Trial processes of this folder that live on."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    pids = [line.split()[0] for line in found.splitlines() if "autoprompt.batch.executor" in line]
    return sum(_stands_in(pid, folder.path) for pid in pids)


def _stands_in(pid: str, path: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").resolve() == path.resolve()
    except OSError:
        return False


def checked(finished: Finished, what: str) -> dict[str, Any]:
    if finished.exit_code != 0:
        raise SystemExit(f"{what} failed with {finished.exit_code}: {finished.stderr[-2000:]}")
    return finished.result


def wait_for(server: Server, answered: int, *, in_flight: int) -> None:
    """Until the endpoint has answered so many, and so many are on the wire: in the middle of a trial."""
    while (stats := server.stats())["answered"] < answered or stats["in_flight"] < in_flight:
        time.sleep(0.01)


def whole_batch(root: Path, data: Path, server: Server, trials: int) -> tuple[dict[str, Any], int]:
    """The uninterrupted batch, to compare with, and half of its requests."""
    folder = Folder(root / "whole")
    server.reset()
    path = write_batch(folder, data, server.base_url, "b", {**matrix(trials), "executor": {"jobs": 2}})
    finished = folder.finish(batch_command(path))
    result = checked(finished, "the uninterrupted batch")
    stats = server.idle_stats()
    say(f"uninterrupted: {finished.seconds:.0f} s, {stats['requests']} requests, "
        f"{stats['repeated_answers']} of them repeated")  # fmt: skip
    return result, stats["requests"] // 2


def killed(report: Report, root: Path, data: Path, server: Server, trials: int) -> None:
    whole, half = whole_batch(root, data, server, trials)
    folder = Folder(root / "killed")
    server.reset()
    path = write_batch(folder, data, server.base_url, "b", {**matrix(trials), "executor": {"jobs": 2}})
    running = folder.start(batch_command(path))
    wait_for(server, half, in_flight=AT_ONCE)
    running.kill()
    running.wait()
    gone_s = time.monotonic()
    while orphans(folder):
        time.sleep(0.02)
    gone_s = time.monotonic() - gone_s
    at_kill = server.idle_stats()
    lost = at_kill["answered"] - cached(folder)
    again = folder.finish(batch_command(path))
    result = checked(again, "the batch, run again")
    stats = server.idle_stats()
    counts = result["trials"]
    report.add("rows after kill -9 and again", f"{counts['finished']} of {trials} finished", "all",
               counts["finished"] == trials)  # fmt: skip
    found = different(whole, result)
    report.add("numbers against uninterrupted", f"{len(found)} rows differ", "none", not found)
    how = sum(row["how"] == "resumed" for row in result["rows"])
    report.add("killed at", f"{at_kill['answered']} answers; {how} trials resumed", "in the middle", how > 0)
    said = f"{stats['repeated_answers']} answers sent again, {lost} were on the wire at the kill"
    is_kept = stats["repeated_answers"] <= lost <= 2 * AT_ONCE
    report.add("answered requests sent again", said, "none but those on the wire", is_kept)
    report.add("trial processes after the kill", f"gone after {gone_s:.2f} s", "5 s", gone_s < 5)
    unsent = result["sent"] - stats["requests"]
    said = f"{result['sent']} sent, the endpoint received {stats['requests']}"
    report.add(
        "ledger", said, "equal, but for those entered and not sent at the kill", 0 <= unsent <= 2 * AT_ONCE
    )


def budget(report: Report, root: Path, data: Path, server: Server, calls: int = 1000) -> None:
    folder = Folder(root / "budget")
    server.reset()
    spec = {"matrix": {"seed": list(range(8))}, "executor": {"jobs": 8}, "max_calls": calls,
            "defaults": {"no_cache": True}}  # fmt: skip
    path = write_batch(folder, data, server.base_url, "b", spec)
    result = folder.finish(batch_command(path)).result
    stats = server.idle_stats()
    counts = result["trials"]
    said = f"the endpoint received {stats['requests']}; {counts['finished']} trials finished"
    report.add(f"max_calls={calls} over 8 trials at once", said, f"at most {calls}",
               stats["requests"] <= calls and counts["finished"] > 0)  # fmt: skip


def many(report: Report, root: Path, data: Path, server: Server, trials: int) -> None:
    peaks = {}
    for count in (20, trials):
        folder = Folder(root / f"many-{count}")
        server.reset()
        spec = {**matrix(count), "executor": {"jobs": 2}, "defaults": {"max_iterations": 1, "max_val": 12,
                "max_test": 8}}  # fmt: skip
        path = write_batch(folder, data, server.base_url, "b", spec)
        finished = folder.start(batch_command(path)).wait(timeout_s=7200)
        result = checked(finished, f"{count} trials")
        peaks[count] = finished.peak_mb
        say(f"{count} trials: {finished.seconds:.0f} s, driver at most {finished.peak_mb:.0f} MB")
        with (folder.path / "runs" / "b" / "table.csv").open(encoding="utf-8", newline="") as lines:
            written = sum(line["status"] == "finished" for line in csv.DictReader(lines))
    shown = folder.finish([CLI, "runs", "show", "b"]).stdout
    widest = max(map(len, shown.splitlines()))
    report.add(f"driver's memory, {trials} trials against 20", f"{peaks[trials]:.0f} and {peaks[20]:.0f} MB",
               f"at most {FLAT_MB:.0f} MB more", peaks[trials] - peaks[20] <= FLAT_MB)  # fmt: skip
    report.add("table", f"{len(shown.splitlines())} lines of at most {widest} columns", "under 60 lines",
               len(shown.splitlines()) < 60)  # fmt: skip
    report.add("CSV", f"{written} rows, {result['trials']['finished']} finished", str(trials),
               written == trials)  # fmt: skip


def over_ray(report: Report, root: Path, data: Path, server: Server, trials: int) -> None:
    whole, _ = whole_batch(root / "for-ray", data, server, trials)
    folder = Folder(root / "ray")
    server.reset()
    address, cluster = start_cluster(folder)
    try:
        executor = {"kind": "ray", "address": address, "jobs": 2}
        spec = {**matrix(trials), "executor": executor}
        path = write_batch(folder, data, server.base_url, "b", spec)
        running = folder.start(batch_command(path))
        victim = kill_worker(server, cluster)
        result = checked(running.wait(), "the batch over Ray")
    finally:
        cluster.communicate("end\n", timeout=120)
    stats = server.idle_stats()
    counts = result["trials"]
    report.add(f"rows over Ray, worker {victim} killed", f"{counts['finished']} of {trials} finished", "all",
               counts["finished"] == trials)  # fmt: skip
    found = different(whole, result)
    report.add("numbers against local processes", f"{len(found)} rows differ", "none", not found)
    how = [row["how"] for row in result["rows"] if "lost" in row["how"]]
    report.add("the row says", "; ".join(how) or "nothing", "resumed", len(how) == 1)
    said = f"{stats['repeated_answers']} answers sent again"
    report.add("answered requests sent again", said, f"at most the {AT_ONCE} on the wire",
               stats["repeated_answers"] <= AT_ONCE)  # fmt: skip


_CLUSTER = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ |= {"RAY_health_check_timeout_ms": "60000", "RAY_health_check_failure_threshold": "20"}
from ray.cluster_utils import Cluster

def patiently(start):
    for left in range(5):
        try:
            return start()
        except Exception as error:
            if "timed out" not in str(error):
                raise

cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 1}))
patiently(lambda: cluster.add_node(num_cpus=1))
print("ADDRESS", cluster.address, flush=True)
sys.stdin.readline()
cluster.shutdown()
"""


def start_cluster(folder: Folder) -> tuple[str, subprocess.Popen[str]]:
    """Two nodes in processes of this machine; ends when it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=folder.environment,
    )
    for line in process.stdout or ():
        if line.startswith("ADDRESS"):
            return line.split()[1], process
    raise SystemExit("the Ray cluster did not start")


def kill_worker(server: Server, cluster: subprocess.Popen[str], *, after: int = 800) -> str:
    """`kill -9` of one task's process once the endpoint has answered so much; the name of its trial."""
    while server.stats()["answered"] < after:
        time.sleep(0.05)
    while cluster.poll() is None:
        found = subprocess.run(
            ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
        ).stdout
        match = re.search(r"^\s*(\d+) ray::autoprompt (\S+)", found, re.MULTILINE)
        if match:
            os.kill(int(match.group(1)), signal.SIGKILL)
            return match.group(2)
        time.sleep(0.05)
    raise SystemExit("the Ray cluster ended")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--many", type=int, default=200, metavar="TRIALS")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--latency", type=float, default=0.1, metavar="SECONDS")
    options = parser.parse_args()
    chosen = options.only or [case for case in CASES if case != "ray"]
    report = Report("a batch killed and run again")
    root = Path(tempfile.mkdtemp())
    try:
        data = options.data or write_rows(root / "rows.jsonl", options.rows)
        with serve(options, data, latency=options.latency) as server:
            for case in chosen:
                if case == "kill":
                    killed(report, root, data, server, options.trials)
                elif case == "budget":
                    budget(report, root, data, server)
                elif case == "many":
                    many(report, root, data, server, options.many)
                else:
                    over_ray(report, root, data, server, options.trials)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
