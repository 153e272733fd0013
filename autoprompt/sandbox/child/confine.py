"""The last steps in the process that becomes the code: limits, user, rights, filter, exec."""

from __future__ import annotations

import os
import resource
import signal

from . import linux, restrictions, seatbelt, tree
from .namespaces import INNER_ID
from .settings import Settings

_PUBLIC_OF_PROC = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
_SHARED_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def become_code(settings: Settings) -> None:
    """Does not return. Raises OSError naming the step that failed; the caller then ends the process."""
    os.chdir(settings.workdir)
    os.umask(0o022)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored is inherited
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if settings.uid is not None:
        _change_user(settings.uid, bool(settings.namespaces))
        if not settings.namespaces:  # the change has cleared it
            linux.signal_at_parent_death(signal.SIGKILL)
    elif settings.namespaces:
        linux.reduce_capabilities(None)
    _set_limits(settings)
    if os.uname().sysname == "Linux":
        _restrict(settings)
    argv = seatbelt.command(settings) if settings.seatbelt else settings.argv
    os.execvpe(argv[0], argv, settings.env)


def _change_user(uid: int, has_namespaces: bool) -> None:
    """Gives up root and its rights; without namespaces but one, to read what is read-only.

    root's Python often lies below a home that nobody else may enter. Landlock still decides what is read,
    and the filter refuses the call that would read past it.
    """
    if not has_namespaces:
        linux.keep_capabilities_over_user_change()
    inner = INNER_ID if has_namespaces else uid
    os.setgroups([])
    os.setresgid(inner, inner, inner)
    os.setresuid(inner, inner, inner)
    try:
        linux.reduce_capabilities(None if has_namespaces else linux.CAP_DAC_READ_SEARCH)
    except PermissionError:  # a container whose root does not have it
        linux.reduce_capabilities(None)


def _restrict(settings: Settings) -> None:
    if settings.namespaces or settings.landlock or settings.seccomp:
        linux.forbid_new_privileges()
    if settings.landlock:
        restrictions.restrict_files(settings.landlock, _rules(settings))
    if settings.seccomp:
        alone = bool(settings.namespaces)
        others_safe = alone or settings.uid is not None or settings.landlock >= restrictions.SCOPES_SIGNALS
        may_signal = None if others_safe else os.getpid()
        linux.install_filter(restrictions.build_filter(own_files_only=alone, only_signal=may_signal))


def _rules(settings: Settings) -> list[tuple[str, int]]:
    rules = [(target, restrictions.READ) for _, target in settings.read_only]
    rules += [(path, restrictions.DEVICE) for path in _SHARED_DEVICES]
    rules += [(path, restrictions.EVERYTHING) for path in (settings.workdir, settings.scratch)]
    if settings.namespaces:  # all of these show nothing but this run
        rules += [
            ("/tmp", restrictions.EVERYTHING),
            ("/dev/shm", restrictions.EVERYTHING),
            ("/proc", restrictions.READ),
        ]
        rules += [("/dev", restrictions.READ), ("/", restrictions.LIST)]
    else:
        rules += [(path, restrictions.READ) for path in _PUBLIC_OF_PROC]
    return rules


def _set_limits(settings: Settings) -> None:
    wanted = [
        (resource.RLIMIT_CORE, 1, 1),  # not 0: that still starts the program that collects core dumps
        (resource.RLIMIT_CPU, settings.cpu_s, settings.cpu_s + 1),
        (resource.RLIMIT_FSIZE, settings.file_bytes, settings.file_bytes),
        (resource.RLIMIT_NOFILE, settings.open_files, settings.open_files),
        (resource.RLIMIT_AS, settings.memory_bytes, settings.memory_bytes),
    ]
    if settings.namespaces or settings.uid is not None or (settings.tree and os.geteuid() != 0):
        wanted.append((resource.RLIMIT_NPROC, settings.processes, settings.processes))
    elif os.geteuid() != 0:  # the count includes the caller's other processes
        most = settings.processes + tree.tasks_of(os.getuid())
        wanted.append((resource.RLIMIT_NPROC, most, most))
    for kind, soft, hard in wanted:
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        try:
            resource.setrlimit(kind, (soft, hard))
        except (ValueError, OSError):
            if kind != resource.RLIMIT_AS or os.uname().sysname == "Linux":  # macOS has no such limit
                raise
