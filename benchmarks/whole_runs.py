"""Whole runs by the command line: the bill of cached prompts, calls after the win, a small cap, a chat.

    python benchmarks/whole_runs.py                 # about a minute
    python benchmarks/whole_runs.py --json

Each run asks a simulated endpoint of its own, and what it says is held against what the endpoint counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench import Finished, Folder, Report, Server, add_arguments, say, serve, write_rows

from autoprompt.runs.folder import RunFolder

LONG_PROMPT = "Choose the label, 0 or 1. " + "Read the whole line, and mind each word of it. " * 100
BILL_WITHIN = 0.01


def finish(folder: Folder, data: Path, server: Server, flags: Sequence[object]) -> Finished:
    command = folder.run_command(data, server.base_url, "--model", "simulated", *flags)
    finished = folder.finish(command)
    if finished.exit_code:
        say(f"  exit {finished.exit_code}: {finished.last_words}")
    return finished


def cached_bill(report: Report, options: argparse.Namespace, root: Path) -> None:
    """The cost of a long prompt that the endpoint caches, against its own bill."""
    data = write_rows(root / "rows.jsonl", 150)
    prices = ["--set", "price_input=1", "--set", "price_cached_input=0.1", "--set", "price_output=4"]
    with serve(options, data, cached="") as server:
        flags = ["--preset", "quick", "--set", "max_prompt_tokens=12000", "--prompt", LONG_PROMPT, *prices]
        found = finish(Folder(root / "bill"), data, server, flags).result
        bill = server.idle_stats()
    cost, cached = found.get("cost_usd"), bill["cached_tokens"] / max(1, bill["prompt_tokens"])
    is_right = cost is not None and abs(cost - bill["cost"]) <= BILL_WITHIN * bill["cost"]
    report.add(
        f"cost of a prompt of which {cached:.0%} is cached",
        f"${cost:.4f}" if cost else cost,
        f"${bill['cost']:.4f} by the endpoint, within 1%",
        is_right,
    )


def calls_after_the_win(report: Report, options: argparse.Namespace, root: Path) -> None:
    """What a run sends to look for more once a candidate is right on every raced row."""
    data = write_rows(root / "rows.jsonl", 200)
    with serve(options, data, rule_gain=0.5) as server:
        finished = finish(Folder(root / "win"), data, server, ["--preset", "standard"])
    found = finished.result
    events = list(RunFolder(root / "win" / found["run_dir"]).read_events()) if found else []
    won = next((e for e in events if e["event"] == "best_changed" and e["score"] >= 1.0), None)
    if won is None:
        report.add("calls after the win", "no candidate won", "none but the ending's", False)
        return
    # Winner and original, on fresh rows (those of train included) and on the sealed test.
    fresh = found["validation"]["confirmation"]["fresh"]["rows"]
    ending = 2 * fresh + found["original"]["n"] + found["best"]["n"]
    search = found["calls"] - won["calls"] - ending
    report.add(
        f"calls of the search after the win (of {found['calls']}, won at {won['calls']}, ending {ending})",
        search,
        "at most one more round, 100 calls",
        0 <= search <= 100,
    )


def small_cap(report: Report, options: argparse.Namespace, root: Path) -> None:
    """48 rows with three labels, and a cap on tokens, on a model that nobody knows."""
    kinds = {"billing": "my invoice question", "tech": "the app crashes", "sales": "a quote for a licence"}
    data = root / "tickets.jsonl"
    rows = [
        {"input": f"Ticket {n}: {said} about the {('old', 'new')[n % 2]} plan", "target": label}
        for n in range(16)
        for label, said in kinds.items()
    ]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with serve(options, data, rule_gain=0.2) as server:
        flags = ["--max-tokens", 50000, "--prompt", "Which queue: billing, tech or sales?"]
        found = finish(Folder(root / "cap"), data, server, flags).result
        stats = server.idle_stats()
    used = stats["prompt_tokens"] + stats["completion_tokens"]
    said = sum((found.get("tokens") or {}).values())
    report.add(
        "48 rows, a cap of 50,000 tokens, an unknown model",
        f"{said:,} tokens said, verdict {found.get('verdict')}",
        f"{used:,} tokens by the endpoint, at most 50,000, with a verdict",
        bool(found) and said == used <= 50000,
    )


def chat(report: Report, options: argparse.Namespace, root: Path) -> None:
    """A dataset of conversations, optimized end to end."""
    asked = write_rows(root / "rows.jsonl", 150)
    data = root / "chats.jsonl"
    with data.open("w", encoding="utf-8") as lines:
        for line in asked.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            turns = [
                {"role": "user", "content": "Good morning."},
                {"role": "assistant", "content": "Good morning! What is the headline?"},
                {"role": "user", "content": row["input"]},
            ]
            lines.write(json.dumps({"messages": turns, "target": row["target"]}) + "\n")
    with serve(options, asked, rule_gain=0.25) as server:
        flags = ["--input-field", "messages", "--preset", "standard"]
        found = finish(Folder(root / "chat"), data, server, flags).result
    gain: Any = (found.get("gain") or {}).get("value")
    report.add(
        "150 conversations, optimized",
        f"gain {gain}, verdict {found.get('verdict')}, {found.get('calls')} calls",
        "a confirmed gain over 0.1",
        gain is not None and gain > 0.1 and found["verdict"] == "confirmed",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    options = parser.parse_args()
    report = Report("whole runs")
    for measure in (cached_bill, calls_after_the_win, small_cap, chat):
        with tempfile.TemporaryDirectory() as folder:
            say(f"{measure.__name__}:")
            measure(report, options, Path(folder))
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
