"""Landlock: the kernel lets the code open only what it was given.

Source: linux/landlock.h and Documentation/userspace-api/landlock.rst of Linux 6.12.
"""

from __future__ import annotations

import os
import stat
import struct

from . import linux

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
READ = _EXECUTE | _READ_FILE | _READ_DIR
SCOPES_SIGNALS = 6
LIST = _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE
EVERYTHING = (1 << 16) - 1


def abi() -> int:
    """The version that the kernel speaks; 0 where it has none or has it switched off."""
    try:
        return linux.syscall("landlock_create_ruleset", _CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def _handled(version: int) -> tuple[int, int, int]:
    """Rights over files, TCP and other domains that this version can take away."""
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if version >= since:
            files |= right
    return files, 0b11 if version >= 4 else 0, 0b11 if version >= SCOPES_SIGNALS else 0


def restrict(version: int, rules: list[tuple[str, int]]) -> None:
    """From here on this process opens only what `rules` (path, rights) give; no TCP, no signals to others.

    A path that is not there is left out. Needs `forbid_new_privileges` before.
    """
    files, tcp, scopes = _handled(version)
    size = 24 if version >= SCOPES_SIGNALS else 16 if version >= 4 else 8
    attributes = struct.pack("<QQQ", files, tcp, scopes)[:size]
    ruleset = linux.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    for path, rights in rules:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("<Qi", rights & files, descriptor)
        linux.syscall("landlock_add_rule", _ADD_RULE, ruleset, 1, rule, 0)
        os.close(descriptor)
    linux.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
