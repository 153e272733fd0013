"""Runs killed with `kill -9` at random moments and resumed: the same result, and nothing is asked twice.

    python benchmarks/kill_resume.py                       # 20 kills
    python benchmarks/kill_resume.py --kills 100 --seed 7

Each case begins with an empty cache and memory. The moments are spread over the whole run, from the start of
the process to its last step; about a third of the cases are killed again while they resume. A request may be
sent again only if its answer had not reached the journal when the process died: those are counted after each
kill, as the answers that the server has given and the journal does not hold.
Flags that are not its own go to `autoprompt run`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench import Finished, Folder, Report, Server, add_arguments, differences, say, serve, write_rows

CONCURRENCY = 64  # the most that `concurrency: auto` sends
ENDED = "had ended"


@dataclass
class Case:
    """One run and what became of it. lost: answers on the wire at the kills, which are asked for again."""

    moments: list[float] = field(default_factory=list)
    killed_at: list[str] = field(default_factory=list)
    lost: int = 0
    repeated: int = 0
    ended_after: float = 0.0  # seconds, of a run that ended before its first kill
    problems: list[str] = field(default_factory=list)


def journaled(folder: Folder) -> int:
    """Whole lines in the journals of this folder's runs."""
    return sum(
        (path / "journal.jsonl").read_bytes().count(b"\n") for path in folder.run_dirs() if has_journal(path)
    )


def has_journal(path: Path) -> bool:
    return (path / "journal.jsonl").exists()


def where(folder: Folder, finished: Finished) -> str:
    """How far the killed process had come, for the table."""
    if finished.exit_code == 0:
        return ENDED
    runs = folder.run_dirs()
    if not runs:
        return "startup"
    events = runs[-1] / "events.jsonl"
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    nodes = [line for line in lines if '"node_started"' in line]
    if not nodes:
        return "startup"
    return nodes[-1].partition('"node": "')[2].partition('"')[0]


def kill_once(case: Case, folder: Folder, server: Server, command: list[str], moment: float) -> Finished:
    finished = folder.finish(command, timeout_s=moment)
    stats = server.idle_stats()
    case.moments.append(round(moment, 2))
    case.killed_at.append(where(folder, finished))
    case.lost = stats["answered"] - journaled(folder)
    if finished.exit_code == 0 and len(case.moments) == 1:
        case.ended_after = finished.seconds
    return finished


def one_case(
    folder: Folder, server: Server, data: Path, flags: list[str], moments: list[float]
) -> tuple[Case, Any]:
    """Kill at each of the moments (seconds after the start of each process), then let it end."""
    case = Case()
    server.reset()
    start = folder.run_command(data, server.base_url, *flags)
    command = start
    for moment in moments:
        kill_once(case, folder, server, command, moment)
        runs = folder.run_dirs()
        # Killed before there was a run: whoever wants one starts it anew.
        command = folder.resume_command(runs[-1].name) if runs else start
    finished = folder.finish(command)
    if finished.exit_code != 0:
        case.problems.append(f"exit {finished.exit_code}: {finished.last_words}")
    if len(folder.run_dirs()) != 1:
        case.problems.append(f"{len(folder.run_dirs())} run folders")
    stats = server.idle_stats()
    case.repeated = stats["repeated_answers"]
    if case.repeated > case.lost:
        case.problems.append(f"{case.repeated} answered requests sent again, {case.lost} were on the wire")
    if case.lost > CONCURRENCY * len(moments):
        case.problems.append(f"{case.lost} answers lost, at most {CONCURRENCY} can be on the wire")
    return case, finished.result


def lessons(folder: Folder) -> list[str]:
    """The experience file without ids and dates."""
    if not folder.memory.exists():
        return []
    lines = folder.memory.read_text(encoding="utf-8").splitlines()
    names = {path.name for path in folder.run_dirs()}
    return [line for line in lines if not any(name in line for name in names)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--latency", type=float, default=0.02, metavar="SECONDS")
    parser.add_argument("--keep", type=Path, help="leave the folders of cases that fail here")
    options, flags = parser.parse_known_args()
    rng = random.Random(options.seed)
    report = Report("kill -9 and resume")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        data = options.data or write_rows(root / "rows.jsonl", options.rows)
        with serve(options, data, latency=options.latency) as server:
            folder = Folder(root / "whole")
            server.reset()
            whole = folder.finish(folder.run_command(data, server.base_url, *flags))
            if whole.exit_code != 0:
                raise SystemExit(f"the uninterrupted run failed: {whole.last_words}")
            wanted, wanted_lessons = whole.result, lessons(folder)
            stats = server.idle_stats()
            say(f"uninterrupted: {whole.seconds:.1f} s, {stats['requests']} requests; {wanted['message']}")
            say(f"{'case':>4}  {'killed after (s)':<18} {'while':<28} {'on the wire':>11} {'sent again':>10}")
            seconds = whole.seconds
            for number in range(options.kills):
                while True:
                    # One moment in each of N equal parts of the run, so that none is left out.
                    first = (number + rng.random()) / options.kills * seconds
                    again = [rng.random() * seconds] if rng.random() < 1 / 3 else []
                    folder = Folder(root / f"case-{number:02d}")
                    case, result = one_case(folder, server, data, flags, [first, *again])
                    if case.killed_at[0] != ENDED:
                        break
                    seconds = min(seconds, case.ended_after)  # the first run was slower than this one
                    shutil.rmtree(folder.path)
                if result:
                    case.problems += differences(wanted, result)
                    if lessons(folder) != wanted_lessons:
                        case.problems.append("the experience file differs")
                shown = f"{', '.join(map(str, case.moments)):<18} {', '.join(case.killed_at):<28}"
                say(f"{number:>4}  {shown} {case.lost:>11} {case.repeated:>10}")
                what = f"killed after {', '.join(map(str, case.moments))} s ({', '.join(case.killed_at)})"
                measured = (
                    "; ".join(case.problems) or f"same result; {case.repeated} of {case.lost} sent again"
                )
                report.add(
                    what, measured, "same result, none but those on the wire sent again", not case.problems
                )
                if case.problems and options.keep:
                    shutil.copytree(folder.path, options.keep / folder.path.name, dirs_exist_ok=True)
                shutil.rmtree(folder.path)
    return report.finish(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
