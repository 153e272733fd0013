"""Runs code that nobody has read: confined to a folder, no network, within limits, nothing left behind.

result = run("print(1 + 1)", workdir="work")
result.stdout, result.exit_code, str(result.level)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from . import folders, launch
from .child import untrusted
from .probing import choose, probe
from .records import Level, Limits, SandboxError, SandboxResult

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
                folders.drop_script(folder)
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
