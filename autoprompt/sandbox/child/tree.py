"""The processes of a run: found, measured and ended."""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH112, PTH116, PTH208
from __future__ import annotations

import os
import signal
import time

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 65536).decode("ascii", "replace")
    finally:
        os.close(descriptor)


def descendants(root: int) -> list[int]:
    """Process ids below `root`, as this process sees them. Empty where there is no /proc."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            children = [int(c) for t in threads for c in _read(f"/proc/{pid}/task/{t}/children").split()]
        except OSError:  # it has ended meanwhile
            continue
        found += children
        waiting += children
    return found


def tasks_of(uid: int) -> int:
    """Processes and threads of a user that can be seen."""
    total = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == uid:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total


class Usage:
    """cpu_s: of ended processes too. memory_bytes: shared pages counted once. processes: threads too."""

    cpu_s: float
    memory_bytes: int
    processes: int

    def __init__(self, pids: list[int], memory_limit: int) -> None:
        ticks = pages = self.processes = 0
        for pid in pids:
            try:
                fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
                _, resident, shared, *_ = _read(f"/proc/{pid}/statm").split()
            except OSError:
                continue
            ticks += sum(map(int, fields[11:15]))
            pages += int(resident) - int(shared)
            self.processes += int(fields[17])
        self.cpu_s = ticks / _TICKS
        self.memory_bytes = pages * _PAGE
        if self.memory_bytes > memory_limit:  # pages shared since a fork were counted for each process
            self.memory_bytes = sum(_proportional(pid) for pid in pids)


def _proportional(pid: int) -> int:
    try:
        lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def end_all(group: int, uid: int | None, statuses: dict[int, int]) -> None:
    """Kills and reaps everything below this process, a subreaper on Linux; returns when nothing is left.

    group: the process group of the code, all that can be found where there is no /proc. uid: a user id that
    nobody else has: all its processes are then killed in one step, which no fork outruns. The wait status of
    each is added to `statuses`.
    """
    while True:
        if uid is not None:
            _kill_user(uid)
        _kill(-group)
        for pid in descendants(os.getpid()):
            _kill(pid)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if not os.WIFSTOPPED(ended[1]):
                    statuses[ended[0]] = ended[1]
        except ChildProcessError:
            return
        time.sleep(0.001)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _kill_user(uid: int) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
