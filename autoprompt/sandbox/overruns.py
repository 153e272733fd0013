"""Programs that use more than they may, each in another way: running them shows which limits hold.

`autoprompt doctor` runs the short ones, benchmarks/sandbox_limits.py and the tests run all.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

from . import folders, launch
from .records import KilledBy, Level, Limits

# Small, so that they are passed soon. Python itself takes 20 MB of address space and more.
LIMITS = Limits(
    wall_s=30, cpu_s=30, memory_bytes=160 << 20, file_bytes=250 << 20, disk_bytes=40 << 20, processes=64
)
LIMITED: tuple[KilledBy, ...] = get_args(KilledBy)
Outcome = Literal["ended", "refused", "unnoticed"]

# What a program needs besides its own lines. `keep()`: it has got what it wanted, and holds it for a while.
_BEFORE = """
import ctypes, mmap, os, socket, sys, tempfile, time
MB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
undo = []
def keep():
    print("kept", flush=True)
    time.sleep(3)
    for action in undo:
        action()
    os._exit(0)
def fill(file, size):
    for _ in range(size):
        os.write(file, b"x" * MB)
def in_children(count, action, seconds=1):
    for _ in range(count):
        if os.fork() == 0:
            try:
                kept = action()
                time.sleep(30)
            finally:
                os._exit(1)
    time.sleep(seconds)
    if os.waitpid(-1, os.WNOHANG)[0]:
        raise OSError("a child was refused what it wanted")
def write(made, size):
    for _ in range(size):
        made.write(b"x" * MB)
def shared(size):
    made = mmap.mmap(-1, size * MB)
    write(made, size)
    return made
def send_away(file):
    one, two = socket.socketpair()
    socket.send_fds(one, [b"x"], [file])
    os.close(file)
    return one, two
"""


@dataclass(frozen=True)
class Overrun:
    """limit: which one. way: how, in words. code: gets to `keep()` unless something stops it. is_quick:
    `doctor` runs it."""

    limit: KilledBy
    way: str
    code: str
    limits: Limits = LIMITS
    is_quick: bool = False


OVERRUNS = (
    Overrun(
        "time",
        "sleeps and ignores signals",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
        replace(LIMITS, wall_s=0.5),
        is_quick=True,
    ),
    Overrun(
        "cpu",
        "computes in two processes",
        "os.fork()\nwhile True: pass",
        replace(LIMITS, cpu_s=1),
        is_quick=True,
    ),
    Overrun("processes", "forks until refused", "in_children(200, lambda: None)\nkeep()", is_quick=True),
    Overrun(
        "memory",
        "private memory of several processes",
        "in_children(5, lambda: b'x' * (60 * MB))\nkeep()",
    ),
    Overrun(
        "memory",
        "private memory of a process that left its parent",
        """
for _ in range(5):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            kept = b"x" * (60 * MB)
            time.sleep(30)
        os._exit(0)
time.sleep(1)
keep()
""",
    ),
    Overrun(
        "memory",
        "shared anonymous memory",
        "in_children(5, lambda: shared(60))\nkeep()",
        is_quick=True,
    ),
    Overrun(
        "memory",
        "shared anonymous memory, filled by a process that has ended",
        """
def filled():
    made = mmap.mmap(-1, 60 * MB)
    if os.fork() == 0:
        write(made, 60)
        os._exit(0)
    os.wait()
    return made
in_children(5, filled, 2)
keep()
""",
    ),
    Overrun(
        "memory",
        "shared anonymous memory, unmapped but for a page",
        """
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
kept = []
for _ in range(8):
    kept.append(shared(32))
    start = ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))
    libc.munmap(start + 4096, 32 * MB - 4096)
keep()
""",
    ),
    Overrun(
        "memory",
        "shared anonymous memory, given back by advice only",
        """
def advised():
    made = shared(60)
    made.madvise(mmap.MADV_DONTNEED)
    return made
in_children(5, advised)
keep()
""",
    ),
    Overrun(
        "memory",
        "files in /dev/shm",
        """
file, name = tempfile.mkstemp(dir="/dev/shm")
undo.append(lambda: os.unlink(name))
fill(file, 200)
keep()
""",
        is_quick=True,
    ),
    Overrun(
        "memory",
        "unlinked files in /dev/shm",
        "file, name = tempfile.mkstemp(dir='/dev/shm')\nos.unlink(name)\nfill(file, 200)\nkeep()",
    ),
    Overrun(
        "memory",
        "files in /dev/shm and private memory together",
        """
file, name = tempfile.mkstemp(dir="/dev/shm")
undo.append(lambda: os.unlink(name))
fill(file, 100)
kept = b"x" * (80 * MB)
keep()
""",
    ),
    Overrun("memory", "memfd", "fill(os.memfd_create('big'), 200)\nkeep()", is_quick=True),
    Overrun(
        "memory",
        "memfd on its way through a socket",
        """
kept = []
for _ in range(4):
    file = os.memfd_create('big')
    fill(file, 60)
    kept.append(send_away(file))
keep()
""",
    ),
    Overrun(
        "memory",
        "System V shared memory",
        """
libc.shmat.restype = ctypes.c_void_p
for _ in range(4):
    found = libc.shmget(0, ctypes.c_size_t(60 * MB), 0o1600)
    if found < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    undo.append(lambda found=found: libc.shmctl(found, 0, None))
    start = libc.shmat(found, None, 0)
    ctypes.memset(start, 1, 60 * MB)
    libc.shmdt(ctypes.c_void_p(start))
keep()
""",
    ),
    Overrun(
        "disk",
        "files in the work folder",
        "for n in range(3): fill(os.open(f'big{n}', os.O_CREAT | os.O_WRONLY), 30)\nkeep()",
    ),
    Overrun(
        "disk",
        "an unlinked file",
        "file = os.open('big', os.O_CREAT | os.O_WRONLY)\nos.unlink('big')\nfill(file, 100)\nkeep()",
        is_quick=True,
    ),
    Overrun(
        "disk",
        "a file that never had a name",
        "fill(os.open('.', os.O_TMPFILE | os.O_WRONLY), 100)\nkeep()",
    ),
    Overrun(
        "disk",
        "unlinked files of processes that left their parent",
        """
for n in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            file = os.open(f"big{n}", os.O_CREAT | os.O_WRONLY)
            os.unlink(f"big{n}")
            fill(file, 30)
            time.sleep(30)
        os._exit(0)
time.sleep(1)
keep()
""",
    ),
    Overrun(
        "disk",
        "an unlinked file that is mapped, not open",
        """
file = os.open("big", os.O_CREAT | os.O_RDWR)
fill(file, 100)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
if libc.mmap(None, 4096, 1, 1, file, 0) == ctypes.c_void_p(-1).value:
    raise OSError("mmap")
os.unlink("big")
os.close(file)
keep()
""",
    ),
    Overrun(
        "disk",
        "an unlinked file on its way through a socket",
        """
file = os.open("big", os.O_CREAT | os.O_WRONLY)
os.unlink("big")
fill(file, 100)
kept = send_away(file)
keep()
""",
    ),
    Overrun(
        "disk",
        "an unlinked file that a thread has open with a table of its own",
        """
import threading
def work():
    if libc.unshare(0x400) < 0:
        raise SystemExit("unshare")
    file = os.open("big", os.O_CREAT | os.O_WRONLY)
    os.unlink("big")
    fill(file, 100)
    keep()
thread = threading.Thread(target=work)
thread.start()
thread.join()
raise OSError("refused")
""",
    ),
    Overrun(
        "disk",
        "a file below a path that is too long to name",
        """
for _ in range(1100):
    os.mkdir("deep")
    os.chdir("deep")
fill(os.open("big", os.O_CREAT | os.O_WRONLY), 100)
keep()
""",
    ),
    Overrun(
        "disk",
        "a file in a folder that cannot be listed",
        "os.mkdir('closed', 0o300)\nfill(os.open('closed/big', os.O_CREAT | os.O_WRONLY), 100)\nkeep()",
    ),
    Overrun(
        "disk",
        "a file behind many small ones",
        """
os.mkdir("a")
for n in range(9000):
    os.close(os.open(f"a/{n}", os.O_CREAT | os.O_WRONLY))
fill(os.open("big", os.O_CREAT | os.O_WRONLY), 100)
keep()
""",
    ),
    Overrun(
        "disk",
        "space that is reserved and never written",
        """
file = os.open("big", os.O_CREAT | os.O_WRONLY)
os.unlink("big")
os.posix_fallocate(file, 0, 100 * MB)
keep()
""",
    ),
    Overrun(
        "disk",
        "files in the folder for temporary files",
        "fill(os.open(os.path.join(tempfile.gettempdir(), 'big'), os.O_CREAT | os.O_WRONLY), 200)\nkeep()",
    ),
)


@cache
def unnoticed(level: Level) -> tuple[Overrun, ...]:
    """Run the quick ones on this machine, and return those that nothing stopped. Cached for the process."""
    quick = [overrun for overrun in OVERRUNS if overrun.is_quick]
    with ThreadPoolExecutor(2) as pool:  # more would take a small machine's memory
        outcomes = pool.map(lambda overrun: outcome(overrun, level, sys.executable), quick)
        return tuple(overrun for overrun, found in zip(quick, outcomes, strict=True) if found == "unnoticed")


def outcome(overrun: Overrun, level: Level, python: str) -> Outcome:
    """Run one. ended: for its limit. refused: it did not get what it asked for. unnoticed: it did.

    Folders in memory count as memory, so that may end what writes to one.
    """
    argv = [python, "-I", "-S", "-c", _BEFORE + overrun.code]
    with folders.temporary("autoprompt-overrun-") as folder:
        ended = launch.execute(argv, folder, level, overrun.limits, python)
    if ended.killed_by in (overrun.limit, "memory"):
        return "ended"
    return "unnoticed" if ended.killed_by or ended.stdout.endswith("kept\n") else "refused"
