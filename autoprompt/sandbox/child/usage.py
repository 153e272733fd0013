"""What a run uses, beside what it may use."""

# pathlib would be half of the start-up time of an experiment
from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from . import tree, untrusted
from .held import DISK, MEMORY, Devices, Held
from .settings import Settings

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_BLOCK = 4096
_LARGE = 1 << 20
# A survey takes a few milliseconds; of code that makes many files, seconds, in parts of _PART_S.
_SURVEY_EVERY_S, _SURVEY_SOONER_S, _PART_S = 0.5, 0.1, 0.02
_OUR_PROCESSES = 2  # keeper and init
# A folder that is rearranged during so many surveys in a row cannot be measured.
_MOST_MOVED = 5


class Meter:
    """Watches the processes below this one, and the folders that they write to.

    Processor time, number of processes and private memory are read each time. A survey of folders, open files
    and mappings follows twice a second, or sooner if shared memory grows. What the run holds but nobody can
    look into counts as much as the whole machine's use has grown, or as the run has written.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._paths = [settings.workdir, settings.scratch] if settings.owns_scratch else [settings.workdir]
        self._folders = [untrusted.open_folder(path) for path in self._paths]
        self._memory_folders: list[int] = []
        self._devices = Devices()
        self._reaped_cpu_s = 0.0
        before = _Taken(self._folders, self._devices)
        for _ in before.measure():
            pass
        self._before = before.bytes
        self._taken, self._held = before, Held(self._devices, self._paths, set())
        self._moved = 0
        self._steps: Iterator[None] | None = None
        self._surveyed_at = time.monotonic()
        self._least_shared, self._least_used = _shared_memory(), self._used()

    def watch_memory_folders(self, descriptors: list[int]) -> None:
        """Count all that is on these file systems, which belong to the run, as memory."""
        self._memory_folders = descriptors
        self._devices.counted = {os.fstat(descriptor).st_dev for descriptor in descriptors}

    def add_reaped(self, cpu_s: float) -> None:
        """Count the processor time of a process that was waited for and is no longer there."""
        self._reaped_cpu_s += cpu_s

    def exceeded(self) -> str | None:
        """The limit that is passed, None if all hold."""
        limits = self._settings
        processes = tree.processes_below(os.getpid())
        quick = _Quick(processes)
        if quick.cpu_s + self._reaped_cpu_s > limits.cpu_s:
            return "cpu"
        if quick.tasks > limits.processes + _OUR_PROCESSES:
            return "processes"
        private, named = quick.private_bytes, self._named_memory()
        if private + named > limits.memory_bytes:  # pages shared since a fork were counted for each process
            private = sum(map(_proportional, processes))
            if private + named > limits.memory_bytes:
                return "memory"
        shared = _shared_memory()
        self._least_shared = min(self._least_shared, shared)
        grown = shared - self._least_shared
        if self._steps is None:
            wait = _SURVEY_SOONER_S if private + grown > limits.memory_bytes else _SURVEY_EVERY_S
            if time.monotonic() < self._surveyed_at + wait:
                return None
            self._steps = self._survey(processes)
        end = time.monotonic() + _PART_S
        for _ in self._steps:
            if time.monotonic() > end:
                return "disk" if self._grown(self._taken) > limits.disk_bytes else None
        self._steps, self._surveyed_at = None, time.monotonic()
        return self._judged(private, named, grown)

    def _survey(self, processes: list[tree.Process]) -> Iterator[None]:
        self._taken = _Taken(self._folders, self._devices)
        try:
            yield from self._taken.measure()
        except untrusted.MovedError:
            self._moved += 1
        else:
            self._moved = 0
        self._held = Held(self._devices, self._paths, self._taken.seen)
        yield from self._held.look(processes)

    def _judged(self, private: int, named: int, grown: int) -> str | None:
        limits, held = self._settings, self._held
        memory = named + held.bytes[MEMORY] + self._taken.bytes[MEMORY] - self._before[MEMORY]
        disk = held.bytes[DISK] + self._grown(self._taken)
        used = self._used()
        self._least_used = min(self._least_used, used)
        if MEMORY in held.unknown:
            memory = max(memory, held.mapped_bytes, grown)
        if DISK in held.unknown:
            disk = max(disk, used - self._least_used, _written())
        if private + memory > limits.memory_bytes:
            return "memory"
        return "disk" if disk > limits.disk_bytes or self._moved >= _MOST_MOVED else None

    def _grown(self, taken: _Taken) -> int:
        return sum(taken.bytes.values()) - sum(self._before.values())

    def _named_memory(self) -> int:
        found = {os.fstat(folder).st_dev: os.statvfs(folder) for folder in self._memory_folders}
        return sum((of.f_blocks - of.f_bfree) * of.f_frsize for of in found.values())

    def _used(self) -> int:
        """On the file systems of the folders, by anybody."""
        found = {os.fstat(folder).st_dev: os.statvfs(folder) for folder in self._folders}
        return sum((of.f_blocks - of.f_bfree) * of.f_frsize for of in found.values())


class _Taken:
    """What is in the folders: `bytes` in memory and on the disk, `seen` large files. A name takes a block at
    least; a file counts once, whatever its names."""

    def __init__(self, folders: list[int], devices: Devices) -> None:
        self.bytes = {MEMORY: 0, DISK: 0}
        self.seen: set[int] = set()
        self._folders = folders
        self._devices = devices

    def measure(self) -> Iterator[None]:
        """Yield after each entry. Raises MovedError."""
        for folder in self._folders:
            for entry in untrusted.walk(folder, strict=True):
                status, taken = entry.status, entry.status.st_blocks * 512
                # Also a large file that is renamed meanwhile and met again.
                if stat.S_ISREG(status.st_mode) and (status.st_nlink > 1 or taken >= _LARGE):
                    taken = 0 if status.st_ino in self.seen else taken
                    self.seen.add(status.st_ino)
                self.bytes[self._devices.kind(status.st_dev)] += max(_BLOCK, taken)
                yield


class _Quick:
    """cpu_s: of ended processes too. private_bytes: what a fork shares counts for each process."""

    def __init__(self, processes: list[tree.Process]) -> None:
        ticks = pages = self.tasks = 0
        for process in processes:
            try:
                fields = tree.read(f"/proc/{process.pid}/stat").rpartition(")")[2].split()
            except OSError:
                continue
            ticks += sum(map(int, fields[11:15]))
            self.tasks += int(fields[17])
            pages += _private_pages(process)
        self.cpu_s = ticks / _TICKS
        self.private_bytes = pages * _PAGE


def _private_pages(process: tree.Process) -> int:
    for task in process.tasks:  # the first may have ended before its process did
        try:
            _, resident, shared, *_ = tree.read(f"/proc/{process.pid}/task/{task}/statm").split()
        except OSError:
            continue
        if resident != "0":
            return int(resident) - int(shared)
    return 0


def _proportional(process: tree.Process) -> int:
    """A process that does not let us see which of its pages are shared counts with all of them."""
    try:
        lines = tree.read(f"/proc/{process.pid}/smaps_rollup").splitlines()
    except OSError:
        lines = []
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:")]
    return found[0] if found else _private_pages(process) * _PAGE


def _written() -> int:
    """To disks, by the processes below and those that were waited for."""
    total = 0
    for pid in [os.getpid(), *(process.pid for process in tree.processes_below(os.getpid()))]:
        try:
            fields = dict(line.split(": ") for line in tree.read(f"/proc/{pid}/io").splitlines())
            total += int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])
        except (OSError, KeyError):
            continue
    return total


def _shared_memory() -> int:
    """Of the whole machine."""
    try:
        return int(tree.read("/proc/meminfo").partition("Shmem:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return 0
