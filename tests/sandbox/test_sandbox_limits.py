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


# What stays under the limits, though a count that is too simple would add it up twice or for ever.
WITHIN = {
    "shared memory of a process and its children": """
made = mmap.mmap(-1, 100 << 20)
for _ in range(4):
    if os.fork() == 0:
        for n in range(100):
            made[n << 20 : (n + 1) << 20] = b"x" * (1 << 20)
        time.sleep(1.2)
        os._exit(0)
for _ in range(4):
    os.wait()
""",
    "shared memory with a name": """
from multiprocessing import shared_memory
made = shared_memory.SharedMemory(create=True, size=100 << 20)
for n in range(100):
    made.buf[n << 20 : (n + 1) << 20] = b"x" * (1 << 20)
time.sleep(1.2)
made.close()
made.unlink()
""",
    "a temporary file without a name, mapped and open": """
file = tempfile.TemporaryFile(dir=".")
for _ in range(20):
    file.write(b"x" * (1 << 20))
file.flush()
made = mmap.mmap(file.fileno(), 0)
time.sleep(1.2)
""",
    "a file that is written again and again": """
end = time.monotonic() + 1.5
while time.monotonic() < end:
    with open("again", "wb") as file:
        file.write(b"x" * (20 << 20))
""",
    "a file that is renamed again and again": """
open("0", "wb").write(b"x" * (25 << 20))
end, n = time.monotonic() + 1.5, 0
while time.monotonic() < end:
    os.makedirs(f"d{n % 50}", exist_ok=True)
    os.rename("0", f"d{n % 50}/0")
    os.rename(f"d{n % 50}/0", "0")
    n += 1
""",
    "a file that is removed while it is open": """
file = open("0", "wb")
file.write(b"x" * (25 << 20))
time.sleep(0.7)
os.remove("0")
time.sleep(0.7)
""",
    "a file of many names": """
open("0", "wb").write(b"x" * (25 << 20))
for n in range(20):
    os.link("0", f"n{n}")
time.sleep(1.2)
""",
    "a file of holes": """
with open("holes", "wb") as file:
    file.truncate(200 << 20)
time.sleep(1.2)
""",
    "processes that leave their parent and end": """
for _ in range(60):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
time.sleep(0.3)
""",
    "descriptors that are handed over": """
one, two = socket.socketpair()
end = time.monotonic() + 1.2
while time.monotonic() < end:
    socket.send_fds(one, [b"x"], [0])
    for file in socket.recv_fds(two, 1, 1)[1]:
        os.close(file)
""",
}


@pytest.mark.parametrize("way", WITHIN)
def test_what_stays_within_the_limits_goes_on(way: str, offered: Level, tmp_path: Path) -> None:
    if "with a name" in way and not offered.namespaces:
        pytest.skip("without a mount namespace there is no /dev/shm")
    code = "import mmap, os, socket, tempfile, time\n" + WITHIN[way] + "print('done')"
    limits = Limits(
        memory_bytes=400 << 20, disk_bytes=40 << 20, file_bytes=300 << 20, processes=20, wall_s=30
    )
    result = run(code, workdir=tmp_path / "work", level=offered, limits=limits)
    assert (result.stdout, result.killed_by) == ("done\n", None), result.stderr
