"""The files of an active run: who holds its lock, and what somebody takes away meanwhile, to put it back."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.text.files import read_json, write_json
from autoprompt.text.names import counted

# Read once, when the run starts. Their content is kept, and a change is only a warning.
_READ_ONCE = (
    *("run.json", "marks.json", "config.yaml", "original_prompt.txt", "original_workflow.yaml"),
    "models",
)
LOCK, _HOLDER = "run.lock", "run.lock.json"
# Who looks whether the lock is free takes a share of it for a moment; that must not refuse a `resume`.
_LOCK_PATIENCE_S = 0.5
# Written as long as the run is active. They are held open, so their content outlives a deletion.
_WRITTEN = (
    LOCK,
    "journal.jsonl",
    "checkpoints.sqlite",
    "candidates.jsonl",
    "events.jsonl",
    "ledger.sqlite",
)
_CHECKPOINTS = "checkpoints.sqlite"
# Not needed to build a checkpoint anew, or worse off without one.
_BESIDE_CHECKPOINTS = ("journal.jsonl", "events.jsonl", LOCK, "ledger.sqlite")
_PREDICTIONS = "predictions"
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Lost:
    """A file or the folder that is no longer what the run opened.

    said: what happened. is_whole: what was written before is still readable, so it can be put back.
    """

    path: Path
    said: str
    is_whole: bool = True


@dataclass(slots=True)
class _Held:
    """A file as the run knows it. content: of a file that is read once. size: at the last look."""

    handle: int
    content: bytes | None = None
    size: int = 0


class FolderWatch:
    """Compares the files of a run folder with those that the run opened, by device and inode.

    Make one when the run has its lock, `look` at every checkpoint, and `close` it at the end. One thread at a
    time. Windows does not let anybody delete an open file, so there is nothing to do there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._held: dict[str, _Held] = {}
        self._seen: dict[str, tuple[int, ...]] = {}  # of files that are written once, see `_print`
        self._folder: int | None = None
        if os.name != "nt":
            self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW)
            self._add_new()

    def close(self) -> None:
        """Close the files; safe to call twice.

        Not before the run's connections to SQLite are closed: closing any handle of a database gives up the
        locks that this process has on it.
        """
        handles = [held.handle for held in self._held.values()]
        handles += [] if self._folder is None else [self._folder]
        self._held, self._folder = {}, None
        for handle in handles:
            os.close(handle)

    def forget(self, path: Path) -> None:
        """Look at this file no more, since the run itself is about to write it anew."""
        name = path.absolute().relative_to(self._path).as_posix()
        self._seen.pop(name, None)
        if (held := self._held.pop(name, None)) is not None:
            os.close(held.handle)

    def look(self) -> list[Lost]:
        """Return what the run needs and has lost since the last look; then watch the files that are new."""
        if self._folder is None:
            return []
        if (moved := self._lost_folder()) is not None:
            return [moved]
        found = [lost for name in _WRITTEN if (lost := self._lost_file(name)) is not None]
        found += [lost for name in self._seen if (lost := self._lost_once(name)) is not None]
        if not found:
            self._add_new()
        return found

    def changed(self) -> list[Problem]:
        """Return warnings about files that were read once, each once; put back those that are gone."""
        if self._folder is None:
            return []
        found = []
        for name in [name for name in _READ_ONCE if name in self._held]:
            path, content = self._path / name, self._held[name].content or b""
            if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
                continue
            said, then = "this file was edited", "The run keeps using the content it read at the start."
            if path.is_symlink():
                said = "this file was replaced by a link"
            elif not path.exists():
                said, then = "this file was deleted", "autoprompt put it back."
                _write(path, content)
            self.forget(path)
            if not path.is_symlink():
                self._add(name)
            found.append(Problem("run.file-changed", f"{said} while the run is active", Place(path), then))
        return found

    def restore(self, lost: list[Lost]) -> list[str]:
        """Put back what can be put back. Returns what was done, in sentences.

        Files that are in the way are renamed, never overwritten. A damaged checkpoint is set aside: the
        journal has all answers, so a resume finds its way from the start and pays nothing.
        """
        if self._folder is None:
            return []
        if lost[0].path == self._path:
            return self._restore_folder()
        done = []
        for part in lost:
            name = part.path.name
            if part.is_whole and name in self._held:
                self._put_back(self._path, name)
                done.append(f"autoprompt put {name} back.")
            elif part.path.is_symlink():  # no run with a link among its files is opened
                part.path.rename(_free_name(part.path, "replaced"))
        if any(not part.is_whole and part.path.name not in _BESIDE_CHECKPOINTS for part in lost):
            done += self._set_checkpoints_aside()
        return done

    def _restore_folder(self) -> list[str]:
        assert self._folder is not None
        if os.fstat(self._folder).st_nlink and (there := _place_of(self._folder)):
            return [f"Move {there} back to {self._path}."]
        target = self._path
        if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
            target = target.with_name(f"{target.name}.restored")
        target.mkdir(parents=True, exist_ok=True)
        for name in [*self._held]:
            if name not in (LOCK, _CHECKPOINTS):  # the rows of a checkpoint are gone with the folder
                self._put_back(target, name)
        move = "" if target == self._path else f" Move that folder to {self._path}."
        return [f"The answers that were paid for are in {target}.{move}"]

    def _put_back(self, folder: Path, name: str) -> None:
        """Write the content of a held file to its place. What is there now is renamed."""
        path = folder / name
        if os.path.lexists(path):
            path.rename(_free_name(path, "replaced"))
        _copy(self._held[name].handle, path)

    def _set_checkpoints_aside(self) -> list[str]:
        found = [self._path / f"{_CHECKPOINTS}{end}" for end in ("", "-wal", "-shm")]
        for path in found:
            if os.path.lexists(path):
                path.rename(_free_name(path, "damaged"))
        return ["The next resume replays the journal from the start."]

    def _lost_folder(self) -> Lost | None:
        assert self._folder is not None
        ours = os.fstat(self._folder)
        try:
            now = os.lstat(self._path)
        except OSError:
            said = "the run folder was moved" if ours.st_nlink else "the run folder was deleted"
            return Lost(self._path, said)
        if _identity(now) == _identity(ours):
            return None
        if not ours.st_nlink:
            return Lost(self._path, "the run folder was deleted")
        what = (
            "a link"
            if stat.S_ISLNK(now.st_mode)
            else "another folder"
            if stat.S_ISDIR(now.st_mode)
            else "a file"
        )
        return Lost(self._path, f"the run folder was replaced by {what}")

    def _lost_file(self, name: str) -> Lost | None:
        if (held := self._held.get(name)) is None:
            return None
        path, ours = self._path / name, os.fstat(held.handle)
        try:
            now = os.lstat(path)
        except OSError:
            return Lost(path, "this file was deleted")
        if _identity(now) != _identity(ours):
            what = "a link" if stat.S_ISLNK(now.st_mode) else "another file"
            return Lost(path, f"this file was replaced by {what}")
        if name != _CHECKPOINTS and ours.st_size < held.size:
            return Lost(
                path,
                f"this file was cut from {held.size:,} to {counted(ours.st_size, 'byte')}",
                is_whole=False,
            )
        if name == _CHECKPOINTS and held.size and not ours.st_size:
            return Lost(path, "this file was emptied", is_whole=False)
        held.size = ours.st_size
        return None

    def _lost_once(self, name: str) -> Lost | None:
        """Whether a file that is written once, such as the rows of an evaluation, is gone or another one."""
        path = self._path / name
        try:
            now = os.lstat(path)
        except OSError:
            return Lost(path, "this file was deleted", is_whole=False)
        if _print(now) == self._seen[name]:
            return None
        is_link = stat.S_ISLNK(now.st_mode)
        said = "this file was replaced by a link" if is_link else "this file was changed or replaced"
        return Lost(path, said, is_whole=False)

    def _add_new(self) -> None:
        for name in (*_READ_ONCE, *_WRITTEN):
            if name not in self._held:
                self._add(name)
        rows = self._path / _PREDICTIONS
        for path in sorted(rows.glob("*.jsonl")) if rows.is_dir() else ():
            name = f"{_PREDICTIONS}/{path.name}"
            if name not in self._seen:
                self._seen[name] = _print(path.lstat())

    def _add(self, name: str) -> None:
        try:
            handle = os.open(self._path / name, os.O_RDONLY | _NO_FOLLOW)
        except OSError:  # not there yet, or a link, which the run does not follow either
            return
        content = _read(handle) if name in _READ_ONCE else None
        self._held[name] = _Held(handle, content)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _print(found: os.stat_result) -> tuple[int, ...]:
    """Return what tells a file that is not held open: the number of a deleted one is given to the next."""
    kind = stat.S_IFMT(found.st_mode)
    return (*_identity(found), kind, found.st_size, found.st_mtime_ns)


def _read(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    return b"".join(iter(lambda: os.read(handle, 1 << 20), b""))


def _copy(handle: int, path: Path) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    with path.open("xb") as stream:
        for part in iter(lambda: os.read(handle, 1 << 20), b""):
            stream.write(part)
        stream.flush()
        os.fsync(stream.fileno())


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as stream:
        stream.write(content)


def _free_name(path: Path, word: str) -> Path:
    """`journal.jsonl.replaced`, or with a number if that is taken."""
    names = [f"{path.name}.{word}", *(f"{path.name}.{word}-{n}" for n in range(2, 100))]
    return next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))


def _place_of(folder: int) -> str:
    """Return where an open folder is now; "" if the system does not tell."""
    try:
        return str(Path(f"/proc/self/fd/{folder}").readlink())
    except OSError:
        return ""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold a run for this process, see `RunFolder.lock`."""
    lock, holder = FileLock(folder / LOCK), folder / _HOLDER
    try:
        lock.acquire(timeout=_LOCK_PATIENCE_S)
    except Timeout:
        said = f"run {folder.name} is held by {_holder_in(holder)}"
        raise StoreError(Problem("run.busy", said, fix="Wait for it, or end it.")) from None
    try:
        write_json(holder, {"pid": os.getpid(), "host": socket.gethostname(), "since": now()})
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def now() -> str:
    """Return the time in UTC, to the second, as a run's files have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _holder_in(path: Path) -> str:
    try:
        found = read_json(path)
        return f"process {found['pid']} on {found['host']} since {found['since']}"
    except (StoreError, KeyError):  # it has just taken the lock, or is leaving
        return "another process"


if sys.platform == "win32":

    def is_held(path: Path) -> bool:
        """Return whether a process holds the FileLock of this path."""
        if not path.exists():
            return False
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

else:
    import fcntl

    def is_held(path: Path) -> bool:
        """Return whether a process holds the FileLock of this path.

        filelock takes an exclusive `flock`. A share of it is asked for here, since shares do not hinder each
        other: two processes that only look never take each other for the holder.
        """
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # never locked, or a link, which filelock does not follow either
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False
