"""What a run uses, beside what it may use; also what no folder shows: files without a name, shared memory."""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH116, PTH208
from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from . import tree, untrusted
from .settings import Settings
from .tree import Process, read

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
        """Return the limit that is passed, None if all hold."""
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
        """Yield after each entry.

        Raises:
            MovedError: If a folder is moved meanwhile.
        """
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
    """Return a process's share of its pages; if it does not show which are shared, all of them."""
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


MEMORY, DISK = "memory", "disk"


class Devices:
    """Which devices keep files in memory. `counted`: the run's own ones, which are counted as a whole."""

    def __init__(self) -> None:
        self.in_memory: set[int] = set()
        self.counted: set[int] = set()
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("device")  # the one of all shared memory without a file
            self.in_memory.add(os.fstat(descriptor).st_dev)
            os.close(descriptor)
        for line in _read_bytes("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
            before, _, after = line.partition(" - ")
            if after.split(" ", 1)[0] in ("tmpfs", "ramfs", "devtmpfs"):
                major, minor = before.split(" ")[2].split(":")
                self.in_memory.add(os.makedev(int(major), int(minor)))

    def kind(self, device: int) -> str:
        return MEMORY if device in self.in_memory else DISK


class Held:
    """One look at the processes of a run.

    `bytes`: in files without a name, by kind. `unknown`: the kinds of which something could not be read:
    memory or a file that is only mapped, a file on its way through a socket, a process that shields itself.
    `mapped_bytes`: then, the shared memory that processes have mapped, each page once.
    """

    def __init__(self, devices: Devices, folders: list[str], seen: set[int]) -> None:
        """folders: mappings of files elsewhere are not the run's. seen: inodes that are counted already."""
        self.bytes = {MEMORY: 0, DISK: 0}
        self.mapped_bytes = 0
        self.unknown: set[str] = set()
        self._devices = devices
        self._prefixes = tuple(os.fsencode(folder) + b"/" for folder in folders)
        self._known = {(DISK, inode) for inode in seen}
        self._sockets: set[int] = set()
        self._mappings: dict[tuple[str, int], str] = {}

    def look(self, processes: list[Process]) -> Iterator[None]:
        """Yield after each small step."""
        for process in processes:
            for task in process.tasks:  # each may have a table of files of its own
                yield from self._files(f"/proc/{process.pid}/task/{task}")
            self._map(process)
            yield
        for key, path in self._mappings.items():
            if key not in self._known:
                self._known.add(key)
                try:
                    self.bytes[key[0]] += os.stat(path).st_blocks * 512
                except OSError:  # only root may
                    self.unknown.add(key[0])
            yield
        for process in processes if MEMORY in self.unknown else []:
            for line in _read_bytes(f"/proc/{process.pid}/smaps_rollup").split(b"\n"):
                if line.startswith(b"Pss_Shmem:"):
                    self.mapped_bytes += int(line.split()[1]) * 1024
            yield

    def _files(self, task: str) -> Iterator[None]:
        try:
            names = os.listdir(f"{task}/fd")
        except PermissionError:
            self.unknown |= {MEMORY, DISK}
            return
        except OSError:  # it has ended
            return
        for name in names:
            try:
                status = os.stat(f"{task}/fd/{name}")
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                key = self._devices.kind(status.st_dev), status.st_ino
                if key not in self._known and status.st_dev not in self._devices.counted:
                    self._known.add(key)
                    self.bytes[key[0]] += status.st_blocks * 512
            elif stat.S_ISSOCK(status.st_mode) and status.st_ino not in self._sockets:
                self._sockets.add(status.st_ino)
                if _carries_files(f"{task}/fdinfo/{name}"):
                    self.unknown |= {MEMORY, DISK}
            yield

    def _map(self, process: Process) -> None:
        """Note mappings of files without a name, to be counted unless some process has them open."""
        lines = b""
        for task in process.tasks:
            lines = _read_bytes(f"/proc/{process.pid}/task/{task}/maps")
            if lines:
                break
        for line in lines.split(b"\n"):
            if line.endswith(b" (deleted)"):
                addresses, _, _, device, inode, name = line.split(None, 5)
                major, minor = (int(number, 16) for number in device.split(b":"))
                number = os.makedev(major, minor)
                kind = self._devices.kind(number)
                if number in self._devices.counted or (kind == DISK and not name.startswith(self._prefixes)):
                    continue
                path = f"/proc/{process.pid}/map_files/{addresses.decode()}"
                self._mappings.setdefault((kind, int(inode)), path)


def _carries_files(fdinfo: str) -> bool:
    """Return whether files are on their way through a socket.

    Until they are taken out, no process shows them.
    """
    found = read(fdinfo).partition("scm_fds:")[2].split()
    return bool(found) and found[0] != "0"


def _read_bytes(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    content = b""
    try:
        while part := os.read(descriptor, 1 << 16):
            content += part
    except OSError:  # it has ended
        pass
    finally:
        os.close(descriptor)
    return content
