"""What the system refuses to the code: files that it was not given, and calls.

Linux does by Landlock and a seccomp filter. macOS starts the code by sandbox-exec with a profile of what it
may do; that is not tried by our tests, which run on Linux, but by the probe before a level is taken.

Refused calls fail with EPERM (or ENOSYS if libraries have a way without the call), so that the code sees an
exception and goes on. A call in a foreign calling convention, which no filter by number can read, kills.
Sources: linux/landlock.h, linux/filter.h, linux/seccomp.h; numbers from the tables of Linux 6.12; the
profiles in /System/Library/Sandbox/Profiles.
"""

from __future__ import annotations

import os
import stat
import struct

from . import linux
from .settings import Settings

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
READ = _EXECUTE | _READ_FILE | _READ_DIR
SCOPES_SIGNALS = 6
LIST = _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE
EVERYTHING = (1 << 16) - 1

# name: (x86_64, aarch64), -1 where the machine does not have it.
_REFUSED = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "perf_event_open": (298, 241),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "unshare": (272, 97), "setns": (308, 268),
    # files by handle go round every check by path
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    # keys, and the kernel itself
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "userfaultfd": (323, 282), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, -1), "ioperm": (173, -1), "modify_ldt": (154, -1), "vhangup": (153, 58),
    # memory that no limit counts
    "shmget": (29, 194), "msgget": (68, 186),
}  # fmt: skip
_ABSENT = {
    "clone3": (435, 435),  # its flags are in memory, which a filter cannot read; libc falls back to clone
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
}  # fmt: skip
# Landlock has no say over these: refused where no mount namespace makes the rest of the disk read-only.
_BY_PATH = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "lchown": (94, -1), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "truncate": (76, 45),
}  # fmt: skip
# Signals by the process they go to, and with no process in the first argument.
_SIGNALS = {"tgkill": (234, 131), "rt_tgsigqueueinfo": (297, 240)}
_SIGNALS_TO_ANY = {
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "pidfd_send_signal": (424, 424),
}  # fmt: skip
_SOCKET, _SOCKETPAIR, _CLONE, _IOCTL = (41, 198), (53, 199), (56, 220), (16, 29)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_AF_UNIX = 1
_NEW_NAMESPACE = (
    linux.CLONE_NEWNS | linux.CLONE_NEWCGROUP | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER | linux.CLONE_NEWPID | linux.CLONE_NEWNET
)  # fmt: skip
_TYPE_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_MAC_SYSTEM = (
    "/System",
    "/Library/Frameworks",
    "/Library/Developer",
    "/private/var/db/dyld",
    "/private/etc/localtime",
)
_MAC_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")


def landlock_abi() -> int:
    """Return the version that the kernel speaks; 0 where it has none or has it switched off."""
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


def restrict_files(version: int, rules: list[tuple[str, int]]) -> None:
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


def has_filter(machine: str = linux.MACHINE) -> bool:
    return machine in _ARCHITECTURES


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _argument(index: int) -> bytes:
    """Load the low half, which is all that the kernel reads of an int."""
    return _step(_LOAD, 16 + 8 * index)


def build_filter(
    *, own_files_only: bool, only_signal: int | None = None, machine: str = linux.MACHINE
) -> bytes:
    """Return the program for `linux.install_filter`.

    own_files_only: the code sees no files but its own and read-only ones (a mount namespace). Without it,
    local sockets (a container engine's, say) and changes of mode, owner and length by path are refused too.
    only_signal: the one process that may be sent signals, where nothing else protects the caller's others.

    Raises:
        KeyError: For a machine that `has_filter` denies.
    """
    column, architecture = _ARCHITECTURES[machine]
    program = [_step(_LOAD, 4), _step(_EQUAL, architecture, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, 0)]
    if machine == "x86_64":  # the x32 convention numbers its calls from here
        program += [_step(_AT_LEAST, 0x40000000, 0, 1), _step(_RETURN, _KILL)]

    def refuse(numbers: tuple[int, int], error: int) -> None:
        if numbers[column] >= 0:
            program.append(_step(_EQUAL, numbers[column], 0, 1) + _step(_RETURN, _ERROR | error))

    def refuse_if(numbers: tuple[int, int], *test: bytes) -> None:
        """test: jumps over nothing to allow, over one step to refuse."""
        body = b"".join(test) + _step(_RETURN, _ALLOW) + _step(_RETURN, _ERROR | _EPERM)
        program.append(_step(_EQUAL, numbers[column], 0, len(body) // 8) + body)

    for numbers in _REFUSED.values():
        refuse(numbers, _EPERM)
    for numbers in _ABSENT.values():
        refuse(numbers, _ENOSYS)
    if own_files_only:
        refuse_if(_SOCKET, _argument(0), _step(_EQUAL, _AF_UNIX, 0, 1))
    else:
        refuse(_SOCKET, _EPERM)
        for numbers in _BY_PATH.values():
            refuse(numbers, _EPERM)
    if only_signal is not None:
        for numbers in _SIGNALS.values():
            refuse_if(numbers, _argument(0), _step(_EQUAL, only_signal, 0, 1))
        for numbers in _SIGNALS_TO_ANY.values():
            refuse(numbers, _EPERM)
    refuse_if(_SOCKETPAIR, _argument(0), _step(_EQUAL, _AF_UNIX, 0, 1))
    refuse_if(_CLONE, _argument(0), _step(_ANY_BIT, _NEW_NAMESPACE, 1, 0))
    first, second = _TYPE_INTO_TERMINAL
    refuse_if(_IOCTL, _argument(1), _step(_EQUAL, first, 2, 0), _step(_EQUAL, second, 1, 0))
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def mac_command(settings: Settings) -> list[str]:
    """Return the words that start the code under its profile."""
    return [SANDBOX_EXEC, "-p", _mac_profile(settings), *settings.argv]


def _mac_profile(settings: Settings) -> str:
    """Everything is denied but starting processes, reading libraries and writing to the run's own folders."""
    readable = [*_MAC_SYSTEM, *(path for pair in settings.read_only for path in pair)]
    devices = " ".join(f"(literal {_quoted(path)})" for path in _MAC_DEVICES)
    return "\n".join(
        [
            "(version 1)",
            "(deny default)",
            "(allow process-fork process-exec sysctl-read mach-lookup ipc-posix-sem)",
            "(allow signal (target same-sandbox))",
            "(allow file-read-metadata)",
            f'(allow file-read* (literal "/") {" ".join(_below(path) for path in readable)})',
            f"(allow file-read* file-write-data {devices})",
            f"(allow file-read* file-write* {_below(settings.workdir)} {_below(settings.scratch)})",
        ]
    )


def _below(path: str) -> str:
    return f"(subpath {_quoted(path)})"


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
