"""Runs code that nobody has read: confined to a folder, no network, within limits, nothing left behind.

result = run("print(1 + 1)", workdir="work")
result.stdout, result.exit_code, str(result.level)
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from autoprompt.errors import Place, Problem

from . import folders, launch
from .child import restrictions, untrusted
from .records import Level, Limits, Namespaces, SandboxError, SandboxResult

__all__ = ["Level", "Limits", "SandboxError", "SandboxResult", "probe", "run", "untrusted"]


def run(
    code: str | Sequence[str],
    *,
    workdir: str | Path,
    data: Iterable[str | Path] = (),
    level: Literal["auto", "strict", "none"] | Level = "auto",
    limits: Limits | None = None,
    python: str = sys.executable,
) -> SandboxResult:
    """Run Python source, or a command given as a list of words, and wait until all of it is gone.

    workdir: made if it is not there; all that the code can write to, next to a private HOME and TMPDIR. One
    run at a time in a folder. data: files copied into it under their names. level: "auto" takes the strongest
    that works on the machine and refuses where nothing confines, "strict" demands all layers, "none" runs
    unconfined but within the limits; a `Level` asks for exactly that. python: the interpreter for the source.

    Code that fails, hangs or eats too much is a result.

    Raises:
        SandboxError: If it could not be run at all.
    """
    chosen = choose(level)
    limits = limits or Limits()
    python = folders.absolute(python)
    work = Path(workdir).resolve()
    if chosen.confines:
        folders.check_apart(work, python)
    source = code if isinstance(code, str) else None
    with folders.opened(work) as folder:
        own = folders.prepare(folder, work, [Path(path) for path in data], source)
        before = folders.snapshot(folder)
        argv = list(code) if source is None else [python, str(work / folders.SCRIPT)]
        try:
            outcome = launch.execute(argv, work, chosen, limits, python)
        finally:
            if source is not None:
                untrusted.remove(folder, folders.SCRIPT)
        made = folders.new_files(folder, before, own)
    return SandboxResult(
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        exit_code=outcome.exit_code,
        timed_out=outcome.killed_by == "time",
        killed_by=outcome.killed_by,
        new_files=made,
        duration_s=outcome.duration_s,
        level=chosen,
    )


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
        fix = "Install bubblewrap or a newer kernel (6.2), or use {sandbox}, the strongest level here."
        raise SandboxError(Problem("sandbox.not-strict", said, fix=fix, settings={"sandbox": "auto"}))
    if not found.confines:
        said = (
            "this machine cannot confine code (tried bubblewrap, user namespaces, Landlock with seccomp, "
            "sandbox-exec)"
        )
        fix = "{sandbox} runs the code unconfined, with all your rights."
        raise SandboxError(Problem("sandbox.none-there", said, fix=fix, settings={"sandbox": "none"}))
    return found
