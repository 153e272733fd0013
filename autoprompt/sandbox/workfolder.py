"""The work folder as the parent sees it: data in, new files out. Code may have left anything there."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .child import untrusted
from .records import SandboxError

SCRIPT = ".experiment.py"
Snapshot = dict[str, tuple[int, int, int]]
_MOST_NAMED = 1000


@contextmanager
def opened(workdir: Path) -> Iterator[int]:
    """The folder, made if it is not there and open until the end. Afterwards its mode is as before.

    workdir: absolute, without links. Raises SandboxError if it cannot be opened.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        folder = untrusted.open_folder(str(workdir))
    except OSError as error:
        raise SandboxError(f"work folder {workdir} cannot be opened ({error.strerror or error})") from error
    try:
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        try:
            yield folder
        finally:
            if stat.S_IMODE(os.fstat(folder).st_mode) != mode:  # the code closed it
                os.fchmod(folder, mode)
    finally:
        os.close(folder)


@contextmanager
def temporary(prefix: str) -> Iterator[Path]:
    """A folder that is removed in the end, however deep the code has made it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield folder
    finally:
        with suppress(OSError):
            untrusted.remove_tree(folder)


def prepare(folder: int, workdir: Path, data: Iterable[Path], code: str | None) -> set[str]:
    """Puts copies of the data files and the script into the open folder; returns the names of these.

    A copy that differs from its original in size or time, because earlier code wrote to it, is made again.
    Copies are read-only for the code as far as file modes go.
    """
    names: set[str] = set()
    for source in data:
        if not source.is_file():
            raise SandboxError(f"{source}: no such data file")
        if source.resolve().is_relative_to(workdir):
            raise SandboxError(
                f"{source} is in the work folder, where the code can change it. Move the file, or choose "
                "another work folder."
            )
        if source.name in names:
            raise SandboxError(f"{source}: two data files of the name {source.name}; rename one")
        names.add(source.name)
        _copy(source, folder)
    if code is not None:
        names.add(SCRIPT)
        untrusted.remove(folder, SCRIPT)
        with os.fdopen(untrusted.new_file(folder, SCRIPT, 0o644), "wb") as file:
            file.write(code.encode("utf-8", "surrogatepass"))
    return names


def _copy(source: Path, folder: int) -> None:
    with source.open("rb") as content:
        wanted = os.fstat(content.fileno())
        try:
            found = os.stat(source.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        if (
            found is not None
            and stat.S_ISREG(found.st_mode)
            and (found.st_size, found.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns)
        ):
            return
        untrusted.remove(folder, source.name)
        with os.fdopen(untrusted.new_file(folder, source.name, 0o444), "wb") as copy:
            shutil.copyfileobj(content, copy)
            copy.flush()
            os.utime(copy.fileno(), ns=(wanted.st_atime_ns, wanted.st_mtime_ns))


def snapshot(folder: int) -> Snapshot:
    """Regular files by their paths below the folder; what a link leads to is none of ours."""
    found: Snapshot = {}
    for entry in untrusted.walk(folder):
        if entry.path is not None and stat.S_ISREG(entry.status.st_mode):
            found[entry.path] = (entry.status.st_ino, entry.status.st_size, entry.status.st_mtime_ns)
    return found


def new_files(folder: int, before: Snapshot, own: set[str]) -> tuple[Path, ...]:
    """Relative paths, sorted; the first thousand. Without those that are too long to be used."""
    after = snapshot(folder)
    changed = (path for path, state in after.items() if before.get(path) != state)
    return tuple(sorted(Path(path) for path in changed if path not in own)[:_MOST_NAMED])


def drop_script(folder: int) -> None:
    untrusted.remove(folder, SCRIPT)
