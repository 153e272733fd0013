"""The files that a command reads: nothing that it writes may replace one of them.

Whoever learns of an input calls `protect`. `check_writable` and `write_output` in `autoprompt.text.files`,
which see every output that a user names, refuse a protected one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

# What each input is to the command, such as "dataset"; None outside of a command.
_INPUTS: ContextVar[dict[Path, list[str]] | None] = ContextVar("inputs", default=None)


@contextmanager
def protecting() -> Iterator[None]:
    """Protect inputs until the block ends; a block within another one shares its inputs."""
    if _INPUTS.get() is not None:
        yield
        return
    token = _INPUTS.set({})
    try:
        yield
    finally:
        _INPUTS.reset(token)


def protect(path: Path, role: str) -> None:
    """Remember an input, which need not exist.

    Args:
        path: The file.
        role: What it is to the command: the name of its setting, or a noun.
    """
    inputs = _INPUTS.get()
    if inputs is not None:
        inputs.setdefault(path.absolute(), []).append(role)


def role_of(path: Path, own: str = "") -> str | None:
    """Return what an input is to the command, however its path is spelled; None if there is no input.

    Args:
        path: The file that is to be written, or a folder whose files are.
        own: The role in which it may be written.
    """
    for known, roles in (_INPUTS.get() or {}).items():
        others = [role for role in roles if role != own]
        if others and (_is_same(path, known) or path.resolve() in known.resolve().parents):
            return others[0]
    return None


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # also by a link, or in capitals where the disk does not tell them apart
    except OSError:  # one of them is not there yet
        return one.resolve() == other.resolve()
