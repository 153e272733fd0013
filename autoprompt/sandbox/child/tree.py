"""The processes of a run: found and ended."""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH112, PTH116, PTH208
from __future__ import annotations

import os
import signal
import time


class Process:
    """One process below, with the ids of its threads."""

    __slots__ = ("pid", "tasks")

    def __init__(self, pid: int, tasks: list[str]) -> None:
        self.pid = pid
        self.tasks = tasks


def read(path: str) -> str:
    """Return the beginning of a small file of /proc.

    Raises:
        OSError: If the process has ended.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536).decode("ascii", "replace")
    finally:
        os.close(descriptor)


def processes_below(root: int) -> list[Process]:
    """All processes below `root`, outer ones first. Empty where there is no /proc."""
    found: list[Process] = []
    waiting = [root]
    for pid in waiting:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            waiting += children(pid, tasks)
        except OSError:  # it has ended meanwhile
            continue
        if pid != root:
            found.append(Process(pid, tasks))
    return found


def children(pid: int, tasks: list[str]) -> list[int]:
    """Return the processes that these threads of a process started.

    Raises:
        OSError: If it has ended.
    """
    return [int(child) for task in tasks for child in read(f"/proc/{pid}/task/{task}/children").split()]


def tasks_of(uid: int) -> int:
    """Return how many processes and threads of a user can be seen."""
    total = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        try:
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == uid:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total


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
        for process in processes_below(os.getpid()):
            _kill(process.pid)
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
