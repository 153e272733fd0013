"""Endpoints that misbehave, are not there, die, are out for a while or never answer: what a run makes of it.

    python benchmarks/faults.py
    python benchmarks/faults.py --only mixed --seeds 5

mixed: 20% 429, 5% 500, 3% dropped, 3% empty, 2% garbage, against the same run without faults. Scores may
differ only where the run reports rows as failed or unparsed. absent: exit 4 within 30 s. dies: exit 4, then
`resume` at a server that is back, with the result of a run that was not disturbed. hangs: `timeout`.
outage: HTTP 503 for 20 s, under a cap on calls: what it may cost of it, and no row.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from workbench import (
    ENDPOINT,
    Finished,
    Folder,
    Report,
    Server,
    add_arguments,
    differences,
    free_port,
    say,
    serve,
    write_rows,
)

MIXED = {"p429": 0.20, "p500": 0.05, "pdrop": 0.03, "pempty": 0.03, "pgarbage": 0.02}
# What retries cost is not what a run found; message and tokens_per_call count empty answers' tokens.
SPENDING = ("calls", "repeated_calls", "tokens", "cost_usd", "message", "tokens_per_call", "spending")
EXIT_ENDPOINT = 4
ABSENT_S = 30.0
DIES_AFTER = 400
OUT_AFTER, OUT_S, OUT_MOST, CAP = 150, 20.0, 40, 500
CASES = ("mixed", "absent", "dies", "hangs", "outage")


def found(result: dict[str, Any]) -> dict[str, Any]:
    """The result, of dictionaries in it too, without what was spent."""
    kept = {name: value for name, value in result.items() if name not in SPENDING}
    return {name: found(value) if isinstance(value, dict) else value for name, value in kept.items()}


def unanswered(folder: Folder) -> list[str]:
    """Why calls were never answered, or with nothing in it: their rows are reported as failed or unparsed."""
    lines = (folder.run_dirs()[-1] / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [r.get("failed", "empty") for r in records if "failed" in r or not r["text"].strip()]


def compare(
    report: Report, what: str, whole: Finished, finished: Finished, folder: Folder, server: Server
) -> None:
    if finished.exit_code != 0:
        report.add(what, f"exit {finished.exit_code}: {finished.last_words}", "ends well", False)
        return
    differing = differences(found(whole.result), found(finished.result))
    rows, calls = unanswered(folder), finished.result["calls"]
    requests = server.idle_stats()["requests"]
    same = "same result" if not differing else "differs: " + "; ".join(differing)[:600]
    for reason in rows:
        say(f"  {reason}")
    measured = (
        f"{same}; {len(rows)} rows failed or unparsed; {calls} calls ({whole.result['calls']} undisturbed)"
    )
    report.add(
        what,
        f"{measured}, {finished.seconds:.0f} s",
        "same result, but for such rows",
        not differing or bool(rows),
    )
    if calls != requests:
        report.add(f"{what}: calls counted", calls, f"the server's own count, {requests}", False)


def mixed(options: argparse.Namespace, flags: list[str], root: Path, data: Path, report: Report) -> None:
    with serve(options, data) as server:
        whole = undisturbed(root, data, server, flags)
    for seed in range(options.seeds):
        # Another server draws its faults as it likes, anew each time.
        own = {"fault_seed": seed} if options.server == ENDPOINT else {}
        with serve(options, data, **own, **MIXED) as server:
            folder = Folder(root / f"mixed-{seed}")
            finished = folder.finish(folder.run_command(data, server.base_url, *flags))
            compare(report, f"mixed faults, seed {seed}", whole, finished, folder, server)


def absent(_: argparse.Namespace, flags: list[str], root: Path, data: Path, report: Report) -> None:
    for name, more in (
        ("", []),
        (", model named, nothing to ask first", ["--model", "some", "--set", "constrain=off"]),
    ):
        folder = Folder(root / f"absent{len(more)}")
        url = f"http://127.0.0.1:{free_port()}/v1"
        finished = folder.finish(folder.run_command(data, url, *more, *flags))
        is_kept = finished.exit_code == EXIT_ENDPOINT and finished.seconds < ABSENT_S
        is_kept = is_kept and "--base-url" in finished.stderr
        measured = f"exit {finished.exit_code} after {finished.seconds:.1f} s: {finished.last_words}"
        report.add(f"no endpoint{name}", measured, "exit 4 within 30 s, says what to do", is_kept)


def dies(options: argparse.Namespace, flags: list[str], root: Path, data: Path, report: Report) -> None:
    port = free_port()
    folder = Folder(root / "dies")
    with serve(options, data) as server:
        whole = undisturbed(root, data, server, flags)
    with serve(options, data, port=port) as server:
        threading.Thread(target=stop_after, args=(server, DIES_AFTER), daemon=True).start()
        finished = folder.finish(folder.run_command(data, server.base_url, *flags))
    measured = f"exit {finished.exit_code} after {finished.seconds:.0f} s: {finished.last_words}"
    is_kept = finished.exit_code == EXIT_ENDPOINT and "resume" in finished.stderr
    report.add(f"endpoint dies after {DIES_AFTER} answers", measured, "exit 4, says how to go on", is_kept)
    with serve(options, data, port=port) as server:
        resumed = folder.finish(folder.resume_command(folder.run_dirs()[-1].name))
    if resumed.exit_code != 0:
        report.add(
            "... and is back: resume", f"exit {resumed.exit_code}: {resumed.last_words}", "ends well", False
        )
        return
    differing = differences(found(whole.result), found(resumed.result))
    report.add("... and is back: resume", "; ".join(differing) or "same result", "same result", not differing)


def hangs(options: argparse.Namespace, flags: list[str], root: Path, data: Path, report: Report) -> None:
    with serve(options, data) as server:
        whole = undisturbed(root, data, server, flags)
    with serve(options, data, phang=0.02) as server:
        folder = Folder(root / "hangs")
        command = folder.run_command(data, server.base_url, "--set", "timeout=1", *flags)
        finished = folder.finish(command)
        differing = differences(found(whole.result), found(finished.result))
        measured = "; ".join(differing) or f"same result, {finished.seconds:.0f} s"
        is_kept = finished.exit_code == 0 and (not differing or bool(unanswered(folder)))
        report.add("2% never answered, timeout 1", measured, "ends well, same result", is_kept)
    with serve(options, data, phang=1) as server:
        folder = Folder(root / "hangs-all")
        finished = folder.finish(folder.run_command(data, server.base_url, "--set", "timeout=1", *flags))
        measured = f"exit {finished.exit_code} after {finished.seconds:.1f} s: {finished.last_words}"
        is_kept = finished.exit_code == EXIT_ENDPOINT and finished.seconds < 90
        report.add("nothing is ever answered, timeout 1", measured, "exit 4 within 90 s", is_kept)


def outage(options: argparse.Namespace, flags: list[str], root: Path, data: Path, report: Report) -> None:
    with serve(options, data, out_after=OUT_AFTER, out_s=OUT_S) as server:
        folder = Folder(root / "outage")
        command = folder.run_command(data, server.base_url, "--max-calls", CAP, *flags)
        finished = folder.finish(command)
        stats = server.idle_stats()
    if finished.exit_code != 0:
        report.add("outage", f"exit {finished.exit_code}: {finished.last_words}", "ends well", False)
        return
    cost, lost = stats["faults"].get("503", 0), len(unanswered(folder))
    measured = (
        f"{cost} of {CAP} calls, {lost} rows; {stats['requests']} requests; {finished.result['message']}"
    )
    is_kept = 0 < cost <= OUT_MOST and not lost and stats["requests"] <= CAP
    bound = f"at most {OUT_MOST} of {CAP} calls, no row, sealed test opened"
    report.add(f"{OUT_S:.0f} s of 503", measured, bound, is_kept and finished.result["best"]["n"] > 0)


def stop_after(server: Server, answers: int) -> None:
    while server.stats()["answered"] < answers:
        time.sleep(0.01)
    server.stop()


def undisturbed(root: Path, data: Path, server: Server, flags: list[str]) -> Finished:
    """The run without faults; done once."""
    folder = Folder(root / "undisturbed")
    runs = folder.run_dirs()
    command = (
        folder.resume_command(runs[-1].name) if runs else folder.run_command(data, server.base_url, *flags)
    )
    finished = folder.finish(command)
    if finished.exit_code != 0:
        raise SystemExit(f"the undisturbed run failed: {finished.last_words}")
    say(f"undisturbed: {finished.result['calls']} calls; {finished.result['message']}")
    return finished


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--only", choices=CASES, action="append", help="default: all")
    parser.add_argument("--seeds", type=int, default=3, help="how often the mixed faults are drawn")
    parser.add_argument("--rows", type=int, default=200)
    options, flags = parser.parse_known_args()
    report = Report("faults")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        data = options.data or write_rows(root / "rows.jsonl", options.rows)
        for name, case in zip(CASES, (mixed, absent, dies, hangs, outage), strict=True):
            if name in (options.only or CASES):
                case(options, flags, root, data, report)
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
