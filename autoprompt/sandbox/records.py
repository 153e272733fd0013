"""What goes into a run and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autoprompt.errors import InputError, Problem

KilledBy = Literal["time", "cpu", "memory", "processes", "disk"]
Namespaces = Literal["bubblewrap", "userns", ""]


class SandboxError(InputError):
    """The sandbox cannot do what was asked: the machine lacks it, or a setting is wrong."""


@dataclass(frozen=True)
class Limits:
    """What one run may use. All but `open_files`, `file_bytes` hold for all its processes together.

    wall_s: seconds, after which everything is killed. cpu_s: seconds of processor time. memory_bytes: private
    and shared memory, and files in it; also the address space of each process, where asking for more is a
    MemoryError. file_bytes: of one file, and of /tmp. disk_bytes: what the work folder may grow, and a folder
    for temporary files that is on the disk, files without a name included. processes: with threads.
    output_bytes: kept of stdout and of stderr each, first and last half; the rest is read and dropped.
    """

    wall_s: float = 60.0
    cpu_s: int = 120
    memory_bytes: int = 4 << 30
    file_bytes: int = 1 << 30
    disk_bytes: int = 2 << 30
    processes: int = 128
    open_files: int = 512
    output_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                said = f"the sandbox limit {name} is {value}, expected more than 0"
                raise SandboxError(Problem("sandbox.bad-limit", said, fix="Raise it."))


@dataclass(frozen=True)
class Level:
    """How far a run is confined. `str()` is the line for the record.

    namespaces: who makes the user, mount, network, process and IPC namespaces, "" for nobody. landlock: the
    ABI version, 0 for none. seatbelt: macOS's sandbox-exec.
    """

    namespaces: Namespaces = ""
    landlock: int = 0
    seccomp: bool = False
    seatbelt: bool = False

    @property
    def confines(self) -> bool:
        """Files and network are both out of reach. Landlock alone lets UDP through, seccomp alone files."""
        return bool(self.namespaces or self.seatbelt or (self.landlock and self.seccomp))

    @property
    def is_full(self) -> bool:
        """All three layers, so that a hole in one is not a way out. What `strict` demands."""
        return bool(self.namespaces and self.landlock and self.seccomp)

    def __str__(self) -> str:
        layers = {
            self.namespaces or "": bool(self.namespaces),
            "landlock": bool(self.landlock),
            "seccomp": self.seccomp,
            "sandbox-exec": self.seatbelt,
        }
        names = "+".join(name for name, is_on in layers.items() if is_on)
        return f"{names or 'none'}, network {'denied' if self.confines else 'open'}"


@dataclass(frozen=True)
class SandboxResult:
    """What a run left. Code that fails is a result like any other.

    stdout, stderr: decoded as UTF-8, bad bytes replaced, with a notice in the middle where they were cut.
    exit_code: negative for the signal that ended it. killed_by: the limit that was reached. new_files:
    regular files in the work folder that are new or changed, as relative paths, sorted, no data files.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    killed_by: KilledBy | None
    new_files: tuple[Path, ...]
    duration_s: float
    level: Level
