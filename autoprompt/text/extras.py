"""How to install what a part of this program needs and is not here."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def install_extra(extra: str) -> str:
    """The command that installs the packages of an extra for the Python that runs.

    It names those packages, and not `autoprompt[extra]`: on the public index that name is another project's,
    and where this one was installed from need not be there any more.
    """
    needed = [name for name, marker in _required() if re.search(rf"extra == ['\"]{extra}['\"]", marker)]
    return install(needed or ["-e", f"{_ROOT}[{extra}]"])  # not installed, but run from its checkout


def install(wanted: Iterable[str]) -> str:
    """The command for these requirements, with the `pip` that belongs to the Python that runs."""
    found = shutil.which("pip")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = "pip" if is_ours else f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} install {shlex.join(wanted)}"


def requirements() -> list[str]:
    """What this program needs in any case, as pip takes it; empty where it was not installed."""
    return [name for name, marker in _required() if "extra ==" not in marker]


def _required() -> list[tuple[str, str]]:
    """Requirement and the condition that it is under."""
    try:
        lines = metadata.requires("autoprompt") or []
    except metadata.PackageNotFoundError:
        return []
    parts = (line.partition(";") for line in lines)
    return [(name.strip(), marker.strip()) for name, _, marker in parts]
