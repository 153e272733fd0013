"""What a run takes of disk and memory as its dataset grows, and two runs that write one experience file.

    python benchmarks/footprint.py
    python benchmarks/footprint.py --only checkpoints --server PROGRAM

checkpoints: files of the checkpointer, write-ahead log included, in a run of 5 rounds with 200 and with
20,000 rows: the most they took while it ran, and what they take when it is over. memory: the most that the
process held with 100,000 rows. lessons: two runs at once on one experience file, and eight processes that
write to it as fast as they can. Always on servers of its own: each case has its own rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from workbench import Folder, Report, add_arguments, serve, write_rows

from autoprompt.memory import Experience, ExperienceFile
from autoprompt.records import Change

ROUNDS = 5
FEW, MANY, VERY_MANY = 200, 20_000, 100_000
MOST_MORE, MOST_MORE_BYTES = 1.10, 64 * 1024
MOST_MB = 600
WRITERS, LESSONS_EACH = 8, 20


def checkpoint_bytes(folder: Folder) -> int:
    sizes = 0
    for path in (folder.path / "runs").glob("*/checkpoints.sqlite*"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:  # the log has just been folded in
            continue
    return sizes


class Watch(threading.Thread):
    """The most that the checkpoint files took together while the block ran."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(daemon=True)
        self._folder, self._over = folder, threading.Event()
        self.most = 0

    def run(self) -> None:
        while not self._over.wait(0.01):
            self.most = max(self.most, checkpoint_bytes(self._folder))

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def checkpoints(options: argparse.Namespace, flags: list[str], root: Path, report: Report) -> None:
    most, left = {}, {}
    for count in (FEW, MANY):
        data = write_rows(root / f"rows-{count}.jsonl", count)
        folder = Folder(root / f"checkpoints-{count}")
        with serve(options, data, latency=0.005) as server, Watch(folder) as watch:
            command = folder.run_command(data, server.base_url, "--set", f"max_iterations={ROUNDS}", *flags)
            finished = folder.finish(command)
        rounds = finished.result.get("iterations")
        is_whole = finished.exit_code == 0 and rounds == ROUNDS
        report.add(f"{count} rows: rounds", rounds or finished.last_words, f"{ROUNDS}", is_whole)
        most[count], left[count] = watch.most, checkpoint_bytes(folder)
    for what, sizes in (("at most, while it ran", most), ("when it was over", left)):
        few, many = sizes[FEW], sizes[MANY]
        is_kept = many <= few * MOST_MORE or many - few <= MOST_MORE_BYTES
        measured = f"{few / 1024:.0f} kB with {FEW} rows, {many / 1024:.0f} kB with {MANY}"
        report.add(f"checkpoint files {what}", measured, "within 10% or 64 kB", is_kept)


def memory(options: argparse.Namespace, flags: list[str], root: Path, report: Report) -> None:
    data = write_rows(root / "rows-many.jsonl", VERY_MANY)
    folder = Folder(root / "memory")
    with serve(options, data, latency=0.005) as server:
        command = folder.run_command(data, server.base_url, "--set", "max_iterations=2", *flags)
        begun = time.monotonic()
        finished = folder.finish(command)
    measured = f"{finished.peak_mb:.0f} MB, exit {finished.exit_code}, {time.monotonic() - begun:.0f} s"
    is_kept = finished.exit_code == 0 and finished.peak_mb < MOST_MB
    report.add(f"most memory with {VERY_MANY} rows", measured, f"< {MOST_MB} MB", is_kept)


def lessons(options: argparse.Namespace, flags: list[str], root: Path, report: Report) -> None:
    tasks = ("tell tabloid headlines from sober ones", "find the railway tickets that were refunded late")
    data = [write_rows(root / f"rows-{task[:4]}.jsonl", FEW, seed=n) for n, task in enumerate(tasks)]
    shared = root / "shared-memory.txt"
    pairs = list(zip(tasks, data, strict=True))
    alone = sum(len(run_both(options, flags, root, [pair], None)) for pair in pairs)
    together = run_both(options, flags, root, pairs, shared)
    problems = len(ExperienceFile(shared).problems())
    measured = f"{len(together)} entries, {alone} of the same runs alone; {problems} that cannot be read"
    is_kept = len(together) == alone > 0 and not problems
    report.add("two runs, one experience file", measured, "none lost", is_kept)

    path = root / "hammered.txt"
    with ProcessPoolExecutor(WRITERS) as pool:
        list(pool.map(write_lessons, [path] * WRITERS, range(WRITERS)))
    entries = ExperienceFile(path).load()
    measured = f"{len(entries)} entries of {WRITERS} x {LESSONS_EACH}"
    is_kept = len(entries) == WRITERS * LESSONS_EACH and not ExperienceFile(path).problems()
    report.add(f"{WRITERS} processes write to one file", measured, "none lost", is_kept)


def run_both(
    options: argparse.Namespace,
    flags: list[str],
    root: Path,
    runs: list[tuple[str, Path]],
    shared: Path | None,
) -> list[Experience]:
    """Runs at the same time, each on its data; the entries that they leave. shared: the file of all."""
    with tempfile.TemporaryDirectory(dir=root) as temporary, ExitStack() as servers:
        path = shared or Path(temporary) / "memory.txt"
        running = []
        for number, (task, data) in enumerate(runs):
            server = servers.enter_context(serve(options, data))
            folder = Folder(Path(temporary) / str(number))
            more = ("--set", f"memory_file={path}", "--set", f"task={task}", *flags)
            running.append(folder.start(folder.run_command(data, server.base_url, *more)))
        for one in running:
            finished = one.wait()
            if finished.exit_code != 0:
                raise SystemExit(f"exit {finished.exit_code}: {finished.last_words}")
        return ExperienceFile(path).load()


def write_lessons(path: Path, writer: int) -> None:
    file = ExperienceFile(path)
    for number in range(LESSONS_EACH):
        words = " ".join(f"w{writer}x{number}y{place}" for place in range(6))
        entry = Experience(
            task=f"task {words}",
            change=Change(added=words),
            operator="patch",
            before=0.5,
            after=0.75,
            rows=16,
            verdict="better",
        )
        file.record([entry], run_id=f"run-{writer}", iteration=number)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    cases = {"checkpoints": checkpoints, "memory": memory, "lessons": lessons}
    parser.add_argument("--only", choices=cases, action="append", help="default: all")
    options, flags = parser.parse_known_args()
    report = Report("footprint")
    with tempfile.TemporaryDirectory() as temporary:
        for name, case in cases.items():
            if name in (options.only or cases):
                case(options, flags, Path(temporary), report)
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
