"""The work folder around a run: handed over, measured, taken back."""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH106, PTH108
from __future__ import annotations

import os
import time
from collections.abc import Iterator

_BLOCK = 4096


def entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """All below the folder, a folder before what is in it, links not followed.

    What vanishes meanwhile, or lies deeper than a path can name, is left out.
    """
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry
        except OSError:
            continue


def disk_usage(folder: str, seconds: float) -> int:
    """Bytes taken, at least a block for each entry; what was counted when the `seconds` were over."""
    total = 0
    end = time.monotonic() + seconds
    for entry in entries(folder):
        try:
            total += max(_BLOCK, entry.stat(follow_symlinks=False).st_blocks * 512)
        except OSError:
            continue
        if time.monotonic() > end:
            break
    return total


def give(folder: str, uid: int) -> dict[str, tuple[int, int]]:
    """Hands the folder and all in it to `uid`; returns the owners that were not root, for `take_back`."""
    owners = {}
    for path in [folder, *(entry.path for entry in entries(folder))]:
        status = os.lstat(path)
        if (status.st_uid, status.st_gid) != (0, 0):
            owners[path] = (status.st_uid, status.st_gid)
        os.lchown(path, uid, uid)
    return owners


def take_back(folder: str, uid: int, owners: dict[str, tuple[int, int]]) -> None:
    """What `uid`, of whom no process is left, made becomes root's; the kernel takes setuid bits away."""
    for path in [folder, *(entry.path for entry in entries(folder))]:
        if os.lstat(path).st_uid == uid:
            os.lchown(path, *owners.get(path, (0, 0)))


def remove(folder: str) -> None:
    """With all in it. Not shutil's: its import is paid by every experiment."""
    found = list(entries(folder))
    for entry in reversed(found):
        try:
            if entry.is_dir(follow_symlinks=False):
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            continue
    try:
        os.rmdir(folder)
    except OSError:  # something deeper than a path can name; the system's cleaning of /tmp takes it
        return
