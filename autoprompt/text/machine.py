"""What this machine refuses or lacks, and what to do: disk, memory, permissions, limits, packages.

A condition that no code can help is a problem here and nowhere else, whatever raises it: the command line
asks at its end, and so does a batch for a trial.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autoprompt.errors import Place, Problem, StoreError

_LONGEST_SHOWN = 200  # characters of a path in a message
_NO_SPACE = Problem("machine.no-space", "no space is left on the disk", fix="Make room.")
_READ_ONLY = Problem(
    "machine.read-only", "the file system is read-only", fix="Give a path on a disk that can be written."
)
_NO_MEMORY = Problem(
    "machine.no-memory",
    "there is not enough memory",
    fix="Close other programs, or use a smaller model or file.",
)
_NO_PROCESS = Problem(
    "machine.no-process",
    "no further process or thread can be started: memory or processes are at their limit",
    fix="End other programs, or raise the limit with `ulimit -u`.",
)
_IO_ERROR = Problem(
    "machine.io-error", "the disk cannot be read or written, or is full", fix="Check the disk."
)
_LOCKED = Problem(
    "machine.database-locked",
    "another program has locked the database, and it did not become free",
    fix="End that program.",
)
_DAMAGED = Problem(
    "machine.database-damaged", "the database is damaged", fix="Restore it from a copy, or move it away."
)
_NOT_PERMITTED = Problem(
    "machine.not-permitted",
    "the system does not permit it",
    fix="Check who owns the path and its permissions, or give another path.",
)
_BY_ERRNO = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: Problem("machine.quota", "the disk quota of this user is used up", fix="Delete files."),
    errno.EFBIG: Problem(
        "machine.file-too-large",
        "the file is larger than the system allows",
        fix="Raise the limit: ulimit -f.",
    ),
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _NOT_PERMITTED,
    errno.EPERM: _NOT_PERMITTED,
    errno.ENAMETOOLONG: Problem(
        "machine.path-too-long", "the path, or a name in it, is too long", fix="Give a shorter path."
    ),
    errno.ELOOP: Problem(
        "machine.link-loop", "the path has too many links", fix="Give the path without links."
    ),
    errno.ENOTDIR: Problem("machine.not-a-folder", "a part of the path is no folder", fix="Check the path."),
    errno.EISDIR: Problem(
        "machine.folder", "this is a folder, expected a file", fix="Give the path of a file."
    ),
    errno.ENOENT: Problem("machine.no-file", "there is no such file or folder", fix="Check the path."),
    errno.EMFILE: Problem(
        "machine.open-files",
        "too many files are open",
        fix="Raise the limit, ulimit -n 4096, or lower {concurrency}.",
        settings={"concurrency": None},
    ),
    errno.ENFILE: Problem(
        "machine.open-files", "too many files are open on this machine", fix="End other programs."
    ),
    errno.ENOMEM: _NO_MEMORY,
    errno.EAGAIN: _NO_PROCESS,
    errno.EIO: _IO_ERROR,
    errno.ESTALE: Problem("machine.io-error", "the network disk lost the file", fix="Mount the disk again."),
    errno.EBUSY: Problem(
        "machine.busy", "another program uses it", fix="End that program, or wait, and try again."
    ),
    errno.ETXTBSY: Problem(
        "machine.busy", "another program uses it", fix="End that program, or wait, and try again."
    ),
}
_BY_SQLITE = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_FULL": _NO_SPACE,
    "SQLITE_IOERR": _IO_ERROR,
    "SQLITE_NOMEM": _NO_MEMORY,
    "SQLITE_READONLY": Problem(
        "machine.read-only", "the database cannot be written", fix="Check its permissions."
    ),
    "SQLITE_PERM": _NOT_PERMITTED,
    "SQLITE_CANTOPEN": Problem(
        "machine.database-closed", "the database cannot be opened", fix="Check its folder."
    ),
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
}


def machine_problem(error: BaseException, path: Path | None = None) -> Problem | None:
    """Return what a condition of the machine is, for whoever can change it; None for another error.

    path: of the file, if the error does not know it.
    """
    if isinstance(error, MemoryError):
        return _at(_NO_MEMORY, path)
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _at(_NO_PROCESS, path)
    if code := getattr(error, "sqlite_errorname", None):  # by name: `--help` is to load no sqlite3
        known = _BY_SQLITE.get("_".join(code.split("_")[:2]))  # a third part says which one of the kind
        return None if known is None else _at(known, path)
    if not isinstance(error, OSError):
        return None
    name = error.filename
    if isinstance(name, str | bytes | os.PathLike):
        path = Path(os.fsdecode(name))
    is_relative = path is None or not path.is_absolute()
    if error.errno == errno.ENOENT and is_relative and not _has_working_folder():
        said = "the working folder was deleted"
        return Problem("machine.no-working-folder", said, fix="Change to a folder that is there: cd")
    known = None if error.errno is None else _BY_ERRNO.get(error.errno)
    if known is None:
        known = Problem(
            "machine.system", f"the system refuses: {error.strerror or error or type(error).__name__}"
        )
    return _at(known, path)


def explained(error: BaseException, path: Path) -> StoreError | None:
    """Return the error to raise for a file of ours that the machine refuses; None for another fault of it."""
    problem = machine_problem(error, path)
    return None if problem is None or problem.code == "machine.database-damaged" else StoreError(problem)


def _at(problem: Problem, path: Path | None) -> Problem:
    if path is not None and len(str(path)) > _LONGEST_SHOWN:
        path = Path(f"{str(path)[:_LONGEST_SHOWN]}...")
    return problem.at(Place(path))


def _has_working_folder() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


_ROOT = Path(__file__).parents[2]
# The index has another project named `autoprompt`.
DISTRIBUTION = "autoprompt-optimizer"


def installed_version() -> str:
    """Return the version that was installed, which the build takes from the git tags; else `0+unknown`."""
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # not installed, but run from its checkout
        return "0+unknown"


def _origin() -> dict[str, Any] | None:
    """Return where this program was installed from, as pip notes it (PEP 610); None if it was not."""
    from importlib import metadata

    try:
        found = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return None
    return dict(found)


def _elsewhere(extra: str = "") -> str | None:
    """Return what pip installs this program from on any machine; None if it came from a folder."""
    origin = _origin()
    name = f"{DISTRIBUTION}[{extra}]" if extra else DISTRIBUTION
    if origin is None or "dir_info" in origin:
        return None
    url = str(origin.get("url", ""))
    if not url:
        return name
    folder = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    vcs = origin.get("vcs_info", {})
    return f"{name} @ " + (f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url) + folder


def install_line() -> str | None:
    """Return what pip installs this very version from, on any machine; None if nothing does."""
    found = _elsewhere()
    if found is None or re.search(r" @ (\w+\+)?file:", found):
        return None
    return f"{found}=={installed_version()}" if found == DISTRIBUTION else found


def install_extra(extra: str) -> str:
    """Return the command that installs an extra for the Python that runs, from where this program came.

    That is the checkout, the repository or file, or the index that it was installed from. If its folder is
    gone, the packages of the extra are named: no index has this checkout.
    """
    from urllib.request import url2pathname

    origin = _origin()
    if origin is None:
        return install(["-e", f"{_ROOT}[{extra}]"])
    if (found := _elsewhere(extra)) is not None:
        return install([found])
    folder = Path(url2pathname(urlsplit(str(origin["url"])).path))
    if not folder.is_dir():
        return install(
            name for name, marker in _required() if f"extra == '{extra}'" in marker.replace('"', "'")
        )
    return install([*(["-e"] if origin["dir_info"].get("editable") else []), f"{folder}[{extra}]"])


def install(wanted: Iterable[str]) -> str:
    """Return the command for these requirements, with the `pip` of the Python that runs."""
    found = shutil.which("pip")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = "pip" if is_ours else f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} install {shlex.join(wanted)}"


def requirements() -> list[str]:
    """Return what this program always needs, as pip takes it; empty if it was not installed."""
    return [name for name, marker in _required() if "extra ==" not in marker]


def _required() -> list[tuple[str, str]]:
    """Return each requirement with its condition."""
    from importlib import metadata

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    parts = (line.partition(";") for line in lines)
    return [(name.strip(), marker.strip()) for name, _, marker in parts]
