"""The folder of this user's own settings: which folders are trusted, and the secret that marks runs."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_SECRET = "secret"
_FEWEST_BYTES = 32


def own_folder() -> Path | None:
    """Return `$XDG_CONFIG_HOME/autoprompt`, else `~/.config/autoprompt`; None for a user without a home.

    A relative XDG_CONFIG_HOME is ignored, as its specification demands: it would be the working directory.
    """
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    if chosen and Path(chosen).is_absolute():
        return Path(chosen) / "autoprompt"
    try:
        return Path.home() / ".config" / "autoprompt"
    except RuntimeError:
        return None


def write_private(name: str, text: str) -> Path:
    """Replace a file of the folder at once; only this user can read it. Raises OSError."""
    folder = _made()
    beside = folder / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        _write(beside, text)
        beside.replace(folder / name)
    finally:
        beside.unlink(missing_ok=True)
    return folder / name


def read_secret() -> bytes | None:
    """Return the secret of this user; None if there is none yet. Raises OSError."""
    folder = own_folder()
    path = None if folder is None else folder / _SECRET
    if path is None or not path.is_file():
        return None
    secret = path.read_bytes().strip()
    return secret if len(secret) >= _FEWEST_BYTES else None


def make_secret() -> bytes:
    """Return the secret of this user, made if need be. Raises OSError if the folder cannot be written."""
    if (known := read_secret()) is not None:
        return known
    folder = _made()
    beside = folder / f".{_SECRET}.{secrets.token_hex(4)}.tmp"
    try:
        _write(beside, secrets.token_hex(_FEWEST_BYTES) + "\n")
        try:
            os.link(beside, folder / _SECRET)  # of two processes that begin at once, one is first
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            beside.replace(folder / _SECRET)
    finally:
        beside.unlink(missing_ok=True)
    made = read_secret()
    if made is None:
        raise OSError(f"{folder / _SECRET} holds no secret: delete the file")
    return made


def _made() -> Path:
    folder = own_folder()
    if folder is None:
        raise OSError("this user has no home folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _write(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
