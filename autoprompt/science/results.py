"""The results folder of an investigation: copies for others to use, no link followed on either side."""

from __future__ import annotations

import functools
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autoprompt.errors import Place, Problem, UsageError
from autoprompt.sandbox import untrusted
from autoprompt.science.records import Investigation

_LARGEST_RESULT = 64 << 20  # of an earlier run, read to know what it had copied
_COPY_BYTES = 1 << 20


def check_output(folder: Path) -> None:
    """Check that a folder can hold copies.

    Raises:
        UsageError: If it is a link, or the folder of a run, whose files must not be replaced.
    """
    place = Place(folder, setting="output")
    if folder.is_symlink():
        said, fix = "this is a link, expected a folder", "Give the path that the link leads to."
        raise UsageError(Problem("science.output-link", said, place, fix))
    if (folder / "run.json").is_file():
        said, fix = "this is the folder of a run, expected a folder for copies", "Give another path."
        raise UsageError(Problem("science.output-run", said, place, fix))


def copy_results(found: Investigation, output: Path) -> list[str]:
    """Copy transcript, scripts and new files as plain files; remove the copies of an earlier run.

    Returns:
        A line for each file that is not copied: a link, a pipe, or a file that has a name elsewhere.

    Raises:
        UsageError: If `output` is, or is behind, a link that the code could have made.
    """
    check_output(output)
    work, run = Path(found.workdir), Path(found.run_dir).resolve()
    with _opened(_without_links(output, work), make=True) as target, _opened(run) as source:
        copies = _Copies(target)
        passes = untrusted.open_below(source, "passes")
        try:
            for entry in untrusted.walk(passes):
                if entry.path is not None and stat.S_ISREG(entry.status.st_mode):
                    copies.add(untrusted.open_file(passes, entry.path), f"passes/{entry.path}")
        finally:
            os.close(passes)
        refused = _copy_files(found, work, copies)
        for name in ("transcript.json", "transcript.md", "result.json"):  # which names the files: last
            copies.add(untrusted.open_file(source, name), name)
        copies.remove_earlier()
    return refused


def _copy_files(found: Investigation, work: Path, copies: _Copies) -> list[str]:
    refused: list[str] = []
    try:
        folder = untrusted.open_folder(str(work))
    except FileNotFoundError:
        return refused
    except OSError as error:
        return [f"work folder {error.strerror or error}"] if found.new_files else []
    inside = functools.cache(lambda: untrusted.names_of_files(folder))
    try:
        for name in found.new_files:
            try:
                file = untrusted.open_file(folder, name)
                _check_inside(file, name, inside)
            except FileNotFoundError:  # removed by a later pass
                continue
            except untrusted.RefusedError as error:
                refused.append(str(error))
                continue
            copies.add(file, f"files/{name}")
    finally:
        os.close(folder)
    return refused


def _check_inside(file: int, path: str, names: Callable[[], dict[tuple[int, int], int]]) -> None:
    """Raise RefusedError for a file that has a name outside of the folder, too, and closes it."""
    status = os.fstat(file)
    if status.st_nlink > 1 and names().get((status.st_dev, status.st_ino)) != status.st_nlink:
        os.close(file)
        raise untrusted.RefusedError(f"{path}: a hard link to a file outside of the folder")


def _without_links(output: Path, work: Path) -> Path:
    """Return the absolute path of the folder, the user's own links followed.

    Links in the work folder, and in place of the results folder itself, stay in the path, and opening it is
    refused.
    """
    path = Path("/")
    parts = output.absolute().parts
    for number, name in enumerate(parts[1:], start=2):
        if name == "..":
            path = path.parent
        elif number == len(parts) or path.is_relative_to(work):
            path = path / name
        else:
            path = (path / name).resolve()
    return path


@contextmanager
def _opened(path: Path, *, make: bool = False) -> Iterator[int]:
    try:
        folder = untrusted.open_folder(str(path.parent))
        try:
            opened = untrusted.open_below(folder, path.name, make=make)
        finally:
            os.close(folder)
    except untrusted.RefusedError as error:
        fix = "Give the path of a folder that no link leads to."
        raise UsageError(Problem("science.output-link", str(error), Place(setting="output"), fix)) from error
    try:
        yield opened
    finally:
        os.close(opened)


class _Copies:
    """What is written to an open results folder, and what an earlier run has left there."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._earlier = set(_earlier(target))
        self._written: set[tuple[int, int]] = set()

    def add(self, file: int, name: str) -> None:
        """Copy an open file, which is closed, to `name`."""
        try:
            self._write(file, name)
        finally:
            os.close(file)

    def _write(self, file: int, name: str) -> None:
        above, _, last = name.rpartition("/")
        for parent in map(str, Path(name).parents):  # a file where a folder has to be
            if parent in self._earlier:
                self._unlink(parent)
        folder = untrusted.open_below(self._target, above, make=True)
        beside = f".{secrets.token_hex(8)}.tmp"
        try:
            copy = untrusted.new_file(folder, beside)
            try:
                _copy(file, copy)
                status = os.fstat(copy)
            finally:
                os.close(copy)
            os.rename(beside, last, src_dir_fd=folder, dst_dir_fd=folder)
            self._written.add((status.st_dev, status.st_ino))
        except BaseException:
            untrusted.remove(folder, beside)
            raise
        finally:
            os.close(folder)

    def remove_earlier(self) -> None:
        """Remove what an earlier run has copied and this one has not."""
        for name in self._earlier:
            self._unlink(name)

    def _unlink(self, name: str) -> None:
        """Remove a regular file, but none that was written: A.txt is a.txt if case does not count."""
        above, _, last = name.rpartition("/")
        try:
            folder = untrusted.open_below(self._target, above)
        except OSError:
            return
        try:
            status = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in self._written:
                os.unlink(last, dir_fd=folder)
        except FileNotFoundError:
            return
        finally:
            os.close(folder)


def _earlier(target: int) -> Iterator[str]:
    """Names of what a run before has copied, as its result says; all else there is somebody's own."""
    try:
        made = json.loads(untrusted.read_file(target, "result.json", _LARGEST_RESULT))["new_files"]
        yield from (f"files/{name}" for name in map(str, list(made)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    try:
        passes = untrusted.open_below(target, "passes")
    except OSError:
        return
    try:
        for name in os.listdir(passes):  # noqa: PTH208 - an open folder
            if name.startswith("pass-") and name.endswith((".json", ".py")):
                yield f"passes/{name}"
    finally:
        os.close(passes)


def _copy(file: int, copy: int) -> None:
    """Copy the content, with its holes: a file of some bytes may say that it is as large as the disk."""
    position, size = 0, os.fstat(file).st_size
    while position < size:
        try:
            position = os.lseek(file, position, os.SEEK_DATA)
            end = os.lseek(file, position, os.SEEK_HOLE)
        except OSError:  # a hole up to the end
            break
        os.lseek(file, position, os.SEEK_SET)
        os.lseek(copy, position, os.SEEK_SET)
        while position < end and (part := os.read(file, min(_COPY_BYTES, end - position))):
            position += len(part)
            while part:
                part = part[os.write(copy, part) :]
    os.ftruncate(copy, size)
