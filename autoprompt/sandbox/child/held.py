"""What processes hold that no folder shows: files without a name, and shared memory."""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH116, PTH208
from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from .tree import Process, read

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
    """Whether files are on their way through a socket: until they are taken out, no process shows them."""
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
