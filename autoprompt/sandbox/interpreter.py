"""Which folders the code's Python needs, to be shown read-only."""

from __future__ import annotations

import ast
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autoprompt.errors import Problem

from .records import SandboxError

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
# Not /etc itself: names of users and machines are nobody's business.
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/fonts")
_ASK = (
    "import sys, sysconfig; p = sysconfig.get_paths(); "
    "print([sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, p['stdlib'], "
    "p['platstdlib'], p['purelib'], p['platlib']])"
)


def absolute(python: str) -> str:
    """The interpreter as given, links kept: a virtual environment is found by its own path."""
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
    """What the interpreter needs. Cached, since it is started to tell.

    python: from `absolute`. Raises SandboxError if it does not start.
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
        folders: list[str] = ast.literal_eval(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, SyntaxError) as error:
        raise SandboxError(f"{python} does not work as a Python interpreter: {error}") from error
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
    """The user's; / for a user without one."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def check_apart(workdir: Path, python: str) -> None:
    """Raises SandboxError for a work folder that would hand the code more than itself.

    The code may write to all of it: to libraries in it too, which are then used unconfined.
    """
    inside = [_home(), Path(tempfile.gettempdir()), Path(__file__), Path(os.path.realpath(python))]
    inside += [Path(target) for _, target in shown(python).folders]
    for path in inside:
        if path.resolve().is_relative_to(workdir):
            raise SandboxError(f"work folder {workdir} contains {path}; choose a folder of its own")
