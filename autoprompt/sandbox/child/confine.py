"""How the process that becomes the code is confined: a root of its own, then limits, user, rights, exec.

The root holds the work folder, read-only libraries, an empty /tmp and nothing else of the machine. It is made
by ourselves, or by bubblewrap, which some systems let do what they refuse to other programs.
"""

# pathlib would be half of the start-up time of an experiment
# ruff: noqa: PTH102, PTH103, PTH106, PTH110, PTH112, PTH120, PTH211
from __future__ import annotations

import os
import resource
import signal

from . import linux, restrictions, tree
from .settings import Settings

_OLD = "/.old"
INNER_ID = 1000  # of the code in its user namespace, where root set it up
_DEVICES = ("null", "zero", "full", "random", "urandom")
_APART = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_FOR_SETUP = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))
_PUBLIC_OF_PROC = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat")
_SHARED_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def map_ids(pid: int, uid: int | None) -> None:
    """Write the user and group maps of a child that has just left for its own user namespace.

    uid None: the caller's own ids, which is what an unprivileged caller may map. Else 0 stays 0, for setting
    up, and `uid` (of the machine) is INNER_ID within, for the code.
    """
    if uid is None:
        maps = {"uid_map": f"{os.geteuid()} {os.geteuid()} 1", "gid_map": f"{os.getegid()} {os.getegid()} 1"}
        _write(f"/proc/{pid}/setgroups", "deny")
    else:
        both = f"0 0 1\n{INNER_ID} {uid} 1"
        maps = {"uid_map": both, "gid_map": both}
    for name, content in maps.items():
        _write(f"/proc/{pid}/{name}", content)


def enter_new_root(settings: Settings) -> None:
    """Make the mount, network, IPC, host name and cgroup namespaces and move into the new root."""
    apart = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    linux.unshare(apart | linux.CLONE_NEWCGROUP)
    linux.set_host_name("sandbox")
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    # Mounted over /tmp only until the pivot moves it to the root: the real /tmp is then in sight again.
    _mount_memory("/tmp", settings, "0755")
    os.mkdir("/tmp" + _OLD)
    linux.pivot_root("/tmp", "/tmp" + _OLD)
    os.chdir("/")
    for source, target in settings.read_only:
        _bind(source, target, read_only=True)
    _make_links(settings)
    _make_devices(settings)
    for path in ("/tmp", settings.scratch):
        if not os.path.ismount(path):
            os.makedirs(path, exist_ok=True)
            _mount_memory(path, settings, "1777")
    for source, target in settings.read_only:
        if target.startswith("/tmp/"):  # a virtual environment there, now hidden
            _bind(source, target, read_only=True)
    _make_links(settings)
    _bind(settings.workdir, settings.workdir, read_only=False)
    _mount_processes()
    linux.unmount(_OLD)
    os.rmdir(_OLD)
    linux.mount(None, "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)


def see_own_processes(settings: Settings) -> None:
    """For code that is not confined but in a process namespace: /proc has to show the same ids.

    Shared memory is the run's own, too: nobody could tell whose it is in that of the machine.
    """
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    if os.path.isdir("/dev/shm"):
        _mount_memory("/dev/shm", settings, "1777")
    # A segment of System V that no process has attached shows nowhere, so it has a limit of its own.
    try:
        _write("/proc/sys/kernel/shmall", str(settings.memory_bytes // os.sysconf("SC_PAGE_SIZE")))
    except PermissionError:  # root's alone
        return


def memory_folders(settings: Settings) -> list[str]:
    """Return the file systems in memory that a run with own namespaces can write to, as it sees them."""
    return ["/tmp", "/dev/shm"] if settings.namespaces else ["/dev/shm"]


def _write(path: str, content: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, content.encode())
    finally:
        os.close(descriptor)


def _mount_memory(path: str, settings: Settings, mode: str) -> None:
    options = f"mode={mode},size={settings.file_bytes},nr_inodes=100000"
    linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    """source: without symbolic links; they would lead through the new root."""
    source = _OLD + source
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(source, target, None, linux.MS_BIND | linux.MS_REC)
    if read_only:
        try:
            linux.make_read_only(target)
        except OSError:  # Linux before 5.12; flags that the mount has already must be repeated
            kept = os.statvfs(target).f_flag & (linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
            linux.mount(None, target, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | kept)


def _make_links(settings: Settings) -> None:
    for path, target in settings.links:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.lexists(path):
            os.symlink(target, path)


def _make_devices(settings: Settings) -> None:
    os.makedirs("/dev/shm")
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"/dev/{name}", read_only=False)
    for name, target in _LINKS:
        os.symlink(target, f"/dev/{name}")
    _mount_memory("/dev/shm", settings, "1777")


def _mount_processes() -> None:
    os.makedirs("/proc", exist_ok=True)
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    try:
        linux.mount("proc", "/proc", "proc", flags)
    except PermissionError:
        # A container that hides parts of its own /proc may not mount a whole one. Python does without.
        return


def become_bubblewrap(settings: Settings, report: int) -> None:
    """Become bubblewrap, which starts `__main__ inside` as process 1 of the namespace. Does not return."""
    content = os.memfd_create("settings")
    os.write(content, settings.packed()[4:])
    os.lseek(content, 0, os.SEEK_SET)
    for descriptor in (content, report):
        os.set_inheritable(descriptor, True)
    inside = [*settings.launcher, "inside", str(content), str(report)]
    os.execv(settings.bubblewrap, [settings.bubblewrap, *arguments(settings), "--", *inside])


def arguments(settings: Settings) -> list[str]:
    """bubblewrap's options. As root it is already in a user namespace, with another id for the code."""
    memory = ["--size", str(settings.file_bytes), "--tmpfs"]
    options = [*_APART, "--die-with-parent", "--as-pid-1", "--hostname", "sandbox"]
    if settings.uid is None:
        options.append("--unshare-user")
    else:
        options += [word for name in _FOR_SETUP for word in ("--cap-add", name)]
    options += ["--perms", "1777", *memory, "/tmp", "--dev", "/dev", "--perms", "1777", *memory, "/dev/shm"]
    options += ["--proc", "/proc"]
    if settings.scratch != "/tmp":
        options += ["--perms", "1777", *memory, settings.scratch]
    shown = [target for _, target in settings.read_only]
    linked = [path for path, _ in settings.links]
    for path in _parents(
        [*shown, *linked, settings.workdir], shown
    ):  # bubblewrap's own would be closed to the code
        options += ["--perms", "0755", "--dir", path]
    for source, target in settings.read_only:
        options += ["--ro-bind", source, target]
    for path, target in settings.links:
        options += ["--symlink", target, path]
    return [*options, "--bind", settings.workdir, settings.workdir, "--remount-ro", "/", "--chdir", "/"]


def _parents(targets: list[str], shown: list[str]) -> list[str]:
    """Return the folders above the targets, outer ones first, without those that are shown anyway."""
    found: list[str] = []
    for target in targets:
        words = target.split("/")[1:-1]
        for length in range(1, len(words) + 1):
            path = "/" + "/".join(words[:length])
            if path in shown:
                break
            if path not in ("/dev", "/proc", "/tmp", *found):
                found.append(path)
    return found


def become_code(settings: Settings) -> None:
    """Become the code of the run. Does not return.

    Raises:
        OSError: Naming the step that failed; the caller then ends the process.
    """
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
    argv = restrictions.mac_command(settings) if settings.seatbelt else settings.argv
    os.execvpe(argv[0], argv, settings.env)


def _change_user(uid: int, has_namespaces: bool) -> None:
    """Give up root and its rights; without namespaces but one, to read what is read-only.

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
