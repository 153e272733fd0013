"""The folders of a run: those of its Python, read-only, and its work folder with data in and new files out.

Code may have left anything in the work folder.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autoprompt.errors import Place, Problem
from autoprompt.text import python_source

from .child import untrusted
from .records import SandboxError

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
# Not /etc itself: names of users and machines are nobody's business.
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/fonts")
_ASK = (
    "import sys, sysconfig; p = sysconfig.get_paths(); "
    "print([sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, p['stdlib'], "
    "p['platstdlib'], p['purelib'], p['platlib']])"
)
SCRIPT = ".experiment.py"
Snapshot = dict[str, tuple[int, int, int]]
_MOST_NAMED = 1000


def absolute(python: str) -> str:
    """Return the interpreter as given, links kept: a virtual environment is found by its own path."""
    path = Path(python).expanduser().absolute()
    if not path.is_file():
        said, fix = f"{python}: no such Python interpreter", "Give the path of one with {python}."
        raise SandboxError(Problem("sandbox.no-python", said, fix=fix, settings={"python": None}))
    return str(path)


@dataclass(frozen=True)
class Shown:
    """folders: (source without links, path as the code sees it), outer ones first; files too. links: symbolic
    links on the way to the interpreter that lie elsewhere, (path, where it leads)."""

    folders: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]


@lru_cache(maxsize=16)
def shown(python: str) -> Shown:
    """Return what the interpreter needs. Cached, since it is started to tell.

    python: from `absolute`.

    Raises:
        SandboxError: If it does not start.
    """
    paths = {*_SYSTEM, *_SYSTEM_FILES}
    for path in _ask(python):
        paths |= {path, str(Path(path).resolve())}
    pairs = [(str(Path(path).resolve()), path) for path in paths if Path(path).exists()]
    folders = _outermost(pairs)
    links = []
    step = Path(python)
    while step.is_symlink():
        if not any(step.is_relative_to(target) for _, target in folders):
            links.append((str(step), str(step.readlink())))
        step = Path(os.path.normpath(step.parent / step.readlink()))
    return Shown(tuple(folders), tuple(links))


def _ask(python: str) -> list[str]:
    command = [python, "-I", "-c", _ASK]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env={})
        folders: list[str] = python_source.read_literal(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, SyntaxError) as error:
        said, fix = f"{python} does not work as a Python interpreter: {error}", "Give another with {python}."
        raise SandboxError(Problem("sandbox.bad-python", said, fix=fix, settings={"python": None})) from error
    return folders


def _outermost(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without what another pair shows at the same place, and without the whole disk or a whole home."""
    exposing = {Path("/"), _home(), *_home().parents}
    kept: list[tuple[str, str]] = []
    for source, target in sorted(pairs, key=lambda pair: (len(Path(pair[1]).parts), pair[1])):
        covered = any(
            Path(target).is_relative_to(outer)
            and Path(source) == Path(inner, Path(target).relative_to(outer)).resolve()
            for inner, outer in kept
        )
        if not covered and Path(source) not in exposing:
            kept.append((source, target))
    return kept


def _home() -> Path:
    """Return the user's home; / for a user without one."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def check_apart(workdir: Path, python: str) -> None:
    """Raise SandboxError for a work folder that would hand the code more than itself.

    The code may write to all of it: to libraries in it too, which are then used unconfined.
    """
    inside = [_home(), Path(tempfile.gettempdir()), Path(__file__), Path(os.path.realpath(python))]
    inside += [Path(target) for _, target in shown(python).folders]
    for path in inside:
        if path.resolve().is_relative_to(workdir):
            said = f"the work folder contains {path}, which the code could then change"
            fix = "Choose an empty folder of its own."
            raise SandboxError(Problem("sandbox.bad-work-folder", said, Place(workdir), fix))


@contextmanager
def opened(workdir: Path) -> Iterator[int]:
    """Yield the folder, made if it is not there and open until the end. Then its mode is as before.

    workdir: absolute, without links.

    Raises:
        SandboxError: If it cannot be opened.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        folder = untrusted.open_folder(str(workdir))
    except OSError as error:
        said = f"the work folder cannot be opened ({error.strerror or error})"
        fix = "Check its permissions, or choose another folder."
        raise SandboxError(Problem("sandbox.no-work-folder", said, Place(workdir), fix)) from error
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
    """Yield a folder, and remove it in the end, however deep the code has made it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield folder
    finally:
        with suppress(OSError):
            untrusted.remove_tree(folder)


def prepare(folder: int, workdir: Path, data: Iterable[Path], code: str | None) -> set[str]:
    """Put copies of the data files and the script into the open folder; return the names of these.

    A copy that differs from its original in size or time, because earlier code wrote to it, is made again.
    Copies are read-only for the code as far as file modes go.
    """
    names: set[str] = set()
    for source in data:
        if not source.is_file():
            fix = "Check the path."
            raise SandboxError(Problem("sandbox.no-data-file", "no such data file", Place(source), fix))
        if source.resolve().is_relative_to(workdir):
            said = "the data file is in the work folder, where the code can change it"
            fix = "Move the file, or choose another work folder."
            raise SandboxError(Problem("sandbox.data-in-work-folder", said, Place(source), fix))
        if source.name in names:
            said = f"another data file is called {source.name} too"
            raise SandboxError(Problem("sandbox.same-name", said, Place(source), "Rename one of them."))
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
