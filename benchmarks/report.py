"""The page of a run over many rows: how long it takes, how large it is, how fast its table filters.

    python benchmarks/report.py --rows 5000 --json

Builds the folder of a run with so many test rows (headlines of about 60 characters; --length for longer ones)
and 60 candidates, makes its page in this process after the imports, opens it in an installed Chromium and
times each filter, search and sort from the event until the table stands and is laid out. Exit code 1 where a
bound is passed: 3 s, 8 MB, 200 ms.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workbench import say, write_rows

from autoprompt.records import EvaluatedRow, Usage
from autoprompt.report import read_summary
from autoprompt.report.html import environment, page
from autoprompt.runs import RunFolder, RunStore

BOUND_S, BOUND_MB, BOUND_MS = 3.0, 8.0, 200.0
CANDIDATES, RACED = 60, 400

# Dispatches what a user does, and waits until the browser has laid the table out.
_TIMED = """async ([kind, value]) => {
  const part = document.querySelector('.rows');
  const begin = performance.now();
  if (kind === 'filter') part.querySelector(`[data-filter="${value}"]`).click();
  if (kind === 'sort') part.querySelector(`th[data-sort="${value}"] button`).click();
  if (kind === 'label') {
    const select = part.querySelector('[data-label]');
    select.value = value; select.dispatchEvent(new Event('change'));
  }
  if (kind === 'search') {
    const input = part.querySelector('[data-search]');
    input.value = value; input.dispatchEvent(new Event('input'));
  }
  part.querySelector('.rows-table').getBoundingClientRect();
  return performance.now() - begin;
}"""
_STEPS = (
    ("filter", "fixed"),
    ("filter", "broken"),
    ("filter", "wrong"),
    ("filter", "unparsed"),
    ("filter", "all"),
    ("label", "1"),
    ("label", ""),
    ("search", "railway"),
    ("search", "no such row"),
    ("search", ""),
    ("sort", "state"),
    ("sort", "input"),
)


def build_run(runs: Path, count: int, length: int) -> RunFolder:
    """A finished run whose files hold what the optimizer writes, with answers drawn at random."""
    rng = random.Random(0)
    folder = RunStore(runs).create(
        {
            "dataset": Path("headlines.jsonl"),
            "prompt": "Choose 0 or 1.",
            "labels": ["0", "1"],
            "max_test": count,
        }
    )
    rows = _rows(runs, count, length)
    sides = {name: _answered(rows, chance, rng) for name, chance in (("original", 0.6), ("best", 0.85))}
    for name, answered in sides.items():
        folder.write_predictions(f"test-{name}", answered)
    _write_search(folder, rng)
    folder.write_result(_result(sides))
    return folder


def _rows(runs: Path, count: int, length: int) -> list[dict[str, str]]:
    lines = write_rows(runs / "rows.jsonl", count).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    filler = " and so on" * max(0, (length - 60) // 10)
    return [{**row, "input": row["input"] + filler} for row in rows]


def _answered(rows: list[dict[str, str]], chance: float, rng: random.Random) -> list[EvaluatedRow]:
    answered = []
    for number, row in enumerate(rows):
        is_right, is_unread = rng.random() < chance, rng.random() < 0.01
        answer = row["target"] if is_right else str(1 - int(row["target"]))
        is_correct = is_right and not is_unread
        answered.append(
            EvaluatedRow(
                f"row{number:06d}",
                row["input"],
                answer,
                row["target"],
                is_correct,
                float(is_correct),
                "" if is_correct else f"expected {row['target']}",
                is_unparsed=is_unread,
                usage=Usage(60, 2),
            )
        )
    return answered


def _write_search(folder: RunFolder, rng: random.Random) -> None:
    raced = [f"val{number}" for number in range(RACED)]
    best = "0" * 12
    folder.append_event({"event": "run_started", "max_iterations": 10, "lessons_read": [], "warnings": []})
    for number in range(CANDIDATES):
        name = f"{number:012d}"
        scores = {row: float(rng.random() < 0.6 + number / 400) for row in raced}
        record = {
            "id": name,
            "operator": "patch" if number else "original",
            "iteration": (number + 5) // 6,
            "parents": [best] if number else [],
            "change": {"added": f"rule {number}"} if number else {},
            "components": {"prompt": "Choose 0 or 1. " + " ".join(f"Mind rule {n}." for n in range(number))},
            "demos": [{"input": f"item {n}", "output": str(n % 2)} for n in range(16)] if number else [],
            "status": "accepted" if number % 6 == 0 else "rejected",
            "scores": scores,
            "confidence": {},
            "step": number,
        }
        folder.append_candidates([record])
        if number:
            told = {"id": name, "score": sum(scores.values()) / RACED, "rows": RACED, "calls": 400 * number}
            folder.append_event({"event": "candidate_settled", "accepted": number % 6 == 0, **told})
            change = f"added: rule {number}"
            lesson = {"change": change, "verdict": "better", "gain": 0.02, "rows": RACED}
            folder.append_event(
                {"event": "lesson", "text": f"[better +0.02 on {RACED} rows] {change}", **lesson}
            )
            if number % 6 == 0:
                best = name
                folder.append_event({"event": "best_changed", "original_score": 0.6, **told})


def _result(sides: dict[str, list[EvaluatedRow]]) -> dict[str, Any]:
    parts = {}
    for name, rows in sides.items():
        score = sum(row.score for row in rows) / len(rows)
        parts[name] = {
            "score": score,
            "ci95": [score - 0.01, score + 0.01],
            "n": len(rows),
            "tokens_per_call": 62.0,
        }
    pairs = list(zip(sides["original"], sides["best"], strict=True))
    return {
        "status": "finished",
        "stop_reason": "max_iterations",
        "verdict": "confirmed",
        "message": "",
        "metric": "exact_match",
        "original": parts["original"],
        "best": {
            **parts["best"],
            "id": f"{CANDIDATES - CANDIDATES % 6 - 6:012d}",
            "is_original": False,
            "components": {},
            "demos": [],
        },
        "gain": {"value": 0.25, "ci95": [0.23, 0.27]},
        "p_value": 0.0,
        "fixed": sum(a.score < b.score for a, b in pairs),
        "broken": sum(a.score > b.score for a, b in pairs),
        "calls": 400 * CANDIDATES,
        "tokens": {"task": 1_000_000, "optimizer": 50_000},
        "cost_usd": 0.0,
        "seconds": 100.0,
        "model": "simulated",
        "optimizer_model": "simulated",
    }


def make_page(folder: RunFolder, path: Path) -> dict[str, float]:
    environment()  # jinja2 is an import, too
    begin = time.perf_counter()
    text = page(read_summary(folder))
    path.write_text(text, encoding="utf-8")
    return {"seconds": round(time.perf_counter() - begin, 3), "mb": round(path.stat().st_size / 1e6, 2)}


def filter_times(path: Path) -> dict[str, float]:
    """Milliseconds of each step, the longest of three rounds; {} where there is no browser."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        say("no Chromium here: `make browser` installs it")
        return {}
    from playwright.sync_api import sync_playwright

    times: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.goto(path.as_uri())
        for _ in range(3):
            for kind, value in _STEPS:
                name = f"{kind} {value or 'none'}"
                times[name] = round(max(times.get(name, 0.0), opened.evaluate(_TIMED, [kind, value])), 1)
        browser.close()
    return times


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--length", type=int, default=60, help="characters of an input, about")
    parser.add_argument("--keep", type=Path, help="write the page here as well")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = build_run(Path(temporary), options.rows, options.length)
        path = options.keep or Path(temporary) / "report.html"
        figures: dict[str, Any] = make_page(folder, path.absolute())
        figures["filters_ms"] = filter_times(path.absolute())
    slowest = max(figures["filters_ms"].values(), default=0.0)
    if options.json:
        print(json.dumps({"rows": options.rows, **figures, "slowest_ms": slowest}))
    else:
        made = f"made in {figures['seconds']} s, {figures['mb']} MB"
        print(f"{options.rows:,} rows: {made}, filters up to {slowest} ms")
    return int(figures["seconds"] > BOUND_S or figures["mb"] > BOUND_MB or slowest > BOUND_MS)


if __name__ == "__main__":
    sys.exit(main())
