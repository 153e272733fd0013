"""macOS: the code is started by sandbox-exec with a profile of what it may do.

Source of the language: the profiles in /System/Library/Sandbox/Profiles. Not tried by our tests, which run on
Linux; what a level reaches is tried by the probe before it is taken.
"""

from __future__ import annotations

from .settings import Settings

PROGRAM = "/usr/bin/sandbox-exec"
_SYSTEM = (
    "/System",
    "/Library/Frameworks",
    "/Library/Developer",
    "/private/var/db/dyld",
    "/private/etc/localtime",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")


def command(settings: Settings) -> list[str]:
    return [PROGRAM, "-p", profile(settings), *settings.argv]


def profile(settings: Settings) -> str:
    """Everything is denied but starting processes, reading libraries and writing to the run's own folders."""
    readable = [*_SYSTEM, *(path for pair in settings.read_only for path in pair)]
    devices = " ".join(f"(literal {_quoted(path)})" for path in _DEVICES)
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
