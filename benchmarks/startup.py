"""How fast the command line answers: `autoprompt --help` against `python -c "import typer"`, side by side.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from workbench import CLI, Report

LONGEST_S = 0.3
MOST_TIMES = 3.0


def seconds(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    options = parser.parse_args()
    ours, theirs = [CLI, "--help"], [sys.executable, "-c", "import typer"]
    for command in (ours, theirs):  # once for the disk's sake
        seconds(command)
    # In turns, so that a busy moment of the machine meets both.
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(options.times)]
    help_s, typer_s = (statistics.median(times) for times in zip(*pairs, strict=True))
    report = Report("startup")
    report.add("autoprompt --help, median", f"{help_s:.3f} s", f"< {LONGEST_S} s", help_s < LONGEST_S)
    times = help_s / typer_s
    measured = f"{times:.2f} times {typer_s:.3f} s"
    report.add("... against `import typer`", measured, f"<= {MOST_TIMES:.0f} times", times <= MOST_TIMES)
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
