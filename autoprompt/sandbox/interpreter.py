"""Which folders the code's Python needs, to be shown read-only."""

from __future__ import annotations

import ast
import subprocess
from functools import lru_cache
from pathlib import Path

from .records import SandboxError

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
# Not /etc itself: names of users and machines are nobody's business.
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/fonts")
_ASK = (
    "import sys, sysconfig; p = sysconfig.get_paths(); "
    "print([sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, p['stdlib'], "
    "p['platstdlib'], p['purelib'], p['platlib'], sys.executable])"
)


def absolute(python: str) -> str:
    """The interpreter as given, links kept: a virtual environment is found by its own path."""
    path = Path(python).expanduser().absolute()
    if not path.is_file():
        raise SandboxError(f"{python}: no such Python interpreter. Give the path of one with --python.")
    return str(path)


@lru_cache(maxsize=16)
def libraries(python: str) -> tuple[tuple[str, str], ...]:
    """(source without links, path as the code sees it), outer folders first. Cached: starts the interpreter.

    python: from `absolute`. Raises SandboxError if it does not start.
    """
    paths = {*_SYSTEM, *_SYSTEM_FILES}
    for path in _ask(python):
        paths |= {path, str(Path(path).resolve())}
    step = Path(python)
    while step.is_symlink():  # each link on the way must be there
        step = step.parent / step.readlink()
        if "/bin/" in str(step):
            paths.add(str(step.parent.parent.resolve()))
    pairs = [(str(Path(path).resolve()), path) for path in paths if Path(path).exists()]
    return tuple(_outermost(pairs))


def _ask(python: str) -> list[str]:
    command = [python, "-I", "-c", _ASK]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env={})
        *folders, executable = ast.literal_eval(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, SyntaxError) as error:
        raise SandboxError(f"{python} does not work as a Python interpreter: {error}") from error
    return [*folders, str(Path(executable).parent)]


def _outermost(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without what another pair shows at the same place, and without the whole disk or a whole home."""
    exposing = {Path("/"), Path.home(), *Path.home().parents}
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
