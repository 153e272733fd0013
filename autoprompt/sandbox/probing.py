"""What the machine offers, found out by running it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autoprompt.errors import Place, Problem

from . import folders, launch
from .child import restrictions
from .records import Level, Limits, Namespaces, SandboxError

# Says "confined" if it cannot read a file of the machine and cannot send to a network.
_TRY = """
import os, socket
def fails(action):
    try:
        action()
    except OSError:
        return True
    return False
def send():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 9))
if all([fails(lambda: open("/etc/passwd")), fails(lambda: os.listdir("/home")), fails(send)]):
    open("made", "w").close()
    print("confined")
"""


@dataclass(frozen=True)
class Offers:
    """What seems to be there, before it is tried."""

    bubblewrap: bool
    userns: bool
    landlock: int
    seccomp: bool
    seatbelt: bool

    def levels(self) -> list[Level]:
        """Return those that confine, strongest first."""
        found: list[Namespaces] = []
        if self.bubblewrap:
            found.append("bubblewrap")
        if self.userns:
            found.append("userns")
        found.append("")
        levels = [Level(kind, self.landlock, self.seccomp) for kind in found]
        if self.seatbelt:
            levels.append(Level(seatbelt=True))
        return [level for level in levels if level.confines]


def offers() -> Offers:
    is_linux = sys.platform == "linux"
    return Offers(
        bubblewrap=is_linux and shutil.which("bwrap") is not None,
        userns=is_linux and Path("/proc/self/ns/user").exists(),
        landlock=restrictions.landlock_abi() if is_linux else 0,
        seccomp=is_linux and restrictions.has_filter() and Path("/proc/sys/kernel/seccomp").exists(),
        seatbelt=sys.platform == "darwin" and Path(restrictions.SANDBOX_EXEC).exists(),
    )


@cache
def probe() -> Level:
    """Return the strongest level that works here, `Level()` if nothing confines. Cached for the process."""
    return strongest(offers())


def strongest(offered: Offers) -> Level:
    """Try the levels in turn, each by a run that must not get out."""
    for level in offered.levels():
        if works(level):
            return level
    return Level()


def works(level: Level) -> bool:
    python = folders.absolute(sys.executable)
    with tempfile.TemporaryDirectory(prefix="autoprompt-probe-") as folder:
        argv = [python, "-I", "-S", "-c", _TRY]
        try:
            outcome = launch.execute(argv, Path(folder).resolve(), level, Limits(wall_s=10), python)
        except SandboxError:
            return False
    return outcome.stdout == "confined\n"


def choose(level: str | Level, probing: Callable[[], Level] = probe) -> Level:
    """Return what "auto", "strict" or "none" comes to on this machine.

    Raises:
        SandboxError: If it refuses.
    """
    if isinstance(level, Level):
        return level
    if level == "none":
        return Level()
    if level not in ("auto", "strict"):
        said = f"expected auto, strict or none, found {level!r}"
        raise SandboxError(Problem("settings.bad-value", said, Place(setting="sandbox")))
    found = probing()
    if level == "strict" and not found.is_full:
        said = f"sandbox strict needs namespaces, Landlock and seccomp; this machine gives: {found}"
        fix = "Use {sandbox} for what there is, or install bubblewrap or a newer kernel (6.2)."
        raise SandboxError(Problem("sandbox.not-strict", said, fix=fix, settings={"sandbox": "auto"}))
    if not found.confines:
        said = (
            "nothing on this machine confines code (tried bubblewrap, user namespaces, Landlock with "
            "seccomp, sandbox-exec)"
        )
        fix = "{sandbox} runs it unconfined, with all your rights."
        raise SandboxError(Problem("sandbox.none-there", said, fix=fix, settings={"sandbox": "none"}))
    return found
