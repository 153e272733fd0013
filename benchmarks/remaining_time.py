"""How far the time that a run says is left is from the time that it takes: at 25, 50 and 75% of five runs.

    python benchmarks/remaining_time.py                 # about six minutes
    python benchmarks/remaining_time.py --only 2 --seeds 3

Runs differ in the endpoint's latency, the rows, the preset, the requests at once and the cap. Each asks a
simulated endpoint of its own, and what the panel shows as "to the end" is read ten times a second. At each of
the three moments it must be within a factor of 2 of what is left.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import PROMPT, Report, add_arguments, say, serve, write_rows

from autoprompt import RunConfig, optimize
from autoprompt.cli.live import RunView

WITHIN = 2.0
MOMENTS = (0.25, 0.5, 0.75)
EVERY_S = 0.1


@dataclass(frozen=True)
class Kind:
    """One of the runs. server: flags of the endpoint."""

    name: str
    rows: int
    latency: float
    settings: dict[str, Any]


KINDS = (
    Kind("quick, 200 rows, 0.3 s, 8 at once", 200, 0.3, {"preset": "quick", "concurrency": 8}),
    Kind("quick, 60 rows, 0.15 s, one by one", 60, 0.15, {"preset": "quick", "concurrency": 1}),
    Kind("standard, 300 rows, 0.2 s, 16 at once", 300, 0.2, {"preset": "standard", "concurrency": 16}),
    Kind("thorough, 120 rows, 0.5 s, 32 at once", 120, 0.5, {"preset": "thorough", "concurrency": 32}),
    Kind(
        "standard, 400 rows, 0.1 s, 4 at once, 900 calls",
        400,
        0.1,
        {"preset": "standard", "concurrency": 4, "max_calls": 900},
    ),
)


@contextmanager
def sampling(progress: RunView, samples: list[tuple[float, float | None]]) -> Iterator[None]:
    """Note what is promised, again and again: moment and seconds left."""
    ended = threading.Event()

    def note() -> None:
        while not ended.wait(EVERY_S):
            samples.append((time.monotonic(), progress.seconds_left))

    thread = threading.Thread(target=note, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def ratios(
    kind: Kind, options: argparse.Namespace, folder: Path, seed: int
) -> tuple[float, list[float | None]]:
    """Seconds of the run, and estimate / actual at each moment; None where nothing was promised."""
    rows = write_rows(folder / "rows.jsonl", kind.rows, seed=seed)
    progress, samples = RunView(), list[tuple[float, float | None]]()
    with serve(options, rows, latency=kind.latency) as server:
        config = RunConfig(
            dataset=rows,
            prompt=PROMPT,
            model="simulated",
            base_url=server.base_url,
            runs_dir=folder / "runs",
            memory_file=folder / "memory.txt",
            cache_dir=folder / "cache",
            seed=seed,
            **kind.settings,
        )
        began = time.monotonic()
        with sampling(progress, samples):
            result = optimize(config, on_event=progress.add)
    ended = time.monotonic()
    data = result.to_dict()
    say(f"{kind.name}, seed {seed}: {ended - began:.1f} s, {data['calls']} calls, {data['stop_reason']}")
    found: list[float | None] = []
    for moment in MOMENTS:
        at = began + moment * (ended - began)
        place = min(bisect_left([when for when, _ in samples], at), len(samples) - 1)
        when, left = samples[place]
        found.append(None if left is None else left / (ended - when))
    return ended - began, found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", type=int, action="append", metavar="N", help="the Nth run alone, from 1")
    options = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "none")
    report = Report("remaining time")
    for number, kind in enumerate(KINDS, 1):
        if options.only and number not in options.only:
            continue
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                seconds, found = ratios(kind, options, Path(folder), seed)
            shown = ", ".join("nothing" if ratio is None else f"{ratio:.2f}" for ratio in found)
            is_near = all(ratio is not None and 1 / WITHIN <= ratio <= WITHIN for ratio in found)
            report.add(
                f"{kind.name}, seed {seed}, {seconds:.0f} s",
                f"estimate / actual {shown}",
                "0.5 to 2 at 25, 50 and 75%",
                is_near,
            )
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
