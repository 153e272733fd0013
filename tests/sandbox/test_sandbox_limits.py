"""What one run may use, over all its processes, also when root runs it."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from autoprompt.sandbox import Level, Limits, SandboxError, run

FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
COUNT_FORKS = """
import os, time
made = 0
while made < 200:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        break
    made += 1
print(made)
"""
MANY_THAT_ALLOCATE = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        break
taken = bytearray(150 << 20)
time.sleep(60)
"""
MANY_THAT_COMPUTE = """
import os
os.fork()
while True:
    pass
"""

pytestmark = pytest.mark.usefixtures("_leaves_nothing")


def test_hung_code_that_ignores_signals_ends_at_its_time(offered: Level, tmp_path: Path) -> None:
    code = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
print("begun", flush=True)
time.sleep(60)
"""
    started = time.monotonic()
    result = run(code, workdir=tmp_path / "work", level=offered, limits=Limits(wall_s=0.4))
    assert time.monotonic() - started < 2.4
    assert (result.timed_out, result.killed_by, result.exit_code) == (True, "time", -9)
    assert result.stdout == "begun\n"


def test_a_fork_bomb_ends_at_its_time(offered: Level, tmp_path: Path) -> None:
    started = time.monotonic()
    limits = Limits(wall_s=0.5, processes=64)
    result = run(FORK_BOMB, workdir=tmp_path / "work", level=offered, limits=limits)
    assert time.monotonic() - started < 2.5
    assert result.killed_by in ("time", "processes")


def test_processes_are_counted(offered: Level, tmp_path: Path) -> None:
    result = run(COUNT_FORKS, workdir=tmp_path / "work", level=offered, limits=Limits(processes=20))
    assert (result.stdout == "" and result.killed_by == "processes") or int(result.stdout) < 20


def test_processes_are_counted_without_confinement_too(tmp_path: Path) -> None:
    result = run(COUNT_FORKS, workdir=tmp_path / "work", level="none", limits=Limits(processes=20, wall_s=5))
    assert result.killed_by == "processes" or int(result.stdout) < 20


def test_eight_gigabytes_are_refused(offered: Level, tmp_path: Path) -> None:
    code = "try:\n    bytearray(8 << 30)\nexcept MemoryError:\n    print('refused')"
    assert run(code, workdir=tmp_path / "work", level=offered).stdout == "refused\n"


def test_memory_is_counted_over_all_processes(offered: Level, tmp_path: Path) -> None:
    limits = Limits(memory_bytes=600 << 20, wall_s=20)
    result = run(MANY_THAT_ALLOCATE, workdir=tmp_path / "work", level=offered, limits=limits)
    assert result.killed_by == "memory"


def test_memory_shared_since_a_fork_is_counted_once(strongest: Level, tmp_path: Path) -> None:
    code = """
import os, time
taken = bytearray(200 << 20)
for _ in range(5):
    if os.fork() == 0:
        time.sleep(0.3)
        os._exit(0)
for _ in range(5):
    os.wait()
print("done")
"""
    limits = Limits(memory_bytes=600 << 20, wall_s=20)
    assert run(code, workdir=tmp_path / "work", level=strongest, limits=limits).stdout == "done\n"


def test_processor_time_is_counted_over_all_processes(strongest: Level, tmp_path: Path) -> None:
    limits = Limits(cpu_s=1, wall_s=20)
    result = run(MANY_THAT_COMPUTE, workdir=tmp_path / "work", level=strongest, limits=limits)
    assert result.killed_by == "cpu"


def test_one_file_has_a_size(offered: Level, tmp_path: Path) -> None:
    code = "with open('big', 'wb') as file:\n    file.write(bytes(3 << 20))"
    result = run(code, workdir=tmp_path / "work", level=offered, limits=Limits(file_bytes=1 << 20))
    assert "File too large" in result.stderr
    assert (tmp_path / "work" / "big").stat().st_size <= 1 << 20


def test_many_files_have_a_size_together(strongest: Level, tmp_path: Path) -> None:
    code = """
import itertools
for number in itertools.count():
    with open(f"part{number}", "wb") as file:
        file.write(bytes(1 << 20))
"""
    limits = Limits(disk_bytes=20 << 20, wall_s=20)
    assert run(code, workdir=tmp_path / "work", level=strongest, limits=limits).killed_by == "disk"


def test_a_gigabyte_of_output_is_read_in_bounded_memory(strongest: Level, tmp_path: Path) -> None:
    code = """
import os, sys
print("first")
sys.stdout.flush()
part = b"x" * (1 << 20)
for _ in range(1024):
    os.write(1, part)
print("last")
"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run(code, workdir=tmp_path / "work", level=strongest, limits=Limits(output_bytes=100_000))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 50 << 20
    assert len(result.stdout) < 110_000
    assert result.stdout.startswith("first\nxxx")
    assert result.stdout.endswith("xxxlast\n")
    assert "bytes left out" in result.stdout


def test_open_files_are_limited(strongest: Level, tmp_path: Path) -> None:
    code = "kept = [open('/dev/null') for _ in range(1000)]"
    result = run(code, workdir=tmp_path / "work", level=strongest)
    assert "Too many open files" in result.stderr


@pytest.mark.parametrize("name", ["wall_s", "memory_bytes", "processes"])
def test_a_limit_of_nothing_is_an_error(name: str) -> None:
    with pytest.raises(SandboxError, match=name):
        Limits(**{name: 0})
