"""What the sandbox costs and what it leaves: side by side with plain Python, then many runs at once.

    python benchmarks/sandbox_overhead.py [--runs 30] [--soak 200] [--at-once 8]

Plain Python is `subprocess.run([python, script])` in the same folder. The two take turns, so that whatever
else the machine does falls on both. Processor time, of all processes of a run, says more on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autoprompt.sandbox import Level, Limits, offers, probe, run, works

TARGET_MS = 150
CODE = "print(sum(range(10)))"
# What experiments are like: an ordinary one, one that leaves a child, one that hangs.
SOAK = (
    CODE,
    "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nopen('made', 'w').close()",
    "import time\ntime.sleep(60)",
)


def milliseconds(action: Callable[[], object]) -> float:
    return both(action)[0]


def both(action: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds by the clock, and of processors by the processes started."""
    started, used = time.perf_counter(), processor_s()
    action()
    return (time.perf_counter() - started) * 1000, (processor_s() - used) * 1000


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(level: Level, runs: int) -> list[tuple[float, float, float, float]]:
    """Of each pair of runs: plain and sandbox by the clock, plain and sandbox by the processor."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        script = work / "plain.py"
        script.write_text(CODE, encoding="utf-8")

        def plain() -> None:
            subprocess.run([sys.executable, str(script)], capture_output=True, check=True, cwd=work)

        def confined() -> None:
            assert run(CODE, workdir=work, level=level).stdout == "45\n"

        plain()
        confined()
        pairs = [(both(plain), both(confined)) for _ in range(runs)]
    return [(plain[0], confined[0], plain[1], confined[1]) for plain, confined in pairs]


def state(temporary: Path) -> dict[str, int]:
    """What a run could leave on this machine."""
    tasks = Path("/proc/self/task").iterdir()
    return {
        "children": sum(len((task / "children").read_text(encoding="ascii").split()) for task in tasks),
        "processes of other users": sum(1 for uid in _owners() if uid >= 0x70000000),
        "mounts": Path("/proc/self/mountinfo").read_text(encoding="utf-8").count("\n"),
        "open files": len(list(Path("/proc/self/fd").iterdir())),
        "temporary files": len(list(temporary.iterdir())),
    }


def _owners() -> list[int]:
    owners = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            owners.append(folder.stat().st_uid)
        except OSError:
            continue
    return owners


def soak(level: Level, runs: int, at_once: int) -> None:
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as temporary:
        tempfile.tempdir = temporary
        before = state(Path(temporary))

        def one(number: int) -> float:
            code = SOAK[number % len(SOAK)]
            result = run(code, workdir=Path(work, str(number)), level=level, limits=Limits(wall_s=1.0))
            assert result.timed_out == (code == SOAK[2]), result
            return result.duration_s

        with ThreadPoolExecutor(at_once) as pool:
            longest = max(pool.map(one, range(runs)))
        tempfile.tempdir = None
        after = state(Path(temporary))
    left = {name: after[name] - before[name] for name in before}
    print(f"  {runs} runs, {at_once} at once: longest {longest:.2f} s at a limit of 1 s; left behind: {left}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--soak", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8)
    options = parser.parse_args()
    print(f"probe: {probe()} in {milliseconds(probe.__wrapped__):.0f} ms; {os.cpu_count()} processors")
    worst = 0.0
    for level in [*filter(works, offers().levels()), Level()]:
        columns = zip(*measure(level, options.runs), strict=True)
        plain, confined, plain_used, used = (statistics.median(times) for times in columns)
        worst = max(worst, confined - plain)
        print(
            f"{level}: plain {plain:.1f} ms, sandbox {confined:.1f} ms, "
            f"{confined / plain:.2f} times, {confined - plain:+.1f} ms; processor {plain_used:.1f} and "
            f"{used:.1f} ms (medians of {options.runs})"
        )
        if level.confines and options.soak:
            soak(level, options.soak, options.at_once)
    print(f"target: under {TARGET_MS} ms more; worst {worst:.1f} ms")
    return 0 if worst < TARGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
