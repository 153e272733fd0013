"""The namespaces made by bubblewrap, which some systems let do what they refuse to other programs."""

from __future__ import annotations

import os

from .settings import Settings

_APART = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_FOR_SETUP = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


def become_bubblewrap(settings: Settings, report: int) -> None:
    """Does not return. bubblewrap then starts `__main__ inside`, as process 1 of the namespace."""
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
    """The folders above the targets, outer ones first, without those that are shown anyway."""
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
