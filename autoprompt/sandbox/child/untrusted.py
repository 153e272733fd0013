"""A folder that code filled which nobody has read: listed, read, handed over and removed, no link followed.

Each step opens one name in a folder that is already open, and refuses a link there (O_NOFOLLOW). So it does
not matter what the code puts in place of a name, or when. Paths may be longer than the system's limit.
"""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH100, PTH101
from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

# The system takes 4096, of which the folder above, and a results folder, need their part.
LONGEST_PATH = 2048  # bytes
# Folders held open on the way down, out of the 1,024 files that a process may have open.
_MOST_OPEN = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class RefusedError(OSError):
    """What is there is not followed, opened or copied. The text says what was found where."""


class MovedError(OSError):
    """The folder was rearranged, or closed to its owner, while it was being walked."""


class Entry:
    """One name in a folder. `folder`: the folder, open until the next entry is asked for. `path`: relative to
    where the walk began; None if it is longer than LONGEST_PATH."""

    __slots__ = ("folder", "name", "path", "status")

    def __init__(self, folder: int, name: str, path: str | None, status: os.stat_result) -> None:
        self.folder = folder
        self.name = name
        self.path = path
        self.status = status


def open_folder(path: str) -> int:
    """Open an absolute path of which no part is a link.

    Raises:
        RefusedError: If a part is a link.
        OSError: If it is missing.
    """
    folder = os.open("/", _FOLDER)
    for name in filter(None, path.split("/")):
        folder = _into(folder, name, path)
    return folder


def open_below(folder: int, path: str, *, make: bool = False) -> int:
    """Open the folder `path` (relative, "" for itself) below an open one. make: make the missing parts."""
    names = _names(path) if path else []
    below = os.dup(folder)
    for name in names:
        if make:
            try:
                os.mkdir(name, dir_fd=below)
            except FileExistsError:
                pass
            except OSError:
                os.close(below)
                raise
        below = _into(below, name, path)
    return below


def _into(folder: int, name: str, path: str) -> int:
    """Return the folder `name` in `folder`, which is closed."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        raise _refused(folder, name, path, "folder", error) from error
    finally:
        os.close(folder)


def _names(path: str) -> list[str]:
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        raise RefusedError(f"{path!r}: not a path below a folder")
    return names


def open_file(folder: int, path: str) -> int:
    """Open a regular file below an open folder for reading.

    Raises:
        RefusedError: For anything else, such as a pipe, and for a link in any part of the path.
    """
    *above, name = _names(path)
    parent = open_below(folder, "/".join(above))
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):  # opening a device can already do something
            raise _refused(parent, name, path, "file", None)
        try:
            file = os.open(name, _FILE, dir_fd=parent)
        except OSError as error:
            raise _refused(parent, name, path, "file", error) from error
    finally:
        os.close(parent)
    if not os.path.samestat(os.fstat(file), status):
        os.close(file)
        raise RefusedError(f"{path}: replaced while it was opened")
    return file


def _refused(folder: int, name: str, path: str, wanted: str, error: OSError | None) -> OSError:
    """Return why `name` is not opened: what it is, or the system's own reason."""
    try:
        kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        kind = 0
    where = path if path.endswith(name) else f"{path} ({name})"
    if kind and kind != {"folder": stat.S_IFDIR, "file": stat.S_IFREG}[wanted]:
        return RefusedError(f"{where}: {_KINDS.get(kind, 'a file')}, expected a {wanted}")
    if error is None or error.errno in (errno.ELOOP, errno.ENOTDIR):
        return RefusedError(f"{where}: replaced while it was opened")
    return error


def read_file(folder: int, path: str, most_bytes: int) -> bytes:
    """Read a regular file below an open folder. As `open_file`; also raises RefusedError for a larger one."""
    file = open_file(folder, path)
    try:
        content = bytearray()
        while part := os.read(file, min(1 << 20, most_bytes + 1 - len(content))):
            content += part
    finally:
        os.close(file)
    if len(content) > most_bytes:
        raise RefusedError(f"{path}: more than {most_bytes:,} bytes")
    return bytes(content)


def new_file(folder: int, name: str, mode: int | None = None) -> int:
    """Make a file in an open folder, for writing.

    mode: of the file; default: what the system gives new files.

    Raises:
        FileExistsError: If the name is taken.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    if mode is not None:
        os.fchmod(file, mode)
    return file


def walk(folder: int, *, strict: bool = False, inner_first: bool = False) -> Iterator[Entry]:
    """Yield all entries below an open folder, a folder before what is in it. Takes any depth.

    strict: raise MovedError if something moves or closes a folder meanwhile. Otherwise the walk leaves out
    what it cannot enter, and ends if it cannot find its way back. inner_first: a folder after what is in it.
    """
    stack: list[_Open] = []
    try:
        stack.append(_Open(_opened_again(folder), ".", ""))
        yield from stack[-1].entries(inner_first=inner_first)
        while stack:
            here = stack[-1]
            if here.waiting:
                below = _entered(here, here.waiting.pop(), strict=strict)
                if below is not None:
                    stack.append(below)
                    if len(stack) > _MOST_OPEN:
                        stack[-1 - _MOST_OPEN].close()
                    yield from below.entries(inner_first=inner_first)
            elif len(stack) > 1 and not stack[-2].is_reopened(here):
                if strict:
                    raise MovedError("a folder was moved while it was being walked")
                return
            else:
                stack.pop().close()
                if inner_first and stack:
                    yield stack[-1].entry(here)
    finally:
        for opened in stack:
            opened.close()


def _opened_again(folder: int) -> int:
    try:
        return os.open(".", _FOLDER, dir_fd=folder)
    except PermissionError:  # closed to its owner since it was opened
        os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | 0o700)
        return os.open(".", _FOLDER, dir_fd=folder)


class _Open:
    """A folder on the way down. The outer ones of a deep path are closed, and opened again as `..`."""

    __slots__ = ("_is_closed", "_path", "_status", "descriptor", "name", "waiting")

    def __init__(self, descriptor: int, name: str, path: str | None) -> None:
        self.descriptor = descriptor
        self.name = name
        self.waiting: list[str] = []
        self._is_closed = False
        self._path = path
        self._status = os.fstat(descriptor)

    def entries(self, *, inner_first: bool) -> Iterator[Entry]:
        with os.scandir(self.descriptor) as found:
            # Who removes entries while a folder is being read may miss others.
            for item in list(found) if inner_first else found:
                try:
                    status = item.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue
                if stat.S_ISDIR(status.st_mode):
                    self.waiting.append(item.name)
                    if inner_first:
                        continue
                yield Entry(self.descriptor, item.name, self.below(item.name), status)

    def below(self, name: str) -> str | None:
        if self._path is None:
            return None
        path = f"{self._path}/{name}" if self._path else name
        return path if len(os.fsencode(path)) <= LONGEST_PATH else None

    def entry(self, below: _Open) -> Entry:
        return Entry(self.descriptor, below.name, below._path, below._status)

    def is_reopened(self, below: _Open) -> bool:
        """Return False if `below` is no longer in this folder."""
        if not self._is_closed:
            return True
        try:
            above = os.open("..", _FOLDER, dir_fd=below.descriptor)
        except OSError:
            return False
        if not os.path.samestat(os.fstat(above), self._status):
            os.close(above)
            return False
        self.descriptor, self._is_closed = above, False
        return True

    def close(self) -> None:
        if not self._is_closed:
            os.close(self.descriptor)
            self._is_closed = True


def _entered(above: _Open, name: str, *, strict: bool) -> _Open | None:
    for attempt in range(2):
        try:
            return _Open(os.open(name, _FOLDER, dir_fd=above.descriptor), name, above.below(name))
        except PermissionError as error:
            if attempt == 0 and _open_to_owner(above.descriptor, name):
                continue
            if attempt and strict:
                raise MovedError(f"{name}: closed again to its owner") from error
            return None
        except OSError:  # gone, or a link or a file now
            return None
    raise AssertionError("unreachable: the second failure returns")


def _open_to_owner(folder: int, name: str) -> bool:
    """Give a folder's owner the right to list it, since code may make one that only takes files.

    False if it is somebody else's.
    """
    if not hasattr(os, "O_PATH"):
        return False
    try:
        found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(os.fstat(found).st_mode) | 0o700)
    except OSError:
        return False
    finally:
        os.close(found)
    return True


def names_of_files(folder: int) -> dict[tuple[int, int], int]:
    """Return how many names each file below an open folder has there, if it has several anywhere."""
    found: dict[tuple[int, int], int] = {}
    for entry in walk(folder):
        if stat.S_ISREG(entry.status.st_mode) and entry.status.st_nlink > 1:
            key = (entry.status.st_dev, entry.status.st_ino)
            found[key] = found.get(key, 0) + 1
    return found


def remove(folder: int, name: str) -> None:
    """Remove `name` from an open folder with all below it, as far as the system lets us."""
    try:
        os.unlink(name, dir_fd=folder)
        return
    except FileNotFoundError:
        return
    except OSError:  # a folder, most likely
        pass
    try:
        inside = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        _open_to_owner(folder, name)
        inside = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for entry in walk(inside, inner_first=True):
            try:
                if stat.S_ISDIR(entry.status.st_mode):
                    os.rmdir(entry.name, dir_fd=entry.folder)
                else:
                    os.unlink(entry.name, dir_fd=entry.folder)
            except OSError:
                continue
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)


def remove_tree(path: str | os.PathLike[str]) -> None:
    """As `remove`, for a path of which the folders above the last name can be trusted."""
    above, name = os.path.split(os.path.abspath(path))
    folder = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove(folder, name)
    finally:
        os.close(folder)


Owners = dict[tuple[int, int], tuple[int, int]]


def give(path: str, uid: int) -> Owners:
    """Hand the folder and all in it to `uid`; return the owners that were not root, for `take_back`.

    A file that has a name outside of the folder, too, stays with its owner.
    """
    owners: Owners = {}
    folder = open_folder(path)
    try:
        _give(owners, os.fstat(folder), folder, uid)
        inside: dict[tuple[int, int], int] | None = None
        for entry in walk(folder):
            status = entry.status
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                inside = names_of_files(folder) if inside is None else inside
                if inside.get((status.st_dev, status.st_ino)) != status.st_nlink:
                    continue
            _give(owners, status, entry.name, uid, entry.folder)
    finally:
        os.close(folder)
    return owners


def _give(
    owners: Owners, status: os.stat_result, name: str | int, uid: int, folder: int | None = None
) -> None:
    if status.st_uid == uid:  # another name of a file that was given already
        return
    if (status.st_uid, status.st_gid) != (0, 0):
        owners[status.st_dev, status.st_ino] = (status.st_uid, status.st_gid)
    _own(name, uid, uid, folder)


def take_back(path: str, uid: int, owners: Owners) -> None:
    """Give root what `uid`, of whom no process is left, made; the kernel takes setuid bits away."""
    folder = open_folder(path)
    try:
        _take_back(os.fstat(folder), folder, uid, owners)
        for entry in walk(folder):
            _take_back(entry.status, entry.name, uid, owners, entry.folder)
    finally:
        os.close(folder)


def _take_back(
    status: os.stat_result, name: str | int, uid: int, owners: Owners, folder: int | None = None
) -> None:
    if status.st_uid == uid:
        _own(name, *owners.get((status.st_dev, status.st_ino), (0, 0)), folder)


def _own(name: str | int, uid: int, gid: int, folder: int | None) -> None:
    if isinstance(name, int):
        os.fchown(name, uid, gid)
    else:
        os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
