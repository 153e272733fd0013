"""The work folder as the parent sees it: data in, new files out."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from .child import folder
from .records import SandboxError

SCRIPT = ".experiment.py"
Snapshot = dict[str, tuple[int, int, int]]
_MOST_NAMED = 1000


def prepare(workdir: Path, data: Iterable[Path], code: str | None) -> set[str]:
    """Makes the folder, puts copies of the data files and the script in; returns the names of these.

    A copy that differs from its original in size or time, because earlier code wrote to it, is made again.
    Copies are read-only for the code as far as file modes go.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    for source in data:
        if not source.is_file():
            raise SandboxError(f"{source}: no such data file")
        if source.name in names:
            raise SandboxError(f"{source}: two data files of the name {source.name}; rename one")
        names.add(source.name)
        _copy(source, workdir / source.name)
    if code is not None:
        names.add(SCRIPT)
        _remove(workdir / SCRIPT)
        (workdir / SCRIPT).write_text(code, encoding="utf-8", errors="surrogatepass")
    return names


def _copy(source: Path, target: Path) -> None:
    wanted = source.stat()
    if target.is_file() and not target.is_symlink():
        found = target.stat()
        if (found.st_size, found.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns):
            return
    _remove(target)
    shutil.copy2(source, target)
    target.chmod(0o444)


def _remove(path: Path) -> None:
    """Whatever code may have put there; a link is not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def snapshot(workdir: Path) -> Snapshot:
    """Regular files, links left out: a link made by the code could lead anywhere."""
    found: Snapshot = {}
    for entry in folder.entries(str(workdir)):
        if entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
            found[entry.path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def new_files(workdir: Path, before: Snapshot, own: set[str]) -> tuple[Path, ...]:
    """Relative paths, sorted; the first thousand."""
    after = snapshot(workdir)
    changed = (Path(path).relative_to(workdir) for path, state in after.items() if before.get(path) != state)
    return tuple(sorted(path for path in changed if str(path) not in own)[:_MOST_NAMED])


def drop_script(workdir: Path) -> None:
    _remove(workdir / SCRIPT)
