"""The Linux calls that Python's os module does not have, each raising OSError with its name."""

from __future__ import annotations

import ctypes
import os

MACHINE = os.uname().machine
_libc = ctypes.CDLL(None, use_errno=True)

# x86_64, aarch64; the calls from 424 on have one number everywhere.
_CAPSET = {"x86_64": 126, "aarch64": 91}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
CAP_DAC_READ_SEARCH = 2
_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER = 1, 8, 22, 36
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 38, 47


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(name: str, number: int, *arguments: object) -> int:
    """arguments: int, bytes, None or a ctypes object. Every int is passed as a full machine word."""
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(name, _libc.syscall(ctypes.c_long(number), *words))


def _prctl(name: str, option: int, *arguments: object) -> None:
    words = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    _checked(name, _libc.prctl(option, *words))


def signal_at_parent_death(number: int) -> None:
    """Have the kernel send this signal when the parent dies. The caller checks that it still lives.

    A change of credentials clears this, so it comes after.
    """
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, number)


def become_subreaper() -> None:
    """Orphans below become children of this process, so no descendant is lost."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def install_filter(instructions: bytes) -> None:
    """instructions: struct sock_filter, 8 bytes each."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    program = Program(len(instructions) // 8, instructions)
    _prctl("PR_SET_SECCOMP", _PR_SET_SECCOMP, 2, ctypes.byref(program))


def keep_capabilities_over_user_change() -> None:
    _prctl("PR_SET_KEEPCAPS", _PR_SET_KEEPCAPS, 1)


def reduce_capabilities(kept: int | None) -> None:
    """Reduce them to none, or to the one of that number, which exec then leaves.

    Raises:
        OSError: If this process lacks it.
    """
    header = (0x20080522).to_bytes(4, "little") + bytes(4)
    low = (0 if kept is None else 1 << kept).to_bytes(4, "little")
    syscall("capset", _CAPSET[MACHINE], header, 3 * low + bytes(12))
    if kept is not None:
        _prctl("PR_CAP_AMBIENT", _PR_CAP_AMBIENT, 2, kept)


def unshare(flags: int) -> None:
    _checked("unshare", _libc.unshare(ctypes.c_int(flags)))


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _checked(f"mount on {target}", result)


def unmount(target: str) -> None:
    _checked(f"umount {target}", _libc.umount2(os.fsencode(target), MNT_DETACH))


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only; a plain remount does not reach these. Needs Linux 5.12."""
    attributes = (MS_RDONLY | MS_NOSUID).to_bytes(8, "little") + bytes(24)
    at_fdcwd, at_recursive = -100, 0x8000
    arguments = (at_fdcwd, os.fsencode(target), at_recursive, attributes, len(attributes))
    syscall("mount_setattr", _MOUNT_SETATTR, *arguments)


def pivot_root(new: str, old: str) -> None:
    syscall("pivot_root", _PIVOT_ROOT[MACHINE], os.fsencode(new), os.fsencode(old))


def set_host_name(name: str) -> None:
    _checked("sethostname", _libc.sethostname(name.encode(), ctypes.c_size_t(len(name))))
