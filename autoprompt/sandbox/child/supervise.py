"""Starts the code, watches it and leaves nothing of it behind.

    supervisor            on the machine; child of autoprompt, holds the other end of its lifeline
    └── keeper            enters the user namespace and waits (with namespaces only; or is bubblewrap)
        └── init          process 1 of the process namespace; when it ends, all in it end
            └── code

The parent's death, by whatever signal, closes the lifeline and ends the run. The supervisor's own death ends
keeper and init by PR_SET_PDEATHSIG.
"""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH102
from __future__ import annotations

import marshal
import os
import select
import signal
import time
from collections.abc import Callable

from . import confine, linux, tree, untrusted
from .settings import Settings, unpacked
from .usage import Meter

# How often a run is measured: at 2 GB/s, what one core was seen to allocate, 100 MB beyond a limit.
_MEASURE_EVERY_S = 0.05
_IS_LINUX = os.uname().sysname == "Linux"


def main(arguments: list[str]) -> None:
    """arguments: `run LIFELINE STATUS`, two pipes; or `inside SETTINGS REPORT`, started by bubblewrap."""
    first, second = int(arguments[1]), int(arguments[2])
    for descriptor in (first, second):
        os.set_inheritable(descriptor, False)
    if arguments[0] == "inside":
        linux.signal_at_parent_death(signal.SIGKILL)
        settings = unpacked(_read_to_end(first))
        os.close(first)
        _report_failure(second, lambda: _be_init(settings, second))
    size = int.from_bytes(_read_exactly(first, 4), "little")
    Supervisor(unpacked(_read_exactly(first, size)), first, second).run()


class Supervisor:
    """One run. `lifeline`: readable when the parent ends it, or has ended. `status`: for the outcome."""

    def __init__(self, settings: Settings, lifeline: int, status: int) -> None:
        self._settings = settings
        self._lifeline = lifeline
        self._status = status
        self._told_to_stop = False
        self._report, self._report_end = os.pipe()
        self._go, self._go_end = os.pipe()
        self._told = b""
        self._statuses: dict[int, int] = {}
        self._apart = _namespaces_of_keeper(settings)

    def run(self) -> None:
        """Write {exit_code, killed_by, error} to the status pipe, in marshal, once all processes are gone."""
        settings = self._settings
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        if _IS_LINUX:
            linux.become_subreaper()
            linux.signal_at_parent_death(signal.SIGTERM)
        if os.getppid() != settings.parent_pid:
            return
        if settings.tree and os.geteuid() == 0:
            _go_first()
        folders = [settings.workdir, settings.scratch] if settings.owns_scratch else [settings.workdir]
        owners: untrusted.Owners = {}
        if settings.owns_scratch:
            os.mkdir(settings.scratch, 0o700)
        if settings.uid is not None:
            for path in folders:
                owners |= untrusted.give(path, settings.uid)
        child = os.fork()
        if child == 0:
            _report_failure(self._report_end, self._in_child)
        try:
            try:
                killed_by = self._watch(child)
            finally:
                tree.end_all(child, None if settings.namespaces else settings.uid, self._statuses)
            self._tell(self._statuses[child], killed_by)
        finally:
            if settings.uid is not None:
                for path in folders:
                    untrusted.take_back(path, settings.uid, owners)
            if settings.owns_scratch:
                untrusted.remove_tree(settings.scratch)

    def _tell(self, status: int, killed_by: str | None) -> None:
        """Report, and let the parent read to the end: the tidying up may take long."""
        report = self._told + _read_to_end(self._report)
        os.write(self._status, marshal.dumps(_outcome(report, status, killed_by)))
        os.close(self._status)
        nothing = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(nothing, output)

    def _stop(self, _number: int, _frame: object) -> None:
        self._told_to_stop = True

    def _in_child(self) -> None:
        """Keeper, then init, then code; without namespaces, code at once. Does not return."""
        settings = self._settings
        os.setsid()  # a group of its own, for the scheduler too
        os.close(self._go_end)  # or it would wait for itself below
        if self._apart:
            linux.unshare(self._apart)
        os.write(self._report_end, b"U")
        if _IS_LINUX:
            linux.signal_at_parent_death(signal.SIGKILL)
        if os.read(self._go, 1) != b"g":  # the supervisor died before the signal was asked for
            os._exit(1)
        if settings.namespaces == "bubblewrap":
            confine.become_bubblewrap(settings, self._report_end)
        if not settings.namespaces and not settings.tree:
            confine.become_code(settings)
        init = os.fork()
        if init == 0:
            linux.signal_at_parent_death(signal.SIGKILL)
            if select.select([self._go], [], [], 0)[0]:  # at its end: the same, seen from inside
                os._exit(1)
            if settings.namespaces:
                confine.enter_new_root(settings)
            else:
                confine.see_own_processes(settings)
            _be_init(settings, self._report_end)
        if os.WIFSIGNALED(os.waitpid(init, 0)[1]):  # by the system, out of memory
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)

    def _let_go(self, child: int) -> None:
        """Once the child is in its user namespace, maps its ids and lets it go on."""
        os.close(self._report_end)
        os.close(self._go)
        settings = self._settings
        self._told = os.read(self._report, 1)
        if self._told == b"U":
            if self._apart & linux.CLONE_NEWUSER:
                confine.map_ids(child, settings.uid)
            os.write(self._go_end, b"g")

    def _has_ended(self, child: int, meter: Meter) -> bool:
        """Wait for all that has ended. Orphans of the code come to us, unless it has its own process 1."""
        while True:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return False
            if os.WIFSTOPPED(status):
                continue
            self._statuses[pid] = status
            if pid == child:
                return True
            meter.add_reaped(used.ru_utime + used.ru_stime)

    def _watch(self, child: int) -> str | None:
        """Until the code ends or a limit is reached, which is named then."""
        settings = self._settings
        meter = Meter(settings)
        started = time.monotonic()
        watched = [self._lifeline]
        if _IS_LINUX:
            watched.append(os.pidfd_open(child))
        self._let_go(child)
        sees_memory = not settings.namespaces and not settings.tree
        while True:
            left = started + settings.wall_s - time.monotonic()
            if left <= 0:
                return "time"
            ready = select.select(watched, [], [], min(left, _MEASURE_EVERY_S))[0]
            if self._lifeline in ready or self._told_to_stop:
                return "parent"
            if self._has_ended(child, meter):
                return None
            if not sees_memory and (folders := _memory_folders(child, settings)):
                meter.watch_memory_folders(folders)
                sees_memory = True
            limit = meter.exceeded()
            if limit is not None:
                return limit


def _memory_folders(child: int, settings: Settings) -> list[int]:
    """Return the run's file systems in memory, opened, once process 1 has started the code."""
    try:
        init = tree.children(child, [str(child)])[0]
        if not tree.children(init, [str(init)]):
            return []
        paths = [f"/proc/{init}/root{path}" for path in confine.memory_folders(settings)]
        return [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in paths]
    except (IndexError, OSError):  # not yet, or no longer
        return []


def _go_first() -> None:
    """Root's unconfined processes are not counted by the kernel: among thousands, ours must get its turn."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:  # a container without the right; the code then ends later
        return


def _namespaces_of_keeper(settings: Settings) -> int:
    """bubblewrap makes its own, but for a user namespace with two ids in it."""
    if settings.namespaces == "bubblewrap":
        return linux.CLONE_NEWUSER if settings.uid is not None else 0
    if settings.namespaces or (settings.tree and os.geteuid() != 0):
        return linux.CLONE_NEWUSER | linux.CLONE_NEWPID
    return linux.CLONE_NEWPID if settings.tree else 0


def _be_init(settings: Settings, report: int) -> None:
    """Process 1: starts the code, reaps what is orphaned, and with the end of the code ends everything."""
    code = os.fork()
    if code == 0:
        _report_failure(report, lambda: confine.become_code(settings))
    while True:
        pid, status = os.wait()
        if pid == code and not os.WIFSTOPPED(status):  # stopped: it asked to be traced by its parent
            os.write(report, b"X%d\n" % status)
            os._exit(0)


def _report_failure(report: int, steps: Callable[[], None]) -> None:
    """Run steps that do not return; report what they raise to the supervisor, and end the process."""
    try:
        steps()
    except BaseException as error:  # noqa: BLE001 - reported, and the process ends here
        os.write(report, f"E{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(1)


def _outcome(report: bytes, status: int, killed_by: str | None) -> dict[str, object]:
    """report: U (the child is ready), then lines of E (a failure before the code began) or X (its status)."""
    error = None
    exited = status
    for line in report.removeprefix(b"U").decode("utf-8", "replace").splitlines():
        if line.startswith("E"):
            error = error or line[1:]
        elif line.startswith("X"):
            exited = int(line[1:])
    code = os.waitstatus_to_exitcode(exited)
    if killed_by is None and code == -signal.SIGXCPU:
        killed_by = "cpu"
    return {"exit_code": code, "killed_by": killed_by, "error": error}


def _read_exactly(descriptor: int, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = os.read(descriptor, size - len(content))
        if not part:  # the parent ended before the run began
            os._exit(1)
        content += part
    return content


def _read_to_end(descriptor: int) -> bytes:
    content = b""
    while part := os.read(descriptor, 65536):
        content += part
    return content
