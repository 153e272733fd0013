"""How to install what a part of this program needs and is not here."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

_ROOT = Path(__file__).parents[2]


def install_extra(extra: str) -> str:
    """Return the command that installs an extra for the Python that runs, from where this program came.

    That is the checkout, the repository or file, or the index that it was installed from. If its folder is
    gone, the packages of the extra are named: the public index has another project of the same name.
    """
    try:
        origin = json.loads(metadata.distribution("autoprompt").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # not installed, but run from its checkout
        return install(["-e", f"{_ROOT}[{extra}]"])
    url = str(origin.get("url", ""))
    if not url:
        return install([f"autoprompt[{extra}]"])
    if "dir_info" not in origin:
        vcs = origin.get("vcs_info", {})
        at = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
        return install([f"autoprompt[{extra}] @ {at}"])
    folder = Path(url2pathname(urlsplit(url).path))
    if not folder.is_dir():
        return install(name for name, marker in _required() if f"extra == '{extra}'" in _quoted(marker))
    return install([*(["-e"] if origin["dir_info"].get("editable") else []), f"{folder}[{extra}]"])


def _quoted(marker: str) -> str:
    return marker.replace('"', "'")


def install(wanted: Iterable[str]) -> str:
    """Return the command for these requirements, with the `pip` of the Python that runs."""
    found = shutil.which("pip")
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    pip = "pip" if is_ours else f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} install {shlex.join(wanted)}"


def requirements() -> list[str]:
    """Return what this program always needs, as pip takes it; empty if it was not installed."""
    return [name for name, marker in _required() if "extra ==" not in marker]


def _required() -> list[tuple[str, str]]:
    """Return each requirement with its condition."""
    try:
        lines = metadata.requires("autoprompt") or []
    except metadata.PackageNotFoundError:
        return []
    parts = (line.partition(";") for line in lines)
    return [(name.strip(), marker.strip()) for name, _, marker in parts]
