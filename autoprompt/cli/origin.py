"""Where this autoprompt was installed from, as pip on another machine takes it."""

from __future__ import annotations

import json
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

_SCP_LIKE = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+\.[\w-]+):(?P<path>[^/\\].*)")


def address() -> str:
    """For `pip install`: the Git address or archive it came from, of a checkout its remote's; "" if unknown.

    A name alone is none: on the public index it is another project's. Without what may be a password.
    """
    try:
        text = metadata.distribution("autoprompt").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return ""
    return address_of(json.loads(text)) if text else ""


def address_of(origin: dict[str, Any]) -> str:
    """The address in a `direct_url.json` (packaging.python.org, "Recording the Direct URL Origin")."""
    url = str(origin.get("url", ""))
    if vcs := origin.get("vcs_info"):
        remote = _public(url)
        commit = vcs.get("commit_id")
        return f"{vcs['vcs']}+{remote}{f'@{commit}' if commit else ''}" if remote else ""
    if "archive_info" in origin:
        return _public(url)
    if "dir_info" in origin and (remote := _public(_remote(Path(url2pathname(urlsplit(url).path))))):
        return f"git+{remote}"
    return ""


def _remote(checkout: Path) -> str:
    """The address that a checkout was cloned from; "" where there is none, or no git."""
    if not (checkout / ".git").exists():  # a folder inside of another project's checkout
        return ""
    command = ["git", "-C", str(checkout), "config", "--get", "remote.origin.url"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _public(url: str) -> str:
    """As https, without user and password; "" for what no other machine can reach."""
    if (short := _SCP_LIKE.fullmatch(url)) is not None:  # git@host:owner/name.git
        return f"https://{short['host']}/{short['path']}"
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "ssh":
        return f"https://{host.partition(':')[0]}{parts.path}"
    return urlunsplit((parts.scheme, host, parts.path, "", "")) if parts.scheme == "https" else ""
