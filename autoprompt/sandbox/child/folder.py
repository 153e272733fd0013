"""The work folder around a run: handed over, and taken back."""

from __future__ import annotations

import os
import stat

from . import untrusted

Owners = dict[tuple[int, int], tuple[int, int]]


def give(path: str, uid: int) -> Owners:
    """Hand the folder and all in it to `uid`; return the owners that were not root, for `take_back`.

    A file that has a name outside of the folder, too, stays with its owner.
    """
    owners: Owners = {}
    folder = untrusted.open_folder(path)
    try:
        _give(owners, os.fstat(folder), folder, uid)
        inside: dict[tuple[int, int], int] | None = None
        for entry in untrusted.walk(folder):
            status = entry.status
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                inside = untrusted.names_of_files(folder) if inside is None else inside
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
    """What `uid`, of whom no process is left, made becomes root's; the kernel takes setuid bits away."""
    folder = untrusted.open_folder(path)
    try:
        _take_back(os.fstat(folder), folder, uid, owners)
        for entry in untrusted.walk(folder):
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
