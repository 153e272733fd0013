"""What the parent tells the child about one run."""

from __future__ import annotations

import marshal


class Settings:
    """One run, as plain values: it crosses a pipe to an interpreter of the same version.

    uid: what the code runs as, counted as on the machine; None keeps the caller's. Set when the caller is
    root, for whom the kernel does not count processes. read_only: (source, path seen by the code). links:
    symbolic links to make in the new root, (path, where it leads).
    scratch: HOME and TMPDIR of the code; made, and removed at the end, when `owns_scratch`.
    """

    argv: list[str]
    env: dict[str, str]
    workdir: str
    scratch: str
    owns_scratch: bool
    read_only: list[tuple[str, str]]
    links: list[tuple[str, str]]
    namespaces: str  # "userns", "bubblewrap" or ""
    tree: bool  # a process namespace even so, that all can be ended at once
    landlock: int  # the ABI to use, 0 for none
    seccomp: bool
    seatbelt: bool
    uid: int | None
    parent_pid: int
    launcher: list[str]  # how bubblewrap starts this package again, inside
    bubblewrap: str
    wall_s: float
    cpu_s: int
    memory_bytes: int
    file_bytes: int
    disk_bytes: int
    processes: int
    open_files: int

    def __init__(self, fields: dict[str, object]) -> None:
        missing = set(Settings.__annotations__) - set(fields)
        if missing:
            raise TypeError(f"sandbox settings without {', '.join(sorted(missing))}")
        self.__dict__.update(fields)

    def packed(self) -> bytes:
        """Length and content, to be read with `unpacked`."""
        content = marshal.dumps(self.__dict__)
        return len(content).to_bytes(4, "little") + content


def unpacked(content: bytes) -> Settings:
    return Settings(marshal.loads(content))
